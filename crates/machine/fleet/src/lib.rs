//! Simulated fleet: nodes that run the real node daemon on machines in memory, hundreds of them in one process.
//!
//! The daemon is real, with its first boot, its updates and reverts, and its requests to the API; so is the request for the first
//! configuration, if there is an Ignition endpoint. Simulated are the machine ([`FakeHost`]), the kubelet (its Node, its pods),
//! and the controller of PodDisruptionBudgets. Time is tokio's, so a test can pause and advance it; the date comes from a given
//! clock.
//! A node costs about 200 KiB and no thread of its own (`tests/many.rs` prints it).
//!
//! | module | content |
//! |---|---|
//! | [`fleet`] | the machines, from boot to boot |
//! | [`ignition`], [`machine`] | creation of a machine |
//! | [`kubelet`], [`pods`] | what a kubelet writes to the API |
//! | [`budgets`] | status of PodDisruptionBudgets |
//! | [`workload`] | pods on the machines |

pub mod budgets;
pub mod fleet;
pub mod ignition;
pub mod kubelet;
pub mod machine;
pub mod objects;
pub mod pods;
pub mod workload;

pub use fleet::{Fleet, FleetOptions};
pub use ignition::StubSource;
pub use machine::MachineError;
pub use seaworthy_host::FakeHost;
pub use workload::Workload;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use seaworthy_node::DaemonIntervals;

/// Returns the date; a test has its own.
pub type FleetClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Durations in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetTimings {
    /// The duration of a reboot.
    pub boot_delay: Duration,
    /// The duration of a pod's termination.
    pub pod_termination_delay: Duration,
    /// The interval of a kubelet's status updates; `None` for no updates.
    pub heartbeat_interval: Option<Duration>,
    /// The intervals of the daemons.
    pub intervals: DaemonIntervals,
}

impl Default for FleetTimings {
    /// Fast, but long enough to be noticed by a user.
    fn default() -> Self {
        FleetTimings {
            boot_delay: Duration::from_secs(2),
            pod_termination_delay: Duration::from_secs(1),
            heartbeat_interval: None,
            intervals: DaemonIntervals::default(),
        }
    }
}

/// The date in the format of the API.
pub(crate) fn timestamp(clock: &FleetClock) -> String {
    let now = clock();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
