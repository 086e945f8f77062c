//! The budget over random histories: several deciders with caches as old as may be, writes that are refused, lost, answered
//! too late or arrive too late, deciders that end anywhere, nodes and people that do what they like.
//!
//! The world is a model (objects with revisions, writes that are refused at an old one); the decisions are those of the
//! controller. Who keeps count is an observer that sees every write at once and asks no decider.
//!
//! `SEAWORTHY_HISTORIES` sets how many are run, `SEAWORTHY_SEED` runs the one with that seed and prints each step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::support::NOW;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::annotation as ours;
use seaworthy_change::{Action, Change, Purpose};
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView, Target};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::budget::max_unavailable;
use seaworthy_plan::rollout::pool::{self, desired};
use seaworthy_plan::rollout::reservation::Reservation;
use serde_json::{Value, json};

/// How many histories the normal run has.
const HISTORIES: u64 = 1000;
/// How many steps the unruly part of each has.
const STEPS: usize = 140;

/// Numbers that look like chance and repeat themselves.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// One write of an object, as a watch reports it.
#[derive(Clone)]
enum WatchEvent {
    Pool(Box<MachineConfigPool>),
    Node(String, Option<Box<Node>>),
}

/// What the API server holds, and everything that ever happened to it.
struct World {
    revision: u64,
    pool: MachineConfigPool,
    nodes: BTreeMap<String, Node>,
    /// For each kind its own watch, which lags by itself.
    pool_events: Vec<WatchEvent>,
    node_events: Vec<WatchEvent>,
    late: Vec<Change>,
    observer: Observer,
    is_verbose: bool,
}

/// Keeps count by what is written.
#[derive(Default)]
struct Observer {
    /// The nodes that carry out an order, apart from those that were broken when they were given it.
    under_order: BTreeSet<String>,
    /// How many may be: the budget when an order was reserved last, or the present one.
    allowed: i64,
    reserved: BTreeSet<String>,
    most: usize,
    refused: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum WriteFate {
    Answered,
    /// It is made, and the response is lost.
    AnswerLost,
    /// It hangs, and is made later.
    Late,
    /// The server fails, and it is not made.
    Failed,
}

struct Decider {
    pools_seen: usize,
    nodes_seen: usize,
    pool: Option<MachineConfigPool>,
    nodes: BTreeMap<String, Node>,
    first: VecDeque<Change>,
    then: Vec<Change>,
}

impl World {
    fn log(&self, what: impl FnOnce() -> String) {
        if self.is_verbose {
            println!("{:>4} {}", self.revision, what());
        }
    }

    /// A person, or the render controller, changes the pool.
    fn pool_changed(&mut self, change: impl FnOnce(&mut MachineConfigPool)) {
        self.pool_written(change);
        self.observer.allowed = self.observer.allowed.max(self.max());
    }

    /// A decider writes its reservation.
    fn reserve(&mut self, change: impl FnOnce(&mut MachineConfigPool)) {
        let before = self.observer.reserved.clone();
        self.pool_written(change);
        let is_out = |node: &String| self.is_broken(node) || self.observer.under_order.contains(node);
        // An order that is reserved at an old revision is refused.
        let reservation = Reservation::of(&self.pool);
        let is_open =
            |node: &String| self.nodes.get(node).is_some_and(|found| reservation.is_open(&NodeView::of(found, None)));
        let is_new = |node: &&String| !before.contains(*node) && !is_out(node) && is_open(node);
        let has_new = self.observer.reserved.iter().any(|node| is_new(&node));
        let max = self.max();
        self.observer.allowed = if has_new { max } else { max.max(self.observer.allowed) };
    }

    fn pool_written(&mut self, change: impl FnOnce(&mut MachineConfigPool)) {
        self.revision += 1;
        change(&mut self.pool);
        self.pool.metadata.resource_version = Some(self.revision.to_string());
        self.observer.reserved = Reservation::of(&self.pool).nodes.into_keys().collect();
        self.pool_events.push(WatchEvent::Pool(Box::new(self.pool.clone())));
    }

    fn max(&self) -> i64 {
        max_unavailable("worker", self.pool.spec.max_unavailable.as_ref(), self.nodes.len()).unwrap_or(0)
    }

    fn is_broken(&self, name: &str) -> bool {
        let target = PoolView::of(&self.pool).target().unwrap();
        self.nodes.get(name).is_some_and(|node| NodeView::of(node, None).is_broken(target))
    }

