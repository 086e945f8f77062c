//! Roll-out decision of a pool: which nodes move now, which wait, and why.
//!
//! - Every node gets a verdict: it moves, or it stays for a [`Reason`].
//! - The verdicts do not depend on the order in which the nodes are given.
//! - Nodes that an earlier target broke go first, and need no budget: they are unavailable already, or as good as that. The
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
use self::reservation::Headroom;
use self::waiting::{Holder, Reason, Waiting};
use crate::fleet::first_boot::MissingLabels;
use crate::fleet::{NodeView, Target, UnreadyReason};

pub use self::inputs::{PoolState, QuorumPartner, RolloutInputs, quorum_partner};

/// The verdict about every node of a pool.
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
    pub missing_labels: Vec<MissingLabels<'a>>,
    /// The node that waits because it runs the controllers.
    pub deferred: Option<&'a str>,
    /// The nodes that need no new order but may still receive a reserved one that is obsolete: they have to be fenced, so
    /// that it is refused.
    pub fence: Vec<&'a str>,
    /// When to decide again although nothing has changed.
    pub recheck: Option<SignedDuration>,
}

/// Decides about a pool.
pub fn decide<'a>(inputs: &RolloutInputs<'a>) -> Verdicts<'a> {
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
        missing_labels: Vec::new(),
        deferred: None,
        fence: Vec::new(),
        recheck: None,
    };
    let needs_fence = |node: &&&NodeView<'_>| {
        inputs.reservation.is_open(node) && pool.target().is_none_or(|target| node.is_targeted(target))
    };
    let stopped = pool.target().and_then(|_| stopped(inputs));
    // A pool that must not move gives no orders any more: what waits for its open reservations would wait indefinitely.
    let needs_fence =
        |node: &&&NodeView<'_>| needs_fence(node) || (stopped.is_some() && inputs.reservation.is_open(node));
    decision.fence = sorted(inputs.nodes.iter().filter(needs_fence).map(|node| node.name));
    match pool.target() {
        None => {
            let reason = Reason::NoConfiguration { pool: pool.name.to_owned() };
            decision.waiting = inputs.nodes.iter().map(|node| wait(node, reason.clone())).collect();
        }
        Some(target) => decide_nodes(&mut decision, inputs, target, stopped),
    }
    decision.waiting.sort_by(|a, b| a.node.cmp(&b.node));
    decision
}

/// Why no node of the pool may move, if so.
fn stopped(inputs: &RolloutInputs<'_>) -> Option<Reason> {
    let pool = inputs.pool;
    if pool.is_deleting() {
        Some(Reason::PoolDeleting { pool: pool.name.to_owned() })
    } else if pool.is_paused() {
        Some(Reason::PoolPaused { pool: pool.name.to_owned() })
    } else {
        quorum(inputs)
    }
}

