//! The MachineConfigs that come from other objects: the platform's own base, and those of KubeletConfigs and
//! ContainerRuntimeConfigs.
//!
//! Pure: no I/O, no clock, no randomness, no environment. Each kind has one function `desired` over plain inputs, which
//! says what to write and why; to carry the writes out and to ask again gives nothing more to write.

pub mod base;
pub mod conditions;
pub mod container_runtime;
pub mod edit;
pub mod envelope;
pub mod kubelet;
pub mod name;
pub mod quantity;
pub mod settings;
mod source;
pub mod tls;

pub use settings::{Decision, Inputs, PoolOutcome, PoolReport, Refusal, Report, Settings, Waiting};
pub use source::SourceError;