    fn node_changed(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        self.revision += 1;
        let was = node.clone();
        change(&mut node);
        node.metadata.resource_version = Some(self.revision.to_string());
        let wants = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned);
        let (before, after) = (NodeView::of(&was, None), NodeView::of(&node, None));
        if wants(&was) != wants(&node) && !before.is_degraded() {
            self.observer.under_order.insert(name.to_owned());
        }
        if after.is_done() {
            self.observer.under_order.remove(name);
        }
        self.node_events.push(WatchEvent::Node(name.to_owned(), Some(Box::new(node.clone()))));
        self.nodes.insert(name.to_owned(), node);
    }

    fn node_gone(&mut self, name: &str) {
        self.revision += 1;
        self.nodes.remove(name);
        self.observer.under_order.remove(name);
        // A pool given in percent shrinks with its nodes; what was reserved before stays reserved.
        self.node_events.push(WatchEvent::Node(name.to_owned(), None));
    }

    fn node_comes(&mut self, name: &str, config: &str) {
        self.revision += 1;
        let mut node = support::node(name, &format!("{config}/{config}R"));
        node.metadata.uid = Some(format!("{name}-{}", self.revision));
        node.metadata.resource_version = Some(self.revision.to_string());
        self.node_events.push(WatchEvent::Node(name.to_owned(), Some(Box::new(node.clone()))));
        self.nodes.insert(name.to_owned(), node);
    }

    /// Makes a write as the API server would: at the revision that it names, or not at all. Gives back what it made.
    fn write(&mut self, change: &Change) -> Option<WatchEvent> {
        let Change { object, action: Action::Patch(patch) } = change else { return None };
        let is_at = |metadata: &ObjectMeta| {
            metadata.resource_version == object.resource_version
                && object.uid.as_ref().is_none_or(|uid| metadata.uid.as_ref() == Some(uid))
        };
        if object.resource.kind == "MachineConfigPool" {
            if !is_at(&self.pool.metadata) {
                self.observer.refused += 1;
                return None;
            }
            self.reserve(|pool| patch_metadata(&mut pool.metadata, patch));
            return self.pool_events.last().cloned();
        }
        let found = self.nodes.get(&object.name);
        if !found.is_some_and(|node| is_at(&node.metadata)) {
            self.observer.refused += 1;
            return None;
        }
        self.node_changed(&object.name, |node| patch_node(node, patch));
        self.node_events.last().cloned()
    }

    fn check(&mut self, seed: u64) {
        let count = self.observer.under_order.len();
        self.observer.most = self.observer.most.max(count);
        assert!(
            count as i64 <= self.observer.allowed.max(self.max()).max(0),
            "seed {seed}: {count} nodes are under order, {} may be: {:?}",
            self.observer.allowed,
            self.observer.under_order
        );
    }
}

/// A merge patch, as far as decisions write one: annotations, labels, taints.
fn patch_metadata(metadata: &mut ObjectMeta, patch: &Value) {
    let mut merge = |key: &str, into: fn(&mut ObjectMeta) -> &mut BTreeMap<String, String>| {
        for (key, value) in patch["metadata"][key].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(value) => drop(into(metadata).insert(key.clone(), value.to_owned())),
                None => drop(into(metadata).remove(key)),
            }
        }
    };
    merge("annotations", |metadata| metadata.annotations.get_or_insert_default());
    merge("labels", |metadata| metadata.labels.get_or_insert_default());
}

fn patch_node(node: &mut Node, patch: &Value) {
    patch_metadata(&mut node.metadata, patch);
    if let Some(taints) = patch["spec"].get("taints") {
        node.spec.as_mut().unwrap().taints = serde_json::from_value(taints.clone()).unwrap();
    }
}

fn revision(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().unwrap().parse().unwrap()
}

impl Decider {
    /// A process that starts: its first list may be as old as any.
    fn start(world: &World, chance: &mut Chance) -> Decider {
        let mut decider = Decider {
            pools_seen: 0,
            nodes_seen: 0,
            pool: None,
            nodes: BTreeMap::new(),
            first: VecDeque::new(),
            then: Vec::new(),
        };
        let (pools, nodes) = (world.pool_events.len(), world.node_events.len());
        let (pools, nodes) =
            if chance.one_in(2) { (pools, nodes) } else { (1 + chance.below(pools), 1 + chance.below(nodes)) };
        decider.see_pools(world, pools);
        decider.see_nodes(world, nodes);
        decider
    }

    fn see_pools(&mut self, world: &World, count: usize) {
        for event in world.pool_events.iter().skip(self.pools_seen).take(count) {
            self.apply(event.clone());
            self.pools_seen += 1;
        }
    }

