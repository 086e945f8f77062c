//! How long a roll-out will take, wave by wave.
//!
//! An estimate, and it says what it rests on: how long the same kind of disruption took on nodes of this cluster, or a
//! number of ours where there is no history.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::disruption::Level;

/// An update that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// What it did to its node.
    pub level: Level,
    /// How long it took, from the order to the node's word that it is done.
    pub took: SignedDuration,
}

/// How long one node will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// In seconds.
    pub seconds: i64,
    /// How many past updates it rests on; none means a default.
    pub samples: usize,
}

/// Nodes that move at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// The nodes.
    pub nodes: Vec<String>,
    /// When they are given their order, in seconds from now.
    pub starts: i64,
    /// When they are done, in seconds from now.
    pub ends: i64,
}

/// How long a roll-out will take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// One node.
    pub each: Estimate,
    /// The waves, in order.
    pub waves: Vec<Wave>,
    /// All of it, in seconds from now.
    pub seconds: i64,
}

/// Without history: a guess for a machine of middle size, on the long side, because nobody minds an early end.
fn default_seconds(level: Level) -> i64 {
    match level {
        Level::None => 15,
        Level::Reload => 20,
        Level::Restart => 45,
        Level::Drain => 4 * 60,
        Level::Reboot => 10 * 60,
    }
}

/// How long nodes took in a roll-out, from when each was done: with a budget of `budget` a node begins when the one so many
/// places before it is done, and the first begin with the roll-out. Nodes that were done before it are none of it.
pub fn pasts(start: Timestamp, done: &[Timestamp], budget: usize, level: Level) -> Vec<Past> {
    let mut done: Vec<Timestamp> = done.iter().copied().filter(|time| *time >= start).collect();
    done.sort_unstable();
    let begin = |nth: usize| nth.checked_sub(budget.max(1)).map_or(start, |earlier| done[earlier]);
    done.iter().enumerate().map(|(nth, time)| Past { level, took: time.duration_since(begin(nth)) }).collect()
}

/// How long one node will take: the middle of what others took, which one node that hung does not move. Times have seconds,
/// so nothing takes less than one.
pub fn estimate(level: Level, history: &[Past]) -> Estimate {
    let mut took: Vec<i64> =
        history.iter().filter(|past| past.level == level).map(|past| past.took.as_secs().max(1)).collect();
    took.sort_unstable();
    match took.get(took.len() / 2) {
        Some(seconds) => Estimate { seconds: *seconds, samples: took.len() },
        None => Estimate { seconds: default_seconds(level), samples: 0 },
    }
}

/// The waves of a roll-out: `order` is who is still to move, the first first, `budget` how many move at a time, `busy` how
/// many nodes hold the budget already. A budget of nothing gives no waves.
pub fn forecast(order: &[&str], budget: i64, busy: usize, each: Estimate) -> Forecast {
    let budget = usize::try_from(budget).unwrap_or(0);
    let free = budget.saturating_sub(busy);
    let mut waves: Vec<Wave> = Vec::new();
    let mut rest = order;
    let mut starts = 0;
    while !rest.is_empty() && budget > 0 {
        // The nodes that are away now come back while the first wave runs.
        let size = if waves.is_empty() && free > 0 { free } else { budget }.min(rest.len());
        if waves.is_empty() && free == 0 {
            starts = each.seconds;
        }
        let (wave, others) = rest.split_at(size);
        let ends = starts + each.seconds;
        waves.push(Wave { nodes: wave.iter().map(|name| (*name).to_owned()).collect(), starts, ends });
        (starts, rest) = (ends, others);
    }
    Forecast { each, seconds: waves.last().map_or(0, |wave| wave.ends), waves }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_history_is_what_counts_and_a_default_says_so() {
        let past = |level, seconds| Past { level, took: SignedDuration::from_secs(seconds) };
        let history =
            [past(Level::Reboot, 300), past(Level::Reboot, 90_000), past(Level::Reboot, 200), past(Level::None, 1)];
        assert_eq!(estimate(Level::Reboot, &history), Estimate { seconds: 300, samples: 3 });
        assert_eq!(estimate(Level::Restart, &history), Estimate { seconds: 45, samples: 0 });
    }

    #[test]
    fn history_is_what_each_turn_took() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let took = |budget| {
            let done = [at(5), at(160), at(130), at(230), at(250)];
            let pasts = pasts(at(100), &done, budget, Level::Reboot);
            pasts.iter().map(|past| past.took.as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(took(1), [30, 30, 70, 20]);
        assert_eq!(took(2), [30, 60, 100, 90]);
        assert_eq!(took(0), took(1));
    }

    #[test]
    fn waves_are_as_large_as_the_budget_leaves_them() {
        let each = Estimate { seconds: 60, samples: 0 };
        let sizes = |budget, busy| {
            let forecast = forecast(&["a", "b", "c", "d", "e"], budget, busy, each);
            let sizes: Vec<_> = forecast.waves.iter().map(|wave| (wave.nodes.len(), wave.starts)).collect();
            (sizes, forecast.seconds)
        };
        assert_eq!(sizes(2, 0), (vec![(2, 0), (2, 60), (1, 120)], 180));
        assert_eq!(sizes(3, 1), (vec![(2, 0), (3, 60)], 120));
        assert_eq!(sizes(3, 3), (vec![(3, 60), (2, 120)], 180));
        assert_eq!(sizes(-1, 0), (vec![], 0));
        assert_eq!(sizes(9, 0), (vec![(5, 0)], 60));
    }
}
