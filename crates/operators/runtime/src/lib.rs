//! The runtime of every operator: caches, queues, the applier, events, metrics and leadership.
//!
//! A controller reads [`Cache`]s, decides by a pure function, and has its decision performed by an [`Applier`]:
//!
//! - [`cache`] and [`cache_set`]: the objects of a kind, and the caches of one operator;
//! - [`applier`]: performs decisions: controllers write through nothing else;
//! - [`queue`] and [`worker`]: the work queue and the reconcile loop;
//! - [`events`] and [`metrics`]: Kubernetes Events and Prometheus metrics;
//! - [`operator`]: the trait of operators and their supervisor; [`definition`] and [`availability`]: when an operator runs;
//! - [`election`] and [`leadership`]: leader election, which writes the lease; [`install`]: writes definitions and the namespace;
//! - [`cluster`]: a client from a kubeconfig, and messages for refused and failed calls; [`objects`]: writes of commands;
//!   [`tables`] and [`admission_policies`]: their reads.

pub mod admission_policies;
pub mod applier;
pub mod availability;
pub mod cache;
pub mod cache_set;
mod cache_state;
pub mod client_error;
pub mod cluster;
pub mod definition;
pub mod election;
pub mod events;
pub mod install;
pub mod leadership;
pub mod metrics;
pub mod objects;
pub mod operator;
pub mod queue;
mod request;
pub mod tables;
pub mod watched_object;
pub mod worker;
pub mod write_error;

pub use applier::{Applier, DecisionOutcome};
pub use availability::{Availability, OperatorState};
pub use cache::{Cache, Delta, Key};
pub use cache_set::{AnyCache, CacheSet};
pub use definition::Definitions;
pub use election::LeaseTimings;
pub use events::Events;
pub use leadership::{LeaderElector, Leadership};
pub use metrics::{MetricSet, Metrics};
pub use operator::{Clock, EnabledControllers, NAMESPACE, Operator, OperatorContext, OperatorInstance, build};
pub use queue::Queue;
pub use watched_object::WatchedObject;
pub use worker::{Controller, ReconcileError, ReconcileObserver, Requeue, RetryPolicy};
pub use write_error::WriteError;