    fn see_nodes(&mut self, world: &World, count: usize) {
        for event in world.node_events.iter().skip(self.nodes_seen).take(count) {
            self.apply(event.clone());
            self.nodes_seen += 1;
        }
    }

    /// A cache never goes back.
    fn apply(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Pool(pool) => {
                if self.pool.as_ref().is_none_or(|held| revision(&held.metadata) < revision(&pool.metadata)) {
                    self.pool = Some(*pool);
                }
            }
            WatchEvent::Node(name, Some(node)) => {
                if self.nodes.get(&name).is_none_or(|held| revision(&held.metadata) < revision(&node.metadata)) {
                    self.nodes.insert(name, *node);
                }
            }
            WatchEvent::Node(name, None) => drop(self.nodes.remove(&name)),
        }
    }

    /// Decides, as the controller does. What it is to do is done step by step, and others may do something in between.
    fn decide(&mut self, world: &World, seed: u64) {
        let Some(pool) = self.pool.clone() else { return };
        let reservation = self.read_again(world, Reservation::of(&pool));
        let views: Vec<NodeView<'_>> = self.nodes.values().map(|node| NodeView::of(node, None)).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let (blockers, unanswered) = (BTreeMap::new(), BTreeSet::new());
        let first_boot_pools = FirstBootPools::default();
        let decision = desired(&pool::PoolRolloutInputs {
            rollout: rollout::RolloutInputs {
                pool: PoolView::of(&pool),
                nodes: &members,
                holds: &[],
                operator_nodes: &[],
                first_boot_pools: &first_boot_pools,
                partner: None,
                reservation: &reservation,
                now: NOW,
            },
            blockers: &blockers,
            unanswered: &unanswered,
            conflicting: &[],
            certificates: &[],
            topology: None,
            count_delay: None,
        });
        let report = &decision.report.verdicts;
        for node in &members {
            let waits = report.waiting.iter().find(|waiting| waiting.node == node.name);
            let verdicts = [waits.is_some(), report.chosen.contains(&node.name), report.updated.contains(&node.name)];
            assert_eq!(verdicts.iter().filter(|is| **is).count(), 1, "seed {seed}: {} {verdicts:?}", node.name);
            assert!(waits.is_none_or(|waiting| !waiting.reason.to_string().is_empty()), "seed {seed}");
        }
        world.log(|| format!("decides at {:?}: {:?}", pool.metadata.resource_version, report.chosen));
        let of = |purposes: &[Purpose]| -> Vec<Change> {
            let stages = decision.stages.iter().filter(|stage| purposes.contains(&stage.purpose));
            let changes = stages.flat_map(|stage| stage.all()).map(Cow::into_owned);
            changes.filter(|change| matches!(change.action, Action::Patch(_))).collect()
        };
        self.first = of(&[Purpose::Fence, Purpose::Reserve]).into();
        self.then = of(&[Purpose::Order]);
    }

    /// Reads nodes again that others have reserved at a later revision than this one has seen.
    fn read_again(&mut self, world: &World, reservation: Reservation) -> Reservation {
        for _ in 0..2 {
            let views: Vec<NodeView<'_>> = self.nodes.values().map(|node| NodeView::of(node, None)).collect();
            let members: Vec<&NodeView<'_>> = views.iter().collect();
            let stale: Vec<String> = reservation.stale(&members).into_iter().map(str::to_owned).collect();
            drop(views);
            if stale.is_empty() {
                return reservation;
            }
            for name in stale {
                self.apply(WatchEvent::Node(name.clone(), world.nodes.get(&name).cloned().map(Box::new)));
            }
        }
        let views: Vec<NodeView<'_>> = self.nodes.values().map(|node| NodeView::of(node, None)).collect();
        let members: Vec<&NodeView<'_>> = views.iter().collect();
        let wrong: Vec<String> = reservation.stale(&members).into_iter().map(str::to_owned).collect();
        reservation.without(&wrong)
    }

    fn is_busy(&self) -> bool {
        !self.first.is_empty() || !self.then.is_empty()
    }

    /// Makes the next write.
    fn act(&mut self, world: &mut World, chance: &mut Chance, fate: WriteFate) -> bool {
        let (change, is_first) = match self.first.pop_front() {
            Some(change) => (change, true),
            None => {
                let at = chance.below(self.then.len());
                (self.then.swap_remove(at), false)
            }
        };
        world.log(|| format!("{fate:?}: {change:?}"));
        let made = match fate {
            WriteFate::Answered | WriteFate::AnswerLost => world.write(&change),
            WriteFate::Failed => None,
            WriteFate::Late => {
                world.late.push(change);
                None
            }
        };
        match made.filter(|_| fate == WriteFate::Answered) {
            Some(event) => {
                self.apply(event);
                true
            }
            None => {
                if is_first {
                    self.first.clear();
                    self.then.clear();
                }
                false
            }
        }
    }
}

