//! What every controller stands on.
//!
//! A controller reads [`Cache`]s, decides by a pure function, and has the changes made by the one applier. The rooms:
//!
//! - [`cache`]: what the API holds of one kind, one watch for all;
//! - [`applier`]: the one place that writes;
//! - [`queue`] and [`worker`]: what is looked at next, and the loop that does it;
//! - [`events`] and [`metrics`]: what is told and counted;
//! - [`election`] and [`leadership`]: of several processes, one acts.

pub mod applier;
pub mod cache;
pub mod checked;
pub mod election;
pub mod events;
mod holdings;
pub mod leadership;
pub mod metrics;
pub mod queue;
pub mod words;
pub mod worker;

pub use applier::{Applier, Mode, WriteError};
pub use cache::{Cache, Delta, Key};
pub use checked::Checked;
pub use election::Terms;
pub use events::{Events, Gravity};
pub use leadership::{Campaign, Leadership};
pub use metrics::Metrics;
pub use queue::Queue;
pub use worker::{Controller, Failure, Next, Observer, Retry};
