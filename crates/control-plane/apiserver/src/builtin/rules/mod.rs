//! Validation rules that several built-in kinds share: pods and their templates, containers, volumes, services.

pub mod container;
pub mod placement;
pub mod pod;
pub mod security;
pub mod service;
pub mod variable;
pub mod volume;
