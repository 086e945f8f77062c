//! The context of every controller: caches, client, leadership, metrics and clock.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use seaworthy_runtime::{Applier, Leadership, Metrics};

use crate::caches::Caches;
use crate::targets::Targets;

/// The clock; tests set it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

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

/// What tells this process from others that stand for the same lease: the machine's name, the process, and when it began.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host =
        host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned()));
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}_{}", std::process::id(), Timestamp::now().as_microsecond())
}

/// The build of this program, as it marks what it has made.
pub fn build() -> String {
    format!("seaworthy-{}", env!("CARGO_PKG_VERSION"))
}
