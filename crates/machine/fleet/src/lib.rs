//! Nodes without machines: each runs the real node daemon on a machine in memory, and hundreds fit into one process.
//!
//! What is real: the daemon, from its first boot over its orders to the last byte and back, and everything that it says to the
//! API; also the request for its first configuration, where there is an endpoint. What is
//! played: the machine ([`FakeHost`]), the kubelet (its Node, its pods), and the part of a cluster that counts
//! PodDisruptionBudgets. Time is tokio's, so a test can stop it and let it jump; the date comes from a clock that is given.
//! A node costs about 200 KiB and no thread of its own (`tests/many.rs` prints it).
//!
//! | question | module |
//! |---|---|
//! | which machines are there, and what becomes of them? | [`fleet`] |
//! | how does a machine come into the world? | [`ignition`], [`machine`] |
//! | what does the API see of it beside the daemon? | [`kubelet`], [`pods`] |
//! | how many pods may go? | [`budgets`] |
//! | what runs on the machines? | [`workload`] |

pub mod budgets;
pub mod fleet;
pub mod ignition;
pub mod kubelet;
pub mod machine;
pub mod pods;
pub mod workload;

pub use fleet::{Fleet, Setup};
pub use ignition::Stubs;
pub use machine::MachineError;
pub use seaworthy_host::FakeHost;
pub use workload::Workload;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use seaworthy_node::Rhythm;

/// Tells the date; a test turns it by hand.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the daemon's end until a machine is back from its boot.
    pub boot: Duration,
    /// From the request that a pod ends until it is gone.
    pub pod_end: Duration,
    /// Between two signs of life of a node; none at all without it.
    pub heartbeat: Option<Duration>,
    /// When a daemon looks again by itself.
    pub rhythm: Rhythm,
}

impl Default for Pace {
    /// Fast, but long enough to be seen.
    fn default() -> Self {
        Pace {
            boot: Duration::from_secs(2),
            pod_end: Duration::from_secs(1),
            heartbeat: None,
            rhythm: Rhythm::default(),
        }
    }
}

/// The date as the API writes it.
pub(crate) fn written(clock: &Clock) -> String {
    let now = clock();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
