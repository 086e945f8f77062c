//! Preview: what manifests and the controllers of all operators make of a cluster, computed in memory.
//!
//! - [`apply`] and [`delete`] change objects in memory as kubectl changes a cluster, as far as [`admission`] lets them;
//! - [`run_to_fixpoint`] runs the [`PreviewPart`]s of operators on them until nothing is left to write.
//!
//! Operators contribute their parts and their [`AdmissionRule`]s. Of kinds it knows only that MachineConfigs belong to pools: a part
//! may report by the name of a pool why they are not yet what its objects ask for ([`PreviewPart::pending`]).

pub mod admission;
mod apply;
mod fixpoint;
mod manifest;
mod part;
mod problem;

pub use admission::{Admission, AdmissionIssue, AdmissionRule, Effect};
pub use apply::{ApplyOutcome, ApplyResult, apply, delete, object_of};
pub use fixpoint::{PreviewRound, run_to_fixpoint};
pub use part::{PreviewPart, pending, pending_tables, tables};
pub use problem::PreviewProblem;