fn decide_nodes<'a>(
    decision: &mut Verdicts<'a>,
    inputs: &RolloutInputs<'a>,
    target: Target<'a>,
    stopped: Option<Reason>,
) {
    let (mut broken, mut recalled, mut eligible) = (Vec::new(), Vec::new(), Vec::new());
    let is_paused = matches!(stopped, Some(Reason::PoolPaused { .. }));
    for node in inputs.nodes.iter().copied() {
        match eligibility(node, target, inputs.now) {
            Eligibility::Updated => decision.updated.push(node.name),
            Eligibility::Waits(reason) => decision.waiting.push(wait(node, reason)),
            // An order to keep what it runs does not move the node.
            Eligibility::Recallable if is_paused && node.runs(target) => recalled.push(node),
            Eligibility::Broken | Eligibility::Recallable | Eligibility::Eligible if stopped.is_some() => {
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
            Eligibility::Broken => broken.push(node),
            Eligibility::Recallable => recalled.push(node),
            Eligibility::Eligible => eligible.push(node),
        }
    }
    decision.updated.sort_unstable();
    if stopped.is_some() {
        sort_for_update(&mut recalled);
        let (free, _) = within_reservation(recalled, decision, inputs, target);
        decision.chosen = free.iter().map(|node| node.name).collect();
        return;
    }

    sort_for_update(&mut broken);
    sort_for_update(&mut recalled);
    broken.append(&mut recalled);
    let (free, mut room) = within_reservation(broken, decision, inputs, target);
    decision.chosen.extend(free.iter().map(|node| node.name));
    decision.candidates.extend(free.iter().map(|node| node.name));

    let max = match &decision.max_unavailable {
        Ok(max) => *max,
        Err(error) => {
            let reason = Reason::InvalidMaxUnavailable { found: error.found.clone() };
            decision.waiting.extend(eligible.into_iter().map(|node| wait(node, reason.clone())));
            decision.candidates.sort_unstable();
            return;
        }
    };
    // A reserved order may be given at any moment: such nodes count as unavailable, and come first.
    let (reserved, mut eligible): (Vec<_>, Vec<_>) =
        eligible.into_iter().partition(|node| inputs.reservation.is_open(node));
    let away: Vec<&NodeView<'_>> = inputs.nodes.iter().copied().filter(|node| node.uses_budget(target)).collect();
    let taken = away.len() + reserved.len() + decision.fence.len();
    let capacity = usize::try_from(max).unwrap_or(0).saturating_sub(taken);
    decision.chosen.extend(reserved.iter().map(|node| node.name));
    decision.candidates.extend(reserved.iter().map(|node| node.name));
    if capacity.min(room.nodes) > 0 {
        decision.capacity = capacity.min(room.nodes);
        eligible = without_held(eligible, decision, inputs);
        decision.candidates.extend(eligible.iter().map(|node| node.name));
    }
    decision.candidates.sort_unstable();

    // A broken node that still runs pods stops counting as available once it is given the target.
    let taken = free.iter().filter(|node| !node.is_unavailable()).count();
    sort_for_update(&mut eligible);
    let mut rest = eligible.split_off(capacity.saturating_sub(taken).min(eligible.len()));
    let fitting = eligible.iter().take_while(|node| room.take(node)).count();
    // Those that only the reservation has no room for.
    let overflow = eligible.split_off(fitting);
    let overflow_count = overflow.len();
    rest.splice(0..0, overflow);
    decision.chosen.extend(eligible.iter().map(|node| node.name));

    let since = |node: &&NodeView<'a>| Holder::new(node.name, since(node), inputs.now);
    let mut holders: Vec<Holder> = away.iter().map(since).collect();
    let moving = free.iter().filter(|node| !node.uses_budget(target)).chain(&reserved).chain(&eligible);
    holders.extend(moving.map(|node| Holder::new(node.name, None, inputs.now)));
    // The node that is unavailable for longest is what people look for first.
    holders.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.node.cmp(&b.node)));
    let used_by: Arc<[Holder]> = holders.into();
    let count = reservation::MAX_NODES.saturating_sub(room.nodes);
    decision.waiting.extend(rest.into_iter().enumerate().map(|(nth, node)| {
        let reason = match node.desired_config {
            // A node does not wait for a budget that it uses up itself.
            _ if max >= 0 && !node.has_daemon() => Reason::NoNodeDaemon,
            Some(config) if node.is_under_way() || node.is_unavailable() => other_target(node, config, inputs.now),
            _ if nth < overflow_count => Reason::OrdersInProgress { count },
            _ => Reason::Budget { max, used_by: Arc::clone(&used_by) },
        };
        wait(node, reason)
    }));
}

/// Of the nodes that need no budget those that fit the reservation, and its remaining headroom.
fn within_reservation<'a>(
    nodes: Vec<&'a NodeView<'a>>,
    decision: &mut Verdicts<'a>,
    inputs: &RolloutInputs<'a>,
    target: Target<'a>,
) -> (Vec<&'a NodeView<'a>>, Headroom) {
    let kept: BTreeMap<&str, &str> = inputs.reservation.kept(inputs.nodes, target).collect();
    let mut room = Headroom::after(kept.iter().map(|(node, revision)| (*node, *revision)));
    let (free, rest): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| kept.contains_key(node.name) || room.take(node));
    let count = reservation::MAX_NODES.saturating_sub(room.nodes);
    decision.waiting.extend(rest.into_iter().map(|node| wait(node, Reason::OrdersInProgress { count })));
    (free, room)
}

/// Leaves out the nodes that have to wait for another reason than the budget.
fn without_held<'a>(
    nodes: Vec<&'a NodeView<'a>>,
    decision: &mut Verdicts<'a>,
    inputs: &RolloutInputs<'a>,
) -> Vec<&'a NodeView<'a>> {
    // The controllers would move with their node in the middle of the roll-out; where they run on several nodes, or only
    // one node is left, that cannot be helped.
    let deferred = match inputs.operator_nodes {
        [node] if inputs.pool.name == MASTER && nodes.len() > 1 => Some(*node),
        _ => None,
    };
    let mut eligible = Vec::with_capacity(nodes.len());
    for node in nodes {
        if deferred == Some(node.name) {
            decision.deferred = Some(node.name);
            decision.waiting.push(wait(node, Reason::RunsOperator));
        } else if let Some(missing_labels) = inputs.first_boot_pools.missing_labels(node) {
            decision.waiting.push(wait(node, Reason::JoiningPool { pool: missing_labels.pool.to_owned() }));
            decision.missing_labels.push(missing_labels);
        } else if let Some(hold) = inputs.holds.iter().find(|hold| hold.applies_to(node.name)) {
            let recheck = hold.until.map(|until| until.duration_since(inputs.now).max(SignedDuration::ZERO));
            decision.recheck = [decision.recheck, recheck].into_iter().flatten().min();
            decision.waiting.push(wait(node, Reason::Held { hold: hold.clone() }));
        } else {
            eligible.push(node);
        }
    }
    decision.missing_labels.sort_by_key(|missing_labels| missing_labels.node);
    eligible
}

