//! Turns: when a pool was told last to run which rendered MachineConfig.
//!
//! A rendered MachineConfig is made once and may be targeted many times: whoever takes a MachineConfig away again targets one
//! that was made long ago. So a history is in the order of turns. They are an annotation on the pool, written together with
//! the target; where a turn is not on record, the time when the object was made stands for it.

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation::TURNS;
use serde::{Deserialize, Serialize};

/// How many are on record: more than rendered MachineConfigs are kept.
pub const MOST: usize = 30;

/// The turns of a pool, the last one last; each rendered MachineConfig has one at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Turns(Vec<Turn>);

/// The last time that a pool was told to run something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    config: String,
    since: String,
    /// Whether every node came to run it, in any turn; not known as long as the turn lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<bool>,
}

impl Turns {
    /// The turns of a pool. What cannot be read is no record.
    pub fn of(pool: &MachineConfigPool) -> Turns {
        TURNS.of(&pool.metadata).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Since when a rendered MachineConfig had its last turn, and the how manyth of those on record that is, from one.
    pub fn last(&self, config: &str) -> Option<(Timestamp, usize)> {
        let nth = self.0.iter().position(|turn| turn.config == config)?;
        Some((self.0[nth].since.parse().ok()?, nth + 1))
    }

    /// Whether the pool went on from this one before every node ran it.
    pub fn is_unfinished(&self, config: &str) -> bool {
        self.0.iter().any(|turn| turn.config == config && turn.finished == Some(false))
    }

    /// As it is written on a pool when it is the turn of this one; `finished` is what every node of it ran last.
    pub fn next(mut self, config: &str, finished: Option<&str>, now: Timestamp) -> String {
        if let Some(turn) = self.0.last_mut() {
            turn.finished = Some(turn.finished == Some(true) || finished == Some(turn.config.as_str()));
        }
        let before = self.0.iter().find(|turn| turn.config == config);
        let was_finished = before.and_then(|turn| turn.finished).filter(|finished| *finished);
        self.0.retain(|turn| turn.config != config);
        // A clock that was set back does not change the order.
        let last = self.0.last().and_then(|turn| turn.since.parse().ok());
        let since = last.map_or(now, |last| now.max(last)).to_string();
        self.0.push(Turn { config: config.to_owned(), since, finished: was_finished });
        let excess = self.0.len().saturating_sub(MOST);
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

    fn after(turns: &[(&str, i64)]) -> Turns {
        let mut pool = MachineConfigPool::default();
        for (config, second) in turns {
            let text = Turns::of(&pool).next(config, None, at(*second));
            TURNS.set(&mut pool.metadata, text);
        }
        Turns::of(&pool)
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
            let text = Turns::of(&pool).next(config, *finished, at(i64::try_from(nth).unwrap()));
            TURNS.set(&mut pool.metadata, text);
        }
        let turns = Turns::of(&pool);
        assert_eq!(["a", "b", "c", "d"].map(|config| turns.is_unfinished(config)), [false, true, false, false]);
    }

    #[test]
    fn record_is_bounded_and_what_cannot_be_read_is_none() {
        let names: Vec<String> = (0..100).map(|nth| format!("rendered-{nth}")).collect();
        let turns: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(0..).collect();
        let turns = after(&turns);
        assert_eq!((turns.0.len(), turns.last("rendered-99")), (MOST, Some((at(99), MOST))));
        let mut pool = MachineConfigPool::default();
        TURNS.set(&mut pool.metadata, "[{");
        assert_eq!(Turns::of(&pool), Turns::default());
    }
}
