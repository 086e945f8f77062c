//! Which nodes of a pool move now, which wait, and why (machineconfig.md, 4.2 to 4.4).
//!
//! - Every node gets a verdict: it moves, or it stays for a [`Reason`].
//! - The verdicts do not depend on the order in which the nodes are given.
//! - Nodes that an earlier target broke go first, and need no budget: they are away already, or as good as away. The
//!   budget that they take is not given to others.
//! - Nodes that were given an earlier target and have not begun come next, and need no budget either: they hold theirs.
//! - The cost grows with the number of nodes; who holds the budget is listed once and shared by all who wait for it.

pub mod budget;
pub mod forecast;
pub mod hold;
mod inputs;
pub mod pool;
pub mod reservation;
pub mod targeting;
pub mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, MASTER};

use self::budget::{BudgetError, max_unavailable};
use self::reservation::Room;
use self::waiting::{Holder, Reason, Waiting};
use crate::fleet::custom_boot::Joining;
use crate::fleet::{Ailment, NodeView, Target};

pub use self::inputs::{Inputs, Partner, PoolSnapshot, quorum_partner};

/// Who moves, who waits.
#[derive(Clone, Debug)]
pub struct Verdicts<'a> {
    /// How many nodes may be away.
    pub max_unavailable: Result<i64, BudgetError>,
    /// The nodes that are away by themselves, by name.
    pub unavailable: Vec<&'a str>,
    /// The nodes that could move, by name; empty where there is no capacity.
    pub candidates: Vec<&'a str>,
    /// How many more nodes may be taken away.
    pub capacity: usize,
    /// The nodes to be given the target, in this order.
    pub chosen: Vec<&'a str>,
    /// The nodes that do not move and do not run the target yet, by name.
    pub waiting: Vec<Waiting>,
    /// The nodes that run the target, by name.
    pub updated: Vec<&'a str>,
    /// The nodes to be labelled for the pool that they booted for.
    pub joining: Vec<Joining<'a>>,
    /// The node that waits because it runs the controllers.
    pub deferred: Option<&'a str>,
    /// The nodes that need no new order but may still be given one that was promised and is not wanted any more: they have
    /// to be touched, so that it is refused.
    pub fence: Vec<&'a str>,
    /// When to decide again although nothing has changed.
    pub recheck: Option<SignedDuration>,
}

/// Decides about a pool.
pub fn decide<'a>(inputs: &Inputs<'a>) -> Verdicts<'a> {
    let pool = inputs.pool;
    let max = max_unavailable(pool.name, pool.max_unavailable(), inputs.nodes.len());
    let unavailable = sorted(inputs.nodes.iter().filter(|node| node.is_unavailable()).map(|node| node.name));
    let mut decision = Verdicts {
        max_unavailable: max,
        unavailable,
        candidates: Vec::new(),
        capacity: 0,
        chosen: Vec::new(),
        waiting: Vec::new(),
        updated: Vec::new(),
        joining: Vec::new(),
        deferred: None,
        fence: Vec::new(),
        recheck: None,
    };
    let is_stray = |node: &&&NodeView<'_>| {
        inputs.promised.is_open(node) && pool.target().is_none_or(|target| node.is_targeted(target))
    };
    let stopped = pool.target().and_then(|_| stopped(inputs));
    // A pool that must not move gives no order any more: what waits for its open promises would wait for ever.
    let is_stray = |node: &&&NodeView<'_>| is_stray(node) || (stopped.is_some() && inputs.promised.is_open(node));
    decision.fence = sorted(inputs.nodes.iter().filter(is_stray).map(|node| node.name));
    match pool.target() {
        None => {
            let reason = Reason::NoConfiguration { pool: pool.name.to_owned() };
            decision.waiting = inputs.nodes.iter().map(|node| wait(node, reason.clone())).collect();
        }
        Some(target) => fill(&mut decision, inputs, target, stopped),
    }
    decision.waiting.sort_by(|a, b| a.node.cmp(&b.node));
    decision
}

