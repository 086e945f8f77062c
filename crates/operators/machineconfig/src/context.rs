//! Context: the caches, client, leadership, metrics and clock that all controllers share.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use seaworthy_change::to_second;
use seaworthy_runtime::{Applier, Leadership, Metrics, NAMESPACE, OperatorContext, build};

use crate::caches::Caches;
use crate::render::pool_targets::PoolTargets;

pub use seaworthy_runtime::Clock;

/// The context of every controller. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    pub caches: Caches,
    /// For reads that must not come from a cache.
    pub client: Client,
    /// Whether this process may write.
    pub leadership: Leadership,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// The build of this program: an annotation on what it generates.
    pub build: Arc<str>,
    /// The namespace of what the operator stores for itself.
    pub namespace: Arc<str>,
    pub targets: PoolTargets,
}

impl Context {
    /// For a process that has the cluster to itself, with the system's clock.
    pub fn new(client: Client) -> Context {
        Context {
            caches: Caches::default(),
            client,
            leadership: Leadership::always(),
            metrics: Arc::default(),
            clock: Arc::new(Timestamp::now),
            build: build().into(),
            namespace: NAMESPACE.into(),
            targets: PoolTargets::default(),
        }
    }

    /// For one run of the operator in a process, with empty caches.
    pub fn of(process: &OperatorContext) -> Context {
        Context {
            caches: Caches::default(),
            client: process.client.clone(),
            leadership: process.leadership.clone(),
            metrics: Arc::clone(&process.metrics),
            clock: Arc::clone(&process.clock),
            build: Arc::clone(&process.build),
            namespace: Arc::clone(&process.namespace),
            targets: PoolTargets::default(),
        }
    }

    /// The applier of the controller with this name.
    pub fn applier(&self, controller: &'static str) -> Applier {
        let (leadership, metrics) = (self.leadership.clone(), Arc::clone(&self.metrics));
        Applier::new(self.client.clone(), controller, leadership, metrics, self.caches.set())
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The time as in conditions: to the second.
    pub fn time(&self) -> Time {
        Time(to_second(self.now()))
    }
}
