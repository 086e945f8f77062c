//! Announcements: Events on a pool about the orders that its nodes were given, several nodes in one Event.
//!
//! Orders that follow each other closely are announced together, with the last one at the latest: an Event for every node of
//! every wave would be as many writes as there are nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use seaworthy_change::Change;
use seaworthy_plan::fleet::{PoolView, Target};
use seaworthy_plan::rollout::targeting;
use tokio::time::Instant;

/// The shortest time between two Events about the orders of a pool.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// The orders that were given recently, by pool.
#[derive(Default)]
pub struct Announcements(BTreeMap<String, GivenOrders>);

/// Orders to one configuration.
struct GivenOrders {
    config: String,
    image: Option<String>,
    /// The nodes whose order is not announced yet.
    unannounced: Vec<String>,
    /// When orders were announced last.
    announced: Option<Instant>,
}

impl GivenOrders {
    fn is_of(&self, target: Target<'_>) -> bool {
        self.config == target.config && self.image.as_deref() == target.image
    }

    fn event(&mut self, pool: &str) -> Option<Change> {
        self.announced = Some(Instant::now());
        let target = Target { config: &self.config, image: self.image.as_deref() };
        targeting::orders_event(pool, target, &std::mem::take(&mut self.unannounced))
    }
}

impl Announcements {
    /// Records which nodes were ordered to the pool's target. Returns the events to emit now, and when to announce the rest. The
    /// last nodes of a roll-out are announced at once.
    pub fn record(&mut self, pool: PoolView<'_>, nodes: &[&str], are_last: bool) -> (Vec<Change>, Option<Duration>) {
        let mut events = Vec::new();
        if let Some(target) = pool.target().filter(|_| !nodes.is_empty())
            && !self.0.get(pool.name).is_some_and(|given| given.is_of(target))
        {
            let (config, image) = (target.config.to_owned(), target.image.map(str::to_owned));
            let new = GivenOrders { config, image, unannounced: Vec::new(), announced: None };
            let old = self.0.insert(pool.name.to_owned(), new);
            events.extend(old.and_then(|mut old| old.event(pool.name)));
        }
        let Some(given) = self.0.get_mut(pool.name) else { return (events, None) };
        given.unannounced.extend(nodes.iter().map(|node| (*node).to_owned()));
        let rest = given
            .announced
            .and_then(|since| ANNOUNCE_INTERVAL.checked_sub(since.elapsed()))
            .filter(|rest| !rest.is_zero());
        match rest {
            _ if given.unannounced.is_empty() => (events, None),
            Some(rest) if !are_last => (events, Some(rest)),
            _ => {
                events.extend(given.event(pool.name));
                (events, None)
            }
        }
    }

    /// Removes a deleted pool.
    pub fn forget(&mut self, pool: &str) {
        self.0.remove(pool);
    }
}

#[cfg(test)]
mod tests {
    use seaworthy_api::machineconfiguration::MachineConfigPool;
    use serde_json::json;

    use super::*;

    fn pool(target: &str) -> MachineConfigPool {
        let spec = json!({"configuration": {"name": target}});
        serde_json::from_value(json!({"metadata": {"name": "worker"}, "spec": spec})).unwrap()
    }

    fn message(change: &Change) -> String {
        change.event().unwrap().message.clone()
    }

    fn announced(orders: &mut Announcements, target: &str, nodes: &[&str]) -> (Vec<String>, Option<Duration>) {
        let (events, later) = orders.record(PoolView::of(&pool(target)), nodes, false);
        (events.iter().map(message).collect(), later)
    }

    #[tokio::test(start_paused = true)]
    async fn every_node_is_named_and_those_that_follow_closely_together() {
        let mut orders = Announcements::default();
        assert_eq!(announced(&mut orders, "a", &[]), (vec![], None));
        assert_eq!(
            announced(&mut orders, "a", &["w1"]),
            (vec!["Targeted node w1 to MachineConfig: a".to_owned()], None)
        );
        assert_eq!(announced(&mut orders, "a", &["w2"]), (vec![], Some(ANNOUNCE_INTERVAL)));
        tokio::time::advance(ANNOUNCE_INTERVAL / 5).await;
        assert_eq!(announced(&mut orders, "a", &["w3"]), (vec![], Some(ANNOUNCE_INTERVAL * 4 / 5)));
        tokio::time::advance(ANNOUNCE_INTERVAL).await;
        let both = "Set target for 2 nodes to MachineConfig: a (w2, w3)".to_owned();
        assert_eq!(announced(&mut orders, "a", &[]), (vec![both], None));
        assert_eq!(announced(&mut orders, "a", &["w4"]).0, [""; 0]);
        let (last, first) = ("Targeted node w4 to MachineConfig: a", "Targeted node w1 to MachineConfig: b");
        assert_eq!(
            announced(&mut orders, "b", &["w1"]).0,
            [last, first],
            "the rest is announced before another target"
        );
        assert_eq!(announced(&mut orders, "c", &[]), (vec![], None));
        assert_eq!(announced(&mut orders, "b", &["w2"]).0, [""; 0]);
        let (events, later) = orders.record(PoolView::of(&pool("b")), &["w3"], true);
        assert_eq!(
            (message(&events[0]).as_str(), later),
            ("Set target for 2 nodes to MachineConfig: b (w2, w3)", None)
        );
    }
}
