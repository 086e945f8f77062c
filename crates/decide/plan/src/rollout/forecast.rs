//! Forecast: how long a roll-out will take, wave by wave.
//!
//! An estimate, and it says what it rests on: how long the same kind of disruption took on nodes of this cluster, or a
//! number of ours where there is no history.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::vocabulary::machineconfiguration::NodeCondition;
use serde::Serialize;

use crate::disruption::Level;
use crate::fleet::NodeView;

/// An update that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastUpdate {
    /// What it did to its node.
    pub level: Level,
    /// How long it took, from the order until the node reported that it is done.
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
    /// The nodes that are given their order and cannot carry it out, in this order: their pods cannot leave.
    pub blocked: Vec<String>,
    /// The nodes that have no wave, because nothing is left of the budget.
    pub behind: Vec<String>,
    /// All of it, in seconds from now.
    pub seconds: i64,
}

/// Without history: a guess for a machine of middle size, on the long side, because an early end does no harm.
fn default_seconds(level: Level) -> i64 {
    match level {
        Level::None => 15,
        Level::Reload => 20,
        Level::Restart => 45,
        Level::Drain => 4 * 60,
        Level::Reboot => 10 * 60,
    }
}

/// Characters of a digest that identify a rendered MachineConfig here.
const SHORT_DIGEST_LENGTH: usize = 10;

/// What is written on a node together with its order: when that was, in seconds since 1970, and the mark of what it ran then.
/// Ten thousand nodes have one each, so it is short.
pub fn ordered(now: Timestamp, from: Option<&str>) -> String {
    format!("{} {}", now.as_second(), short_digest(from.unwrap_or_default()))
}

/// The time in what [`ordered`] has written.
pub fn ordered_at(order: &str) -> Option<Timestamp> {
    let (second, _) = order.split_once(' ')?;
    Timestamp::from_second(second.parse().ok()?).ok()
}

/// What a rendered MachineConfig is known by in [`ordered`].
pub fn short_digest(config: &str) -> &str {
    let digest = config.rsplit_once('-').map_or(config, |(_, digest)| digest);
    digest.get(..SHORT_DIGEST_LENGTH).unwrap_or(digest)
}

/// How long the last update of a node took, from its order to the word that it is done: how long it waited for its turn
/// before does not count. `level` says what the change from the configuration with a mark to another does. Nothing is known of a node that is on
/// its way, or was never given an order.
pub fn past_update(node: &NodeView<'_>, level: impl FnOnce(&str, &str) -> Option<Level>) -> Option<PastUpdate> {
    let (_, from) = node.last_order?.split_once(' ')?;
    let (ordered, current) = (ordered_at(node.last_order?)?, node.current_config?);
    let done = completed_at(node).filter(|done| node.is_done() && *done >= ordered)?;
    Some(PastUpdate { level: level(from, current)?, took: done.duration_since(ordered) })
}

/// When a node came to what it runs, as its MachineConfigNode has it.
fn completed_at(node: &NodeView<'_>) -> Option<Timestamp> {
    Some(node.condition(NodeCondition::UpdateComplete)?.last_transition_time.0)
}

/// How long one node will take: the middle of what others took, which one node that hung does not move. Times have seconds,
/// so nothing takes less than one.
pub fn estimate(level: Level, history: &[PastUpdate]) -> Estimate {
    let mut took: Vec<i64> =
        history.iter().filter(|past| past.level == level).map(|past| past.took.as_secs().max(1)).collect();
    took.sort_unstable();
    match took.get(took.len() / 2) {
        Some(seconds) => Estimate { seconds: *seconds, samples: took.len() },
        None => Estimate { seconds: default_seconds(level), samples: 0 },
    }
}

