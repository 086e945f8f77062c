//! The node daemon: brings its machine from the configuration that it runs to the one that it is ordered to run.
//!
//! - What to do is decided by pure functions over what was read: [`steps`](decide::steps::steps), [`decide`](decide::decide).
//! - Doing it is journalled ([`update::journal`]): after a power cut at any point the next start ends in the old configuration
//!   or in the new one, never between.
//! - A call of [`Agent::sync`] never waits: it does what can be done now and reports what it waits for, so the order is read
//!   again before every step further.
//!
//! | module | content |
//! |---|---|
//! | [`daemon`] | the shell: reads the order from the API, reports to it, watches |
//! | [`agent`] | the coordinator over one machine |
//! | [`decide`] | pure decisions: the target, the next move, the steps, the disruption, refusals |
//! | [`update`] | updates: the journal and its phases, reboots, drains, first boot, recovery before the kubelet |
//! | [`drift`] | comparison with the configuration, repairs, certificates |
//! | [`order`], [`paths`], [`clock`] | what they share |

pub mod agent;
pub mod clock;
pub mod daemon;
pub mod decide;
pub mod drift;
mod failure;
pub mod order;
pub mod paths;
pub mod update;

pub use agent::{Agent, Settings};
pub use daemon::{Daemon, Rhythm};
pub use decide::steps::{Step, steps};
pub use decide::target::Target;
pub use decide::{observed, target};
pub use drift::{difference, validate};
pub use order::{Config, Order, Report};
pub use update::{first_boot, perform, recovery};