/// What a node may do relative to the target.
enum Eligibility {
    Updated,
    Broken,
    Recallable,
    Eligible,
    Waits(Reason),
}

fn eligibility(node: &NodeView<'_>, target: Target<'_>, now: Timestamp) -> Eligibility {
    if node.is_updated(target) {
        return Eligibility::Updated;
    }
    if let Some(why) = node.paused.filter(|_| !node.is_targeted(target)) {
        return Eligibility::Waits(Reason::NodePaused { why: why.to_owned() });
    }
    if node.is_unadopted() {
        return Eligibility::Waits(Reason::Failed { message: node.reason.to_owned() });
    }
    // Differs: upstream gives a broken node its turn only while it is ready and the budget allows it, because it sees no
    // difference between taking a node down and picking it up. A broken node is often cordoned, and would wait indefinitely.
    if node.is_broken(target) {
        return Eligibility::Broken;
    }
    // Differs: upstream leaves a node with an order that it has not begun, because such a node takes the budget of its own
    // revert. Its daemon may be dead, or begin an obsolete update tomorrow. The order is given at the revision that
    // was seen, so one that begins meanwhile is left alone.
    if node.is_recallable(target) {
        return Eligibility::Recallable;
    }
    let holder = || Holder::new(node.name, since(node), now);
    if node.is_targeted(target) {
        return Eligibility::Waits(if node.is_degraded() {
            Reason::Failed { message: node.reason.to_owned() }
        } else if let Some(blockers) = node.drain_blocked() {
            Reason::DrainBlocked { blockers: blockers.to_owned(), node: holder() }
        } else if !node.has_daemon() {
            Reason::NoNodeDaemon
        } else {
            Reason::Updating { node: holder() }
        });
    }
    match (node.unready_reason, node.desired_config) {
        (None, _) => Eligibility::Eligible,
        // It may well be that it is not ready because it boots.
        (Some(_), Some(config)) if node.is_under_way() => Eligibility::Waits(other_target(node, config, now)),
        (Some(UnreadyReason::Condition { type_, status, .. }), _) => Eligibility::Waits(Reason::NotReady {
            condition: type_.to_owned(),
            status: status.to_owned(),
            node: holder(),
        }),
        (Some(_), _) => Eligibility::Waits(Reason::Cordoned),
    }
}

/// Why a pool of a cluster with an arbiter must not take a node away, if so.
///
/// Two control-plane nodes and an arbiter keep quorum as long as one of the three is away. The control plane goes first.
fn quorum(inputs: &RolloutInputs<'_>) -> Option<Reason> {
    let partner = inputs.partner?;
    let is_first = inputs.pool.name != ARBITER;
    let still_moves = |node: &&NodeView<'_>| {
        !is_first && !partner.pool.is_paused() && partner.pool.target().is_some_and(|target| !node.is_targeted(target))
    };
    let is_unavailable = |node: &&NodeView<'_>| node.is_unavailable() || partner.reservation.is_open(node);
    let blocking = partner.nodes.iter().copied().filter(|node| is_unavailable(node) || still_moves(node));
    let mut holders: Vec<Holder> = blocking.map(|node| Holder::new(node.name, since(node), inputs.now)).collect();
    holders.sort_by(|a, b| a.node.cmp(&b.node));
    (!holders.is_empty()).then(|| Reason::Quorum { pool: partner.pool.name.to_owned(), used_by: holders.into() })
}

fn other_target(node: &NodeView<'_>, config: &str, now: Timestamp) -> Reason {
    Reason::OtherTargetInProgress { config: config.to_owned(), node: Holder::new(node.name, since(node), now) }
}

fn wait(node: &NodeView<'_>, reason: Reason) -> Waiting {
    Waiting { node: node.name.to_owned(), reason }
}

/// Since when a node is in its state, as far as that is on record.
fn since(node: &NodeView<'_>) -> Option<Timestamp> {
    match node.unready_reason {
        Some(UnreadyReason::Condition { since: Some(since), .. }) => Some(since),
        _ => node.since(),
    }
}

/// Sorts nodes by who moves first: zone by zone in the order of their names, those without a zone last, the oldest of a zone first.
///
/// Differs: nodes of the same age come by name, because upstream leaves their order to chance.
pub fn sort_for_update(nodes: &mut [&NodeView<'_>]) {
    nodes.sort_by_cached_key(|node| (node.zone().is_none(), node.zone(), node.created, node.name));
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}