fn is_done(node: &Node) -> bool {
    NodeView::of(node, None).is_done()
}

fn finish(node: &mut Node) {
    let wanted = annotation::DESIRED_CONFIG.of(&node.metadata).unwrap().to_owned();
    annotation::CURRENT_CONFIG.set(&mut node.metadata, &wanted);
    annotation::STATE.set(&mut node.metadata, "Done");
}

fn set_ready(node: &mut Node, is_ready: bool) {
    let condition = &mut node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
    condition.status = if is_ready { "True" } else { "False" }.to_owned();
}

/// Nature and people.
fn disturb(world: &mut World, chance: &mut Chance, is_lopsided: bool) {
    let names: Vec<String> = world.nodes.keys().cloned().collect();
    let name = names.get(chance.below(names.len())).cloned().unwrap_or_default();
    let is_under_way = world.nodes.get(&name).is_some_and(|node| NodeView::of(node, None).is_under_way());
    // People do less, so that more comes of what deciders do.
    let kinds = if is_lopsided && !chance.one_in(5) { 26 } else { 40 };
    match chance.below(kinds) {
        0..=11 if is_under_way => world.node_changed(&name, finish),
        12..=15 if is_under_way => {
            world.node_changed(&name, |node| annotation::STATE.set(&mut node.metadata, "Working"))
        }
        16..=17 if is_under_way => {
            world.node_changed(&name, |node| annotation::STATE.set(&mut node.metadata, "Degraded"));
        }
        18..=20 => world.node_changed(&name, |node| set_ready(node, true)),
        21 => world.node_changed(&name, |node| set_ready(node, false)),
        22..=23 => world.node_changed(&name, |node| {
            let spec = node.spec.as_mut().unwrap();
            spec.unschedulable = Some(spec.unschedulable != Some(true));
        }),
        // A heartbeat.
        24..=25 => world.node_changed(&name, |_| {}),
        26 if world.nodes.len() > 2 => world.node_gone(&name),
        27..=28 if world.nodes.len() < 8 => {
            let free = (0..9).map(|nth| format!("n{nth}")).find(|name| !world.nodes.contains_key(name)).unwrap();
            let config = ["0", "1", "2"][chance.below(3)];
            world.node_comes(&free, config);
        }
        29..=31 => {
            let config = ["0", "1", "2", "3"][chance.below(4)];
            world.log(|| format!("target {config}"));
            world.pool_changed(|pool| pool.spec.configuration.as_mut().unwrap().name = Some(config.to_owned()));
        }
        32 => world.pool_changed(|pool| pool.spec.paused = Some(pool.spec.paused != Some(true))),
        33..=34 => {
            let max = chance.below(4) as i64;
            world.log(|| format!("budget {max}"));
            world.pool_changed(|pool| pool.spec.max_unavailable = Some(max.into()));
        }
        35 => world.pool_changed(|pool| pool.spec.max_unavailable = Some("many".into())),
        36 => {
            // A person edits what is none of theirs; what they take away is beyond us, what they add is not.
            let ahead = (world.revision + 1000).to_string();
            world.pool_changed(|pool| {
                let mut reservation = Reservation::of(pool);
                reservation.nodes.insert(name.clone(), ahead);
                ours::RESERVED_NODES.set(&mut pool.metadata, reservation.to_text());
            });
        }
        _ => {}
    }
}

struct Figures {
    most: usize,
    refused: usize,
    writes: u64,
}

