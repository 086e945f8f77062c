//! The runtime of every operator: caches, queues, the applier, events, metrics and leadership.
//!
//! A controller reads [`Cache`]s, decides by a pure function, and has its decision performed by the one [`Applier`]:
//!
//! - [`cache`] and [`cache_set`]: what the API holds of a kind, and the kinds of one operator;
//! - [`applier`]: the one place that writes;
//! - [`queue`] and [`worker`]: which key is reconciled next, and the loop that does it;
//! - [`events`] and [`metrics`]: what is recorded and counted;
//! - [`operator`]: the contract of an operator, and its supervisor; [`definition`] and [`availability`]: when it runs;
//! - [`election`] and [`leadership`]: of several processes, one acts.

pub mod applier;
pub mod availability;
pub mod cache;
pub mod cache_set;
pub mod checked;
pub mod client_error;
pub mod definition;
pub mod election;
pub mod events;
mod holdings;
pub mod install;
pub mod leadership;
pub mod metrics;
pub mod operator;
pub mod queue;
mod request;
pub mod worker;
pub mod write_error;

pub use applier::{Applier, Performed};
pub use availability::{Availability, OperatorState};
pub use cache::{Cache, Delta, Key};
pub use cache_set::{AnyCache, CacheSet};
pub use checked::Checked;
pub use definition::Definitions;
pub use election::Terms;
pub use events::Events;
pub use leadership::{Campaign, Leadership};
pub use metrics::{MetricSet, Metrics};
pub use operator::{Clock, Instance, Operator, OperatorContext, Parts};
pub use queue::Queue;
pub use worker::{Controller, Failure, Next, Observer, Retry};
pub use write_error::WriteError;
