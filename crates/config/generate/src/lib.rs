//! Generated MachineConfigs: the platform's base, and those of KubeletConfigs and
//! ContainerRuntimeConfigs.
//!
//! Pure: no I/O, no clock, no randomness, no environment. Each kind has one function `desired` over plain inputs, which
//! says what to write and why; to carry the writes out and to ask again gives nothing more to write.

pub mod base;
pub mod conditions;
pub mod container_runtime;
pub mod edit;
pub mod generated;
pub mod kubelet;
pub mod name;
pub mod pool_settings;
pub mod quantity;
mod source;
pub mod tls;

pub use pool_settings::{
    PoolOutcome, PoolReport, PoolSettings, Refusal, SettingsDecision, SettingsInputs, SettingsReport, UnmetPrecondition,
};
pub use source::SourceError;
