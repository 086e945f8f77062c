//! Retention periods: ten minutes for the history of changes, an hour for Events.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::object::{Metadata, Object};

/// Storage of Events of both API groups.
pub const EVENTS: &str = "core/events";

/// How often history is compacted.
const COMPACTION_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// How long history is kept at least.
const HISTORY_RETENTION_PERIOD: SignedDuration = SignedDuration::from_mins(10);
/// How often Events are checked for expiry.
const EVENT_SWEEP_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// How long an Event is kept after its last write.
const EVENT_RETENTION_PERIOD: SignedDuration = SignedDuration::from_hours(1);

/// Schedule of the compaction of history.
///
/// The store has no clock, so this records which revision was the newest at which time. After a restart the record is
/// empty, and history is kept a little longer.
#[derive(Debug, Default)]
pub struct HistoryCompaction {
    /// Times with the newest revision at that time, oldest first. A handful.
    marks: Vec<(Timestamp, u64)>,
}

impl HistoryCompaction {
    /// When the next compaction is due.
    pub fn due(&self) -> Option<Timestamp> {
        self.marks.last().map(|(time, _)| *time + COMPACTION_INTERVAL)
    }

    /// The revision up to which to compact now, if any.
    pub fn decide(&mut self, now: Timestamp, revision: u64) -> Option<u64> {
        if self.due().is_some_and(|due| now < due) {
            return None;
        }
        self.marks.push((now, revision));
        let old = self.marks.partition_point(|(time, _)| now.duration_since(*time) >= HISTORY_RETENTION_PERIOD);
        self.marks.drain(..old).next_back().map(|(_, revision)| revision)
    }
}

/// Schedule of the deletion of expired Events.
#[derive(Debug, Default)]
pub struct EventSweep {
    last: Option<Timestamp>,
}

impl EventSweep {
    /// When the next sweep is due.
    pub fn due(&self) -> Option<Timestamp> {
        self.last.map(|last| last + EVENT_SWEEP_INTERVAL)
    }

    /// Whether to sweep now.
    pub fn decide(&mut self, now: Timestamp) -> bool {
        let is_due = self.due().is_none_or(|due| now >= due);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Whether the retention period of an Event is over.
//
// Differs: the real server expires an Event an hour after its last write, by a lease of etcd. Here the last write is
// read from the times that the server put into the object, so that no extra state has to survive a restart.
pub fn is_expired(event: &Object, now: Timestamp) -> bool {
    let time = |text: Option<&Value>| text.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let managed = event.metadata().get("managedFields").and_then(Value::as_array);
    let written = managed.into_iter().flatten().filter_map(|entry| time(entry.get("time")));
    let last = written.chain(time(event.metadata().get("creationTimestamp"))).max();
    // An Event without any time was not written by this server, and its age is unknown.
    last.is_some_and(|last| now.duration_since(last) >= EVENT_RETENTION_PERIOD)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn history_of_the_last_ten_minutes_stays() {
        let mut history = HistoryCompaction::default();
        let decided: Vec<_> = (0..=25).map(|minute| history.decide(at(minute), 100 + minute as u64)).collect();
        let forgotten: Vec<_> =
            decided.iter().enumerate().filter_map(|(minute, revision)| Some((minute, (*revision)?))).collect();
        assert_eq!(forgotten, [(10, 100), (15, 105), (20, 110), (25, 115)]);
        assert!(history.marks.len() <= 3);
    }

    #[test]
    fn history_of_a_night_without_requests_is_forgotten_at_once() {
        let mut history = HistoryCompaction::default();
        history.decide(at(0), 1);
        history.decide(at(5), 2);
        assert_eq!(history.decide(at(600), 3), Some(2));
    }

    #[test]
    fn events_are_looked_through_every_minute() {
        let mut sweep = EventSweep::default();
        assert_eq!([at(0), at(0), at(1), at(1)].map(|now| sweep.decide(now)), [true, false, true, false]);
    }

    #[rstest]
    #[case::young("1970-01-01T01:00:00Z", None, false)]
    #[case::old("1970-01-01T00:10:00Z", None, true)]
    #[case::written_again("1970-01-01T00:10:00Z", Some("1970-01-01T01:00:00Z"), false)]
    #[case::written_long_ago("1970-01-01T00:10:00Z", Some("1970-01-01T00:30:00Z"), true)]
    #[case::unreadable("yesterday", None, false)]
    fn event_goes_an_hour_after_it_was_last_written(
        #[case] created: &str,
        #[case] managed: Option<&str>,
        #[case] wanted: bool,
    ) {
        let mut object = json!({"metadata": {"creationTimestamp": created}});
        if let Some(time) = managed {
            object["metadata"]["managedFields"] = json!([{"time": time}]);
        }
        assert_eq!(is_expired(object.as_object().unwrap(), at(91)), wanted);
    }
}
