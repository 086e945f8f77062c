//! [`Metrics`]: Prometheus metrics of the endpoint.
//!
//! No client can choose a label's value: a pool is named only if it exists, a version only if it was served.

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

use crate::answers::AnswerStore;

/// Upper bounds of the histogram of request durations, in seconds: from a rejected request to a machine that reads as slowly
/// as it may.
const DURATION_BUCKETS: [f64; 9] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 30.0, 300.0];

/// Labels of a request, by its response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The pool; empty where the request names none that exists.
    pub pool: String,
    /// The negotiated version of Ignition; empty where there is none.
    pub version: &'static str,
    /// The HTTP status.
    pub code: u16,
}

/// Why a request was rejected before its config was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// No token or certificate, or a wrong one.
    Access,
    /// The address exceeds its rate limit.
    RateLimit,
    /// The source of answers has not been read yet.
    Unready,
}

impl RejectReason {
    fn as_str(self) -> &'static str {
        match self {
            RejectReason::Access => "access",
            RejectReason::RateLimit => "rate",
            RejectReason::Unready => "unready",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectedLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

type SecondsGauge = Gauge<f64, AtomicU64>;

/// The metrics of one endpoint.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    rejected: Family<RejectedLabel, Counter>,
    seconds: Histogram,
    bytes: Counter,
    answers_age: Family<PoolLabel, SecondsGauge>,
    source_unreachable: SecondsGauge,
    is_ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("seaworthy_endpoint");
        let metrics = Metrics {
            requests: Family::default(),
            rejected: Family::default(),
            seconds: Histogram::new(DURATION_BUCKETS),
            bytes: Counter::default(),
            answers_age: Family::default(),
            source_unreachable: SecondsGauge::default(),
            is_ready: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests by pool, version and status", metrics.requests.clone());
        registry.register("refused", "Rejected requests, by reason", metrics.rejected.clone());
        let help = "Time from the head of a request to the last byte of its response";
        registry.register_with_unit("request", help, Unit::Seconds, metrics.seconds.clone());
        registry.register_with_unit("sent", "Sent bytes of response bodies", Unit::Bytes, metrics.bytes.clone());
        let help = "Time since a pool's answers were built";
        registry.register_with_unit("answers_age", help, Unit::Seconds, metrics.answers_age.clone());
        let help = "How long the source of answers has been unreachable; 0 while it is reachable";
        registry.register_with_unit("source_unreachable", help, Unit::Seconds, metrics.source_unreachable.clone());
        registry.register("ready", "Whether the source of answers has been read", metrics.is_ready.clone());
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts a request, with its duration and the bytes that were sent.
    pub fn answered(&self, labels: RequestLabels, rejected: Option<RejectReason>, took: Duration, sent: usize) {
        self.requests.get_or_create(&labels).inc();
        if let Some(reason) = rejected {
            self.rejected.get_or_create(&RejectedLabel { reason: reason.as_str() }).inc();
        }
        self.seconds.observe(took.as_secs_f64());
        self.bytes.inc_by(u64::try_from(sent).unwrap_or(u64::MAX));
    }

    /// All metrics in Prometheus' text format, with the age of the current answers.
    pub fn page(&self, answers: &AnswerStore, now: Instant) -> Result<String, fmt::Error> {
        let pools = answers.current();
        self.is_ready.set(i64::from(pools.is_some()));
        self.source_unreachable.set(answers.unreachable_for(now).as_secs_f64());
        // A deleted pool has no age.
        self.answers_age.clear();
        for (pool, answers) in pools.iter().flat_map(|pools| pools.iter()) {
            self.answers_age.get_or_create(&PoolLabel { pool: pool.clone() }).set(answers.age(now).as_secs_f64());
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
