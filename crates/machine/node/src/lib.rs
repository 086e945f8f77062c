//! Node daemon: updates its machine from the configuration that it runs to the one that it is ordered to run.
//!
//! - Decisions are pure functions of what was read: [`steps`](decide::steps::steps), [`decide`](decide::decide).
//! - Updates are journalled ([`update::journal`]): after a power cut at any point the next start ends in the old configuration
//!   or in the new one, never between.
//! - A call of [`Agent::sync`] never waits: it does what can be done now and reports what it waits for, so the order is read
//!   again before every further step.
//!
//! | module | content |
//! |---|---|
//! | [`daemon`] | the process: reads the order from the API, reports to it, watches |
//! | [`agent`] | the coordinator over one machine |
//! | [`decide`] | pure decisions: the target state, the next action, the steps, the disruption, refusals |
//! | [`update`] | updates: the journal and its phases, reboots, drains, first boot, recovery before the kubelet |
//! | [`drift`] | comparison with the configuration, repairs, certificates |
//! | [`order`], [`paths`], [`clock`] | shared types and paths |

pub mod agent;
pub mod clock;
pub mod daemon;
pub mod decide;
pub mod drift;
mod failure;
pub mod order;
pub mod paths;
pub mod update;

pub use agent::{Agent, AgentOptions};
pub use daemon::{Daemon, DaemonIntervals};
pub use decide::steps::{Step, steps};
pub use decide::target::TargetState;
pub use decide::{observed, target};
pub use drift::{difference, validate};
pub use order::{Config, ConfigSpec, Order, Report};
pub use update::{first_boot, perform, recovery};