/// Why no node of the pool may move, if so.
fn stopped(inputs: &Inputs<'_>) -> Option<Reason> {
    let pool = inputs.pool;
    if pool.is_deleting() {
        Some(Reason::PoolDeleting { pool: pool.name.to_owned() })
    } else if pool.is_paused() {
        Some(Reason::PoolPaused { pool: pool.name.to_owned() })
    } else {
        quorum(inputs)
    }
}

fn fill<'a>(decision: &mut Verdicts<'a>, inputs: &Inputs<'a>, target: Target<'a>, stopped: Option<Reason>) {
    let (mut broken, mut recalled, mut able) = (Vec::new(), Vec::new(), Vec::new());
    let is_paused = matches!(stopped, Some(Reason::PoolPaused { .. }));
    for node in inputs.nodes.iter().copied() {
        match standing(node, target, inputs.now) {
            Standing::Updated => decision.updated.push(node.name),
            Standing::Stays(reason) => decision.waiting.push(wait(node, reason)),
            // To be told to stay what it is moves nobody.
            Standing::Recallable if is_paused && node.runs(target) => recalled.push(node),
            Standing::Broken | Standing::Recallable | Standing::Able if stopped.is_some() => {
                let reason = |reason: &Reason| match (node.desired_config, node.drain_blocked()) {
                    _ if !node.has_daemon() => Reason::NoNodeDaemon,
                    // It is on its way all the same, and moves as soon as it can.
                    (_, Some(blockers)) if node.is_under_way() => {
                        let node = Holder::new(node.name, since(node), inputs.now);
                        Reason::DrainBlocked { blockers: blockers.to_owned(), node }
                    }
                    (Some(config), None) if node.is_under_way() => other_target(node, config, inputs.now),
                    _ => reason.clone(),
                };
                decision.waiting.extend(stopped.iter().map(|stopped| wait(node, reason(stopped))));
            }
            Standing::Broken => broken.push(node),
            Standing::Recallable => recalled.push(node),
            Standing::Able => able.push(node),
        }
    }
    decision.updated.sort_unstable();
    if stopped.is_some() {
        in_order(&mut recalled);
        let (free, _) = within_a_promise(recalled, decision, inputs, target);
        decision.chosen = free.iter().map(|node| node.name).collect();
        return;
    }

    in_order(&mut broken);
    in_order(&mut recalled);
    broken.append(&mut recalled);
    let (free, mut room) = within_a_promise(broken, decision, inputs, target);
    decision.chosen.extend(free.iter().map(|node| node.name));
    decision.candidates.extend(free.iter().map(|node| node.name));

    let max = match &decision.max_unavailable {
        Ok(max) => *max,
        Err(error) => {
            let reason = Reason::InvalidMaxUnavailable { found: error.found.clone() };
            decision.waiting.extend(able.into_iter().map(|node| wait(node, reason.clone())));
            decision.candidates.sort_unstable();
            return;
        }
    };
    // What is promised may be given at any moment: such nodes count as away, and come first.
    let (promised, mut able): (Vec<_>, Vec<_>) = able.into_iter().partition(|node| inputs.promised.is_open(node));
    let away: Vec<&NodeView<'_>> = inputs.nodes.iter().copied().filter(|node| node.is_away(target)).collect();
    let taken = away.len() + promised.len() + decision.fence.len();
    let capacity = usize::try_from(max).unwrap_or(0).saturating_sub(taken);
    decision.chosen.extend(promised.iter().map(|node| node.name));
    decision.candidates.extend(promised.iter().map(|node| node.name));
    if capacity.min(room.nodes) > 0 {
        decision.capacity = capacity.min(room.nodes);
        able = eligible(able, decision, inputs);
        decision.candidates.extend(able.iter().map(|node| node.name));
    }
    decision.candidates.sort_unstable();

    // A broken node that still runs pods stops counting as available once it is given the target.
    let taken = free.iter().filter(|node| !node.is_unavailable()).count();
    in_order(&mut able);
    let mut rest = able.split_off(capacity.saturating_sub(taken).min(able.len()));
    let fitting = able.iter().take_while(|node| room.take(node)).count();
    // Those that only the promise has no room for.
    let crowded = able.split_off(fitting);
    let crowd = crowded.len();
    rest.splice(0..0, crowded);
    decision.chosen.extend(able.iter().map(|node| node.name));

    let since = |node: &&NodeView<'a>| Holder::new(node.name, since(node), inputs.now);
    let mut holders: Vec<Holder> = away.iter().map(since).collect();
    let moving = free.iter().filter(|node| !node.is_away(target)).chain(&promised).chain(&able);
    holders.extend(moving.map(|node| Holder::new(node.name, None, inputs.now)));
    // Whoever is away for longest is what people look for first.
    holders.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.node.cmp(&b.node)));
    let used_by: Arc<[Holder]> = holders.into();
    let count = reservation::MOST.saturating_sub(room.nodes);
    decision.waiting.extend(rest.into_iter().enumerate().map(|(nth, node)| {
        let reason = match node.desired_config {
            // Nobody waits for a budget that it uses up itself.
            _ if max >= 0 && !node.has_daemon() => Reason::NoNodeDaemon,
            Some(config) if node.is_under_way() || node.is_unavailable() => other_target(node, config, inputs.now),
            _ if nth < crowd => Reason::OrdersInProgress { count },
            _ => Reason::Budget { max, used_by: Arc::clone(&used_by) },
        };
        wait(node, reason)
    }));
}

