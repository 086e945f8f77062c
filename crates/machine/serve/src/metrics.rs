//! What is counted of requests, for Prometheus.
//!
//! A label is never a stranger's to choose: a pool is named only if there is one, a version only if it was served.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::answers::Shelf;

/// Upper bounds of the time that an answer takes, in seconds: from a refusal to a machine that reads as slowly as it may.
const SECONDS: [f64; 9] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 30.0, 300.0];

/// One kind of request, by how it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The pool; empty where the request leads to none.
    pub pool: String,
    /// The version of Ignition that was agreed on; empty where none was.
    pub version: &'static str,
    /// The status.
    pub code: u16,
}

/// Why a request for a config was turned away before anybody looked for the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No token or certificate, or a wrong one.
    Access,
    /// The address asks too often.
    Rate,
    /// Not everything is known yet.
    Unready,
}

impl Refused {
    fn as_str(self) -> &'static str {
        match self {
            Refused::Access => "access",
            Refused::Rate => "rate",
            Refused::Unready => "unready",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

type Seconds = Gauge<f64, AtomicU64>;

/// All that is counted by one endpoint.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    refused: Family<RefusedLabel, Counter>,
    seconds: Histogram,
    bytes: Counter,
    age: Family<PoolLabel, Seconds>,
    away: Seconds,
    is_ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("seaworthy_endpoint");
        let metrics = Metrics {
            requests: Family::default(),
            refused: Family::default(),
            seconds: Histogram::new(SECONDS),
            bytes: Counter::default(),
            age: Family::default(),
            away: Seconds::default(),
            is_ready: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests by pool, version and status", metrics.requests.clone());
        registry.register("refused", "Requests that were turned away, by reason", metrics.refused.clone());
        let help = "Time from the head of a request to the last byte that its connection took";
        registry.register_with_unit("request", help, Unit::Seconds, metrics.seconds.clone());
        registry.register_with_unit("sent", "Bodies, as far as they were sent", Unit::Bytes, metrics.bytes.clone());
        let help = "Time since a pool's answers were made";
        registry.register_with_unit("answers_age", help, Unit::Seconds, metrics.age.clone());
        let help = "How long the source of answers has been out of reach; 0 while it is not";
        registry.register_with_unit("source_away", help, Unit::Seconds, metrics.away.clone());
        registry.register("ready", "Whether everything is known that has to be", metrics.is_ready.clone());
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    /// A request was answered, in this time and with as many bytes.
    pub fn answered(&self, labels: RequestLabels, refused: Option<Refused>, took: Duration, sent: usize) {
        self.requests.get_or_create(&labels).inc();
        if let Some(refused) = refused {
            self.refused.get_or_create(&RefusedLabel { reason: refused.as_str() }).inc();
        }
        self.seconds.observe(took.as_secs_f64());
        self.bytes.inc_by(u64::try_from(sent).unwrap_or(u64::MAX));
    }

    /// All numbers in Prometheus' text format, with how old that is what lies on the shelf.
    pub fn page(&self, shelf: &Shelf, now: Instant) -> Result<String, fmt::Error> {
        let pools = shelf.take();
        self.is_ready.set(i64::from(pools.is_some()));
        self.away.set(shelf.away(now).as_secs_f64());
        // A pool that is gone has no age.
        self.age.clear();
        for (pool, answers) in pools.iter().flat_map(|pools| pools.iter()) {
            self.age.get_or_create(&PoolLabel { pool: pool.clone() }).set(answers.age(now).as_secs_f64());
        }
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}
