//! Membership: the pool that a node belongs to.
//!
//! - The selectors of all pools are parsed once and matched against every node.
//! - A node takes its configuration from at most one pool, its primary one; `worker` may be the secondary pool of a node of a
//!   custom pool or of `master`.

use std::collections::BTreeMap;

use seaworthy_api::meta::{Pairs, Selection, SelectionError};
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, WORKER, label};

use crate::fleet::{NodeView, PoolView};
use crate::rollout::waiting::Reason;

/// The value of the label [`label::OS`] for nodes that nothing here can configure.
const WINDOWS: &str = "windows";

/// The parsed node selectors of all pools of a cluster.
#[derive(Debug)]
pub struct PoolSelectors<'a> {
    pools: Vec<(PoolView<'a>, Selection)>,
    /// The pools whose selector cannot be used, with the mistake.
    pub invalid: Vec<(&'a str, SelectionError)>,
    /// The pools whose selector names no label. Kubernetes would take it for "all nodes".
    pub matching_all: Vec<&'a str>,
}

/// The pools of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership<'a> {
    /// No pool selects it.
    NoPool,
    /// No pool configures its operating system.
    UnsupportedOs,
    /// The pool that it takes its configuration from.
    In {
        /// That pool.
        primary: &'a str,
        /// The pool that selects it as well; changes of the node affect it too.
        secondary: Option<&'a str>,
        /// A custom pool that selects it and is ignored, because it is a control-plane node.
        ignored: Option<&'a str>,
    },
    /// Several custom pools select it, so it belongs to none; in the order of their names.
    Conflict(Vec<&'a str>),
}

impl<'a> Membership<'a> {
    /// The pool that the node takes its configuration from.
    pub fn primary(&self) -> Option<&'a str> {
        match self {
            Membership::In { primary, .. } => Some(primary),
            _ => None,
        }
    }

    /// The pools that a change of the node affects. Conflicting pools are among them, so that each can report the conflict.
    pub fn affected_pools(&self) -> Vec<&'a str> {
        match self {
            Membership::NoPool | Membership::UnsupportedOs => Vec::new(),
            Membership::In { primary, secondary, .. } => [Some(*primary), *secondary].into_iter().flatten().collect(),
            Membership::Conflict(pools) => pools.clone(),
        }
    }

    /// Why the node moves with no pool, where that is so.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Membership::NoPool => Some(Reason::NotInPool),
            Membership::UnsupportedOs => Some(Reason::UnsupportedOs),
            Membership::In { .. } => None,
            Membership::Conflict(pools) => {
                Some(Reason::SeveralPools { pools: pools.iter().map(|name| (*name).to_owned()).collect() })
            }
        }
    }
}

impl<'a> PoolSelectors<'a> {
    /// Checks the selectors of pools.
    ///
    /// Differs: upstream fails the look-up of every node when one pool's selector is wrong, because it meets it on the
    /// way; here that pool has no nodes and says so, and the others go on.
    pub fn new(pools: impl IntoIterator<Item = PoolView<'a>>) -> Self {
        let mut all = PoolSelectors { pools: Vec::new(), invalid: Vec::new(), matching_all: Vec::new() };
        for pool in pools {
            // A pool without a selector has no nodes.
            let Some(selector) = pool.node_selector() else { continue };
            match Selection::of(selector) {
                Ok(selection) if selection.is_empty() => all.matching_all.push(pool.name),
                Ok(selection) => all.pools.push((pool, selection)),
                Err(error) => all.invalid.push((pool.name, error)),
            }
        }
        all.pools.sort_by_key(|(pool, _)| pool.name);
        all
    }

    /// The pools of a node.
    pub fn of(&self, node: &NodeView<'_>) -> Membership<'a> {
        self.of_labels(node.labels)
    }

    /// The pools of a node with these labels: nothing else of it counts.
    pub fn of_labels<'l>(&self, labels: impl Into<Pairs<'l>>) -> Membership<'a> {
        let labels = labels.into();
        if labels.get(label::OS.as_str()) == Some(WINDOWS) {
            return Membership::UnsupportedOs;
        }
        let (mut is_master, mut is_worker, mut custom) = (false, false, Vec::new());
        for (pool, selection) in &self.pools {
            if selection.matches(labels) {
                match pool.name {
                    MASTER => is_master = true,
                    WORKER => is_worker = true,
                    name => custom.push(name),
                }
            }
        }
        let worker = is_worker.then_some(WORKER);
        match (is_master, custom.as_slice()) {
            (_, [_, _, ..]) => Membership::Conflict(custom),
            (true, []) => Membership::In { primary: MASTER, secondary: worker, ignored: None },
            (true, [name]) => Membership::In { primary: MASTER, secondary: worker, ignored: Some(name) },
            (false, [name]) => Membership::In { primary: name, secondary: worker, ignored: None },
            (false, []) if is_worker => Membership::In { primary: WORKER, secondary: None, ignored: None },
            (false, []) => Membership::NoPool,
        }
    }

    /// The nodes of every pool, each in the order in which they are given.
    pub fn assign<'n>(&self, nodes: &'n [NodeView<'n>]) -> Assignment<'a, 'n> {
        let mut assignment = Assignment::default();
        for node in nodes {
            match self.of(node) {
                Membership::In { primary, .. } => assignment.pools.entry(primary).or_default().push(node),
                other => assignment.without.push((node, other)),
            }
        }
        assignment
    }
}

/// Nodes by pool.
#[derive(Debug, Default)]
pub struct Assignment<'a, 'n> {
    /// The nodes that take their configuration from a pool, by its name.
    pub pools: BTreeMap<&'a str, Vec<&'n NodeView<'n>>>,
    /// The nodes that take it from none.
    pub without: Vec<(&'n NodeView<'n>, Membership<'a>)>,
}

impl<'n> Assignment<'_, 'n> {
    /// The nodes of a pool.
    pub fn nodes_of(&self, pool: &str) -> &[&'n NodeView<'n>] {
        self.pools.get(pool).map(Vec::as_slice).unwrap_or_default()
    }
}