/// Of the nodes that need no budget those that a promise has room for, and what room it has then.
fn within_a_promise<'a>(
    nodes: Vec<&'a NodeView<'a>>,
    decision: &mut Verdicts<'a>,
    inputs: &Inputs<'a>,
    target: Target<'a>,
) -> (Vec<&'a NodeView<'a>>, Room) {
    let kept: BTreeMap<&str, &str> = inputs.promised.kept(inputs.nodes, target).collect();
    let mut room = Room::beside(kept.iter().map(|(node, revision)| (*node, *revision)));
    let (free, rest): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| kept.contains_key(node.name) || room.take(node));
    let count = reservation::MOST.saturating_sub(room.nodes);
    decision.waiting.extend(rest.into_iter().map(|node| wait(node, Reason::OrdersInProgress { count })));
    (free, room)
}

/// Leaves out the nodes that could move but for something else than the budget.
fn eligible<'a>(
    able: Vec<&'a NodeView<'a>>,
    decision: &mut Verdicts<'a>,
    inputs: &Inputs<'a>,
) -> Vec<&'a NodeView<'a>> {
    // The controllers would move with their node in the middle of the roll-out; where they run on several nodes, or only
    // one node is left, that cannot be helped.
    let deferred = match inputs.operator_nodes {
        [node] if inputs.pool.name == MASTER && able.len() > 1 => Some(*node),
        _ => None,
    };
    let mut eligible = Vec::with_capacity(able.len());
    for node in able {
        if deferred == Some(node.name) {
            decision.deferred = Some(node.name);
            decision.waiting.push(wait(node, Reason::RunsOperator));
        } else if let Some(joining) = inputs.boots.joining(node) {
            decision.waiting.push(wait(node, Reason::JoiningPool { pool: joining.pool.to_owned() }));
            decision.joining.push(joining);
        } else if let Some(hold) = inputs.holds.iter().find(|hold| hold.keeps(node.name)) {
            let recheck = hold.until.map(|until| until.duration_since(inputs.now).max(SignedDuration::ZERO));
            decision.recheck = [decision.recheck, recheck].into_iter().flatten().min();
            decision.waiting.push(wait(node, Reason::Held { hold: hold.clone() }));
        } else {
            eligible.push(node);
        }
    }
    decision.joining.sort_by_key(|joining| joining.node);
    eligible
}

/// Where a node stands towards the target.
enum Standing {
    Updated,
    Broken,
    Recallable,
    Able,
    Stays(Reason),
}

