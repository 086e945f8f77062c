//! The context of every controller: caches, client, leadership, metrics and clock.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use seaworthy_runtime::{Applier, Leadership, Metrics, OperatorContext};

use crate::caches::Caches;
use crate::render::targets::Targets;

pub use seaworthy_runtime::Clock;

/// The context of every controller. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    /// What is known of the cluster.
    pub caches: Caches,
    /// The client, for what is read at the moment of acting.
    pub client: Client,
    /// Whether this process may act.
    pub leadership: Leadership,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// The build of this program: marks what it has made.
    pub build: Arc<str>,
    /// What pools should target.
    pub targets: Targets,
}

impl Context {
    /// For a process that has the cluster behind `client` to itself, by the system's clock.
    pub fn new(client: Client) -> Context {
        Context {
            caches: Caches::default(),
            client,
            leadership: Leadership::alone(),
            metrics: Arc::default(),
            clock: Arc::new(Timestamp::now),
            build: build().into(),
            targets: Targets::default(),
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
            targets: Targets::default(),
        }
    }

    /// Writes of the controller with this name.
    pub fn applier(&self, controller: &'static str) -> Applier {
        let (leadership, metrics) = (self.leadership.clone(), Arc::clone(&self.metrics));
        Applier::new(self.client.clone(), controller, leadership, metrics, self.caches.set())
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The time as conditions have it: to the second.
    pub fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }
}

/// The build of this program, as it marks what it has made.
pub fn build() -> String {
    format!("seaworthy-{}", env!("CARGO_PKG_VERSION"))
}