fn history(seed: u64, is_verbose: bool) -> Figures {
    let mut chance = Chance(seed);
    let mut pool = support::pool("worker", "1", json!({"maxUnavailable": 1 + chance.below(3)}));
    pool.metadata.resource_version = Some("1".to_owned());
    let mut world = World {
        revision: 1,
        pool,
        nodes: BTreeMap::new(),
        pool_events: Vec::new(),
        node_events: Vec::new(),
        late: Vec::new(),
        observer: Observer::default(),
        is_verbose,
    };
    world.pool_changed(|_| {});
    for nth in 0..3 + chance.below(6) {
        world.node_comes(&format!("n{nth}"), "0");
    }
    let mut deciders: Vec<Decider> = (0..1 + chance.below(3)).map(|_| Decider::start(&world, &mut chance)).collect();
    let is_lopsided = seed.is_multiple_of(2);
    for _ in 0..STEPS {
        let at = chance.below(deciders.len());
        match chance.below(20) {
            0..=5 => {
                let fate = match chance.below(12) {
                    0 => WriteFate::AnswerLost,
                    1..=2 => WriteFate::Late,
                    3 => WriteFate::Failed,
                    _ => WriteFate::Answered,
                };
                if !deciders[at].is_busy() {
                    if is_lopsided {
                        deciders[at].see_pools(&world, usize::MAX);
                    }
                    deciders[at].decide(&world, seed);
                } else {
                    deciders[at].act(&mut world, &mut chance, fate);
                }
                // Mostly it goes on; sometimes others come in between.
                while deciders[at].is_busy() && !chance.one_in(6) {
                    deciders[at].act(&mut world, &mut chance, WriteFate::Answered);
                    world.check(seed);
                }
            }
            // Where views are lopsided, the nodes of all but one are seen late and the pool at once.
            6..=8 if !is_lopsided || at == 0 || chance.one_in(6) => {
                deciders[at].see_nodes(&world, 1 + chance.below(8));
            }
            9..=10 => deciders[at].see_pools(&world, 1 + chance.below(8)),
            11 if chance.one_in(3) => deciders[at] = Decider::start(&world, &mut chance),
            12 if !world.late.is_empty() => {
                let late = chance.below(world.late.len());
                let change = world.late.swap_remove(late);
                world.log(|| format!("arrives: {change:?}"));
                world.write(&change);
            }
            _ => disturb(&mut world, &mut chance, is_lopsided),
        }
        world.check(seed);
    }
    settle(&mut world, &mut deciders, &mut chance, seed);
    Figures { most: world.observer.most, refused: world.observer.refused, writes: world.revision }
}

/// The faults are over: every decider sees all events, nodes are ready and follow their orders. Then all reach the target,
/// and nothing is left to write.
fn settle(world: &mut World, deciders: &mut [Decider], chance: &mut Chance, seed: u64) {
    world.pool_changed(|pool| {
        pool.spec.paused = None;
        pool.spec.max_unavailable = Some(1.into());
    });
    let names: Vec<String> = world.nodes.keys().cloned().collect();
    for name in &names {
        world.node_changed(name, |node| {
            set_ready(node, true);
            node.spec.as_mut().unwrap().unschedulable = None;
        });
    }
    // As many decisions without a write in a row as there are deciders: then none has anything left to do.
    let mut quiet = 0;
    for round in 0.. {
        assert!(round < 120, "seed {seed}: it does not come to an end");
        if let Some(change) = world.late.pop() {
            world.write(&change);
            world.check(seed);
            quiet = 0;
        }
        let nth = round % deciders.len();
        let decider = &mut deciders[nth];
        decider.see_pools(world, usize::MAX);
        decider.see_nodes(world, usize::MAX);
        decider.first.clear();
        decider.then.clear();
        decider.decide(world, seed);
        quiet += 1;
        while decider.is_busy() {
            if decider.act(world, chance, WriteFate::Answered) {
                quiet = 0;
            }
            world.check(seed);
        }
        for name in &names {
            if !is_done(&world.nodes[name]) {
                world.node_changed(name, finish);
                quiet = 0;
            }
        }
        if quiet == deciders.len() && world.late.is_empty() {
            break;
        }
    }
    let target = PoolView::of(&world.pool).target().unwrap();
    for node in world.nodes.values() {
        let view = NodeView::of(node, None);
        assert!(view.is_updated(Target { ..target }), "seed {seed}: {} did not come to the target", view.name);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn budget_holds_and_all_nodes_arrive_whatever_happens_between() {
    if let Some(seed) = number("SEAWORTHY_SEED") {
        history(seed, true);
        return;
    }
    let count = number("SEAWORTHY_HISTORIES").unwrap_or(HISTORIES);
    let (mut writes, mut refused, mut at_most) = (0, 0, BTreeMap::new());
    for seed in 0..count {
        let figures = history(seed, false);
        writes += figures.writes;
        refused += figures.refused;
        *at_most.entry(figures.most).or_insert(0) += 1;
    }
    println!(
        "{count} histories, {writes} writes made, {refused} refused; most nodes under order at a time: {at_most:?}"
    );
    // A check of nothing would pass too.
    assert!(refused > 0 && at_most.keys().any(|most| *most > 1));
}