fn standing(node: &NodeView<'_>, target: Target<'_>, now: Timestamp) -> Standing {
    if node.is_updated(target) {
        return Standing::Updated;
    }
    if let Some(why) = node.paused.filter(|_| !node.is_targeted(target)) {
        return Standing::Stays(Reason::NodePaused { why: why.to_owned() });
    }
    if node.is_strange() {
        return Standing::Stays(Reason::Failed { message: node.reason.to_owned() });
    }
    // Differs: upstream gives a broken node its turn only while it is ready and the budget allows it, because it sees no
    // difference between taking a node down and picking it up. A broken node is often cordoned, and would wait for ever.
    if node.is_broken(target) {
        return Standing::Broken;
    }
    // Differs: upstream leaves a node with an order that it has not begun, because such a node takes the budget of its own
    // revert. Its daemon may be dead, or begin what nobody wants any more tomorrow. The order is given at the revision that
    // was seen, so one that begins meanwhile is left alone.
    if node.is_recallable(target) {
        return Standing::Recallable;
    }
    let holder = || Holder::new(node.name, since(node), now);
    if node.is_targeted(target) {
        return Standing::Stays(if node.is_degraded() {
            Reason::Failed { message: node.reason.to_owned() }
        } else if let Some(blockers) = node.drain_blocked() {
            Reason::DrainBlocked { blockers: blockers.to_owned(), node: holder() }
        } else if !node.has_daemon() {
            Reason::NoNodeDaemon
        } else {
            Reason::Updating { node: holder() }
        });
    }
    match (node.ailment, node.desired_config) {
        (None, _) => Standing::Able,
        // It may well be that it is not ready because it boots.
        (Some(_), Some(config)) if node.is_under_way() => Standing::Stays(other_target(node, config, now)),
        (Some(Ailment::Condition { type_, status, .. }), _) => {
            Standing::Stays(Reason::NotReady { condition: type_.to_owned(), status: status.to_owned(), node: holder() })
        }
        (Some(_), _) => Standing::Stays(Reason::Cordoned),
    }
}

/// Why a pool of a cluster with an arbiter must not take a node away, if so.
///
/// Two control-plane nodes and an arbiter keep quorum as long as one of the three is away. The control plane goes first.
fn quorum(inputs: &Inputs<'_>) -> Option<Reason> {
    let partner = inputs.partner?;
    let is_first = inputs.pool.name != ARBITER;
    let still_moves = |node: &&NodeView<'_>| {
        !is_first && !partner.pool.is_paused() && partner.pool.target().is_some_and(|target| !node.is_targeted(target))
    };
    let is_away = |node: &&NodeView<'_>| node.is_unavailable() || partner.promised.is_open(node);
    let in_the_way = partner.nodes.iter().copied().filter(|node| is_away(node) || still_moves(node));
    let mut holders: Vec<Holder> = in_the_way.map(|node| Holder::new(node.name, since(node), inputs.now)).collect();
    holders.sort_by(|a, b| a.node.cmp(&b.node));
    (!holders.is_empty()).then(|| Reason::Quorum { pool: partner.pool.name.to_owned(), used_by: holders.into() })
}

fn other_target(node: &NodeView<'_>, config: &str, now: Timestamp) -> Reason {
    Reason::OtherTargetInProgress { config: config.to_owned(), node: Holder::new(node.name, since(node), now) }
}

fn wait(node: &NodeView<'_>, reason: Reason) -> Waiting {
    Waiting { node: node.name.to_owned(), reason }
}

/// Since when a node is as it is, as far as anybody wrote that down.
fn since(node: &NodeView<'_>) -> Option<Timestamp> {
    match node.ailment {
        Some(Ailment::Condition { since: Some(since), .. }) => Some(since),
        _ => node.since(),
    }
}

/// Sorts nodes by who moves first: zone by zone in the order of their names, those without a zone last, the oldest of a zone first.
///
/// Differs: nodes of the same age come by name, because upstream leaves their order to chance.
pub fn in_order(nodes: &mut [&NodeView<'_>]) {
    nodes.sort_by_cached_key(|node| (node.zone().is_none(), node.zone(), node.created, node.name));
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}