/// The waves of a roll-out: `order` is who is still to move, the first first, `budget` how many move at a time, `busy` how
/// many nodes hold the budget already. A budget of nothing gives no waves. A node that `is_blocked` is given its order when its
/// turn comes, and keeps its part of the budget from then on.
pub fn forecast(
    order: &[&str],
    budget: i64,
    busy: usize,
    each: Estimate,
    is_blocked: impl Fn(&str) -> bool,
) -> Forecast {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let mut budget = usize::try_from(budget).unwrap_or(0);
    let mut free = budget.saturating_sub(busy);
    let (mut waves, mut blocked): (Vec<Wave>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = order;
    let mut starts = 0;
    while !rest.is_empty() && budget > 0 {
        if free == 0 {
            // The nodes that are being updated come back.
            (starts, free) = (starts + each.seconds, budget);
        }
        let (turn, others) = rest.split_at(free.min(rest.len()));
        let (stuck, wave): (Vec<&str>, Vec<&str>) = turn.iter().partition(|name| is_blocked(name));
        blocked.extend(owned(&stuck));
        budget = budget.saturating_sub(stuck.len());
        if !wave.is_empty() {
            waves.push(Wave { nodes: owned(&wave), starts, ends: starts + each.seconds });
        }
        (rest, free) = (others, 0);
    }
    let seconds = waves.last().map_or(0, |wave| wave.ends);
    Forecast { each, waves, blocked, behind: owned(rest), seconds }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use seaworthy_api::machineconfiguration::MachineConfigNode;

    use super::*;

    #[test]
    fn the_middle_of_history_is_what_counts_and_a_default_is_named_as_one() {
        let past = |level, seconds| PastUpdate { level, took: SignedDuration::from_secs(seconds) };
        let history =
            [past(Level::Reboot, 300), past(Level::Reboot, 90_000), past(Level::Reboot, 200), past(Level::None, 1)];
        assert_eq!(estimate(Level::Reboot, &history), Estimate { seconds: 300, samples: 3 });
        assert_eq!(estimate(Level::Restart, &history), Estimate { seconds: 45, samples: 0 });
    }

    #[test]
    fn history_is_what_a_node_took_from_its_order_on() {
        let past = |state: &str, ordered: &str, done: &str| {
            let annotations = json!({
                "machineconfiguration.openshift.io/currentConfig": "b",
                "machineconfiguration.openshift.io/desiredConfig": "b",
                "machineconfiguration.openshift.io/state": state,
                "seaworthy.dev/last-order": ordered,
            });
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": "w1", "annotations": annotations}})).unwrap();
            // That it waits for its next turn since changes nothing about the last one.
            let condition = |type_: &str, time: &str| json!({"type": type_, "status": "False", "reason": "a", "message": "", "lastTransitionTime": time});
            let conditions = [condition("Updated", "2026-01-01T09:00:00Z"), condition("UpdateComplete", done)];
            let progress: MachineConfigNode = serde_json::from_value(json!({
                "metadata": {"name": "w1"},
                "spec": {"configVersion": {"desired": "b"}, "node": {"name": "w1"}, "pool": {"name": "worker"}},
                "status": {"conditions": conditions},
            }))
            .unwrap();
            past_update(&NodeView::of(&node, Some(&progress)), |from, to| (from < to).then_some(Level::Reboot))
        };
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (ordered, unknown) = (ordered(start, Some("rendered-worker-a")), ordered(start, Some("rendered-worker-z")));
        let (ordered, unknown) = (ordered.as_str(), unknown.as_str());
        let took = |past: Option<PastUpdate>| past.map(|past| past.took.as_secs());
        assert_eq!(took(past("Done", ordered, "2026-01-01T00:00:44Z")), Some(44));
        assert_eq!(past("Working", ordered, "2026-01-01T00:00:44Z"), None, "it is not there yet");
        assert_eq!(past("Done", ordered, "2025-01-01T00:00:44Z"), None, "that was an earlier one");
        assert_eq!(past("Done", unknown, "2026-01-01T00:00:44Z"), None, "what it ran is not known");
        assert_eq!(past("Done", "yesterday", "2026-01-01T00:00:44Z"), None);
    }

    #[test]
    fn later_of_two_orders_counts_whichever_version_wrote_it() {
        let last_order = |present: &str, former: &str| {
            let annotations = json!({"seaworthy.dev/last-order": present, "seaworthy.dev/ordered": former});
            let node: Node = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
            NodeView::of(&node, None).last_order.map(str::to_owned)
        };
        assert_eq!(last_order("999 a", "1000 b").as_deref(), Some("1000 b"));
        assert_eq!(last_order("1000 a", "999 b").as_deref(), Some("1000 a"));
        assert_eq!(last_order("1000 a", "yesterday").as_deref(), Some("1000 a"));
    }

    #[test]
    fn rendered_ones_are_known_by_a_short_mark() {
        assert_eq!(short_digest("rendered-worker-5633fb89ec3a99f26dd587426017b8e7"), "5633fb89ec");
        assert_eq!((short_digest("rendered-worker-1"), short_digest("1"), short_digest("")), ("1", "1", ""));
        assert_eq!(ordered(Timestamp::from_second(7).unwrap(), None), "7 ");
    }

    #[test]
    fn node_that_cannot_be_drained_has_no_wave_and_keeps_its_part_of_the_budget() {
        let each = Estimate { seconds: 60, samples: 0 };
        let order = ["a", "b", "c", "d", "e"];
        let waves = |budget, blocked: &'static [&'static str]| {
            let forecast = forecast(&order, budget, 0, each, |name| blocked.contains(&name));
            let waves: Vec<String> = forecast.waves.iter().map(|wave| wave.nodes.join("")).collect();
            (waves.join(" "), forecast.blocked.join(""), forecast.behind.join(""), forecast.seconds)
        };
        let found = |waves: &str, blocked: &str, behind: &str, seconds| {
            (waves.to_owned(), blocked.to_owned(), behind.to_owned(), seconds)
        };
        assert_eq!(waves(1, &["a"]), found("", "a", "bcde", 0));
        assert_eq!(waves(1, &["c"]), found("a b", "c", "de", 120));
        assert_eq!(waves(2, &["a"]), found("b c d e", "a", "", 240));
        assert_eq!(waves(2, &["a", "d"]), found("b c", "ad", "e", 120));
    }

    #[test]
    fn waves_are_as_large_as_the_budget_leaves_them() {
        let each = Estimate { seconds: 60, samples: 0 };
        let sizes = |budget, busy| {
            let forecast = forecast(&["a", "b", "c", "d", "e"], budget, busy, each, |_| false);
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
