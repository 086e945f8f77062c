//! Target history: when a pool last targeted which rendered MachineConfig.
//!
//! A rendered MachineConfig is created once and may be targeted many times: removing a MachineConfig targets one again that
//! was created long ago. So the history is in the order in which they were targeted. It is an annotation on the pool, written
//! together with the target; where an entry is missing, the creation time of the object is used.

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation::{FORMER_TARGET_HISTORY, TARGET_HISTORY};
use serde::{Deserialize, Serialize};

/// More than the number of rendered MachineConfigs that are kept.
pub const MAX_ENTRIES: usize = 30;

/// The targets of a pool, the present one last; each rendered MachineConfig has one entry at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetHistory(Vec<TargetEntry>);

/// The last time that a pool targeted a rendered MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TargetEntry {
    config: String,
    since: String,
    /// Whether every node came to run it, at any time; not known as long as it is the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<bool>,
}

impl TargetEntry {
    fn time(&self) -> Option<Timestamp> {
        self.since.parse().ok()
    }

    /// Every node came to run it in another period too, if it did in that one.
    fn inherit_finished(&mut self, other: &TargetEntry) {
        if other.finished == Some(true) {
            self.finished = other.finished;
        }
    }
}

impl TargetHistory {
    /// The target history of a pool. What cannot be read counts as empty.
    ///
    /// After a downgrade and another upgrade there is one under the present key, and one under the former with what was targeted
    /// meanwhile.
    pub fn of(pool: &MachineConfigPool) -> TargetHistory {
        let keys = [TARGET_HISTORY, FORMER_TARGET_HISTORY];
        let found = keys.into_iter().filter_map(|key| serde_json::from_str(key.of(&pool.metadata)?).ok());
        found.reduce(TargetHistory::merge).unwrap_or_default()
    }

    /// The entries of both in order, the later one of each rendered MachineConfig. Of two at the same time, that of `other` is
    /// the later one.
    fn merge(mut self, other: TargetHistory) -> TargetHistory {
        for mut entry in other.0 {
            match self.0.iter().position(|known| known.config == entry.config) {
                Some(nth) if self.0[nth].time() > entry.time() => self.0[nth].inherit_finished(&entry),
                Some(nth) => {
                    entry.inherit_finished(&self.0.remove(nth));
                    self.0.push(entry);
                }
                None => self.0.push(entry),
            }
        }
        // Stable: entries at the same time keep their order.
        self.0.sort_by_key(TargetEntry::time);
        self
    }

    /// When a rendered MachineConfig was targeted last, and its position in the history, from one.
    pub fn last(&self, config: &str) -> Option<(Timestamp, usize)> {
        let nth = self.0.iter().position(|turn| turn.config == config)?;
        Some((self.0[nth].time()?, nth + 1))
    }

    /// Whether the pool went on from this one before every node ran it.
    pub fn is_unfinished(&self, config: &str) -> bool {
        self.0.iter().any(|turn| turn.config == config && turn.finished == Some(false))
    }

    /// The annotation when this one becomes the target; `finished` is what every node of the pool ran last.
    pub fn next(mut self, config: &str, finished: Option<&str>, now: Timestamp) -> String {
        if let Some(turn) = self.0.last_mut() {
            turn.finished = Some(turn.finished == Some(true) || finished == Some(turn.config.as_str()));
        }
        let before = self.0.iter().find(|turn| turn.config == config);
        let was_finished = before.and_then(|turn| turn.finished).filter(|finished| *finished);
        self.0.retain(|turn| turn.config != config);
        // A clock that was set back does not change the order.
        let last = self.0.last().and_then(TargetEntry::time);
        let since = last.map_or(now, |last| now.max(last)).to_string();
        self.0.push(TargetEntry { config: config.to_owned(), since, finished: was_finished });
        let excess = self.0.len().saturating_sub(MAX_ENTRIES);
        self.0.drain(..excess);
        // Texts can always be written.
        serde_json::to_string(&self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn after(turns: &[(&str, i64)]) -> TargetHistory {
        let mut pool = MachineConfigPool::default();
        for (config, second) in turns {
            let text = TargetHistory::of(&pool).next(config, None, at(*second));
            TARGET_HISTORY.set(&mut pool.metadata, text);
        }
        TargetHistory::of(&pool)
    }

    #[test]
    fn last_turn_counts_and_clocks_that_go_back_change_no_order() {
        let turns = after(&[("a", 10), ("b", 20), ("a", 30), ("c", 25)]);
        assert_eq!(turns.last("b"), Some((at(20), 1)));
        assert_eq!(turns.last("a"), Some((at(30), 2)));
        assert_eq!(turns.last("c"), Some((at(30), 3)));
        assert_eq!(turns.last("d"), None);
    }

    #[test]
    fn turn_that_ends_before_every_node_runs_it_is_unfinished_unless_an_earlier_one_was_not() {
        let mut pool = MachineConfigPool::default();
        // Whose turn it is, and what every node ran when it came.
        for (nth, (config, finished)) in
            [("a", None), ("b", Some("a")), ("a", Some("a")), ("c", None)].iter().enumerate()
        {
            let text = TargetHistory::of(&pool).next(config, *finished, at(i64::try_from(nth).unwrap()));
            TARGET_HISTORY.set(&mut pool.metadata, text);
        }
        let turns = TargetHistory::of(&pool);
        assert_eq!(["a", "b", "c", "d"].map(|config| turns.is_unfinished(config)), [false, true, false, false]);
    }

    #[test]
    fn history_that_an_earlier_version_wrote_meanwhile_is_merged_and_the_later_period_counts() {
        let mut pool = MachineConfigPool::default();
        TARGET_HISTORY.set(
            &mut pool.metadata,
            r#"[
                {"config": "a", "since": "2026-01-01T00:00:00Z", "finished": true},
                {"config": "b", "since": "2026-01-02T00:00:00Z", "finished": false},
                {"config": "c", "since": "2026-01-03T00:00:00Z"},
                {"config": "d", "since": "2026-01-06T00:00:00Z"}
            ]"#,
        );
        FORMER_TARGET_HISTORY.set(
            &mut pool.metadata,
            r#"[
                {"config": "d", "since": "2026-01-04T00:00:00Z", "finished": true},
                {"config": "a", "since": "2026-01-05T00:00:00Z", "finished": false},
                {"config": "e", "since": "2026-01-06T00:00:00Z"}
            ]"#,
        );
        let turns = TargetHistory::of(&pool);
        let found: Vec<_> = turns.0.iter().map(|turn| (&*turn.config, &turn.since[8..10], turn.finished)).collect();
        assert_eq!(
            found,
            [
                ("b", "02", Some(false)),
                ("c", "03", None),
                ("a", "05", Some(true)),
                ("d", "06", Some(true)),
                ("e", "06", None),
            ]
        );
        TARGET_HISTORY.set(&mut pool.metadata, "[{");
        assert_eq!(TargetHistory::of(&pool).0.len(), 3, "one that cannot be read does not hide the other");
    }

    #[test]
    fn record_is_bounded_and_what_cannot_be_read_is_none() {
        let names: Vec<String> = (0..100).map(|nth| format!("rendered-{nth}")).collect();
        let turns: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(0..).collect();
        let turns = after(&turns);
        assert_eq!((turns.0.len(), turns.last("rendered-99")), (MAX_ENTRIES, Some((at(99), MAX_ENTRIES))));
        let mut pool = MachineConfigPool::default();
        TARGET_HISTORY.set(&mut pool.metadata, "[{");
        assert_eq!(TargetHistory::of(&pool), TargetHistory::default());
    }
}
