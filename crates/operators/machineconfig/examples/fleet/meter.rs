//! Meter: wall time, CPU time and memory of this process, and the durations of decisions.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Measures from its start.
#[derive(Clone, Copy)]
pub struct Meter {
    begun: Instant,
    cpu: Duration,
}

impl Meter {
    pub fn start() -> Meter {
        Meter { begun: Instant::now(), cpu: cpu() }
    }

    pub fn wall(&self) -> Duration {
        self.begun.elapsed()
    }

    /// CPU time of this process.
    pub fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu)
    }
}

fn cpu() -> Duration {
    let spent =
        |time: TimeVal| Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0));
    let both = |usage: Usage| spent(usage.user_time()) + spent(usage.system_time());
    getrusage(UsageWho::RUSAGE_SELF).map(both).unwrap_or_default()
}

/// A line of /proc/self/status such as `VmHWM`, in bytes.
pub fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    found.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// One decision about a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decision {
    pub nodes: u64,
    pub micros: u64,
}

/// The decisions so far; the roll-out controller logs each.
static DECISIONS: Mutex<Vec<Decision>> = Mutex::new(Vec::new());

/// Takes out the decisions so far.
pub fn decisions() -> Vec<Decision> {
    std::mem::take(&mut *DECISIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Collects decisions from logs, and prints warnings.
pub struct DecisionSubscriber;

impl Subscriber for DecisionSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && (*metadata.level() <= tracing::Level::WARN || metadata.target() == "seaworthy_machineconfig::rollout")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            let mut text = FieldText::default();
            event.record(&mut text);
            eprintln!("{}{}", event.metadata().target(), text.0);
            return;
        }
        let mut decision = Decision::default();
        event.record(&mut decision);
        DECISIONS.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Decision {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "nodes" => self.nodes = value,
            "micros" => self.micros = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[derive(Default)]
struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}
