//! Which pool a node belongs to (machineconfig.md, 4.1).
//!
//! - The selectors of all pools are checked once, then every node is asked about.
//! - A node has at most one pool that it takes its configuration from; `worker` may stand behind a custom pool, and
//!   behind `master`.

use std::collections::BTreeMap;

use seaworthy_api::meta::{Pairs, Selection, SelectionError};
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, WORKER, label};

use crate::fleet::{NodeView, PoolView};
use crate::rollout::waiting::Reason;

/// The value of the label [`label::OS`] for nodes that nothing here can configure.
const WINDOWS: &str = "windows";

/// The pools of a cluster, ready to be asked about nodes.
#[derive(Debug)]
pub struct Pools<'a> {
    pools: Vec<(PoolView<'a>, Selection)>,
    /// The pools whose selector cannot be used, with the mistake.
    pub broken: Vec<(&'a str, SelectionError)>,
    /// The pools whose selector names no label. Kubernetes would take it for "all nodes".
    pub selecting_all: Vec<&'a str>,
}

/// The pools of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership<'a> {
    /// No pool selects it.
    Nowhere,
    /// Its operating system is none of ours.
    Foreign,
    /// The pool that it takes its configuration from.
    In {
        /// That pool.
        primary: &'a str,
        /// The pool that stands behind it; it wants to know of the node's changes too.
        behind: Option<&'a str>,
        /// A custom pool that selects it in vain, because it is a control-plane node.
        in_vain: Option<&'a str>,
    },
    /// Several custom pools select it, so it belongs to none; in the order of their names.
    Torn(Vec<&'a str>),
}

impl<'a> Membership<'a> {
    /// The pool that the node takes its configuration from.
    pub fn primary(&self) -> Option<&'a str> {
        match self {
            Membership::In { primary, .. } => Some(primary),
            _ => None,
        }
    }

    /// The pools that have to look again when the node changes. Those that argue about it are among them, so that each
    /// can say so.
    pub fn concerned(&self) -> Vec<&'a str> {
        match self {
            Membership::Nowhere | Membership::Foreign => Vec::new(),
            Membership::In { primary, behind, .. } => [Some(*primary), *behind].into_iter().flatten().collect(),
            Membership::Torn(pools) => pools.clone(),
        }
    }

    /// Why the node moves with no pool, where that is so.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Membership::Nowhere => Some(Reason::NotInPool),
            Membership::Foreign => Some(Reason::OtherSystem),
            Membership::In { .. } => None,
            Membership::Torn(pools) => {
                Some(Reason::SeveralPools { pools: pools.iter().map(|name| (*name).to_owned()).collect() })
            }
        }
    }
}

impl<'a> Pools<'a> {
    /// Checks the selectors of pools.
    ///
    /// Differs: upstream fails the look-up of every node when one pool's selector is wrong, because it meets it on the
    /// way; here that pool has no nodes and says so, and the others go on.
    pub fn new(pools: impl IntoIterator<Item = PoolView<'a>>) -> Self {
        let mut all = Pools { pools: Vec::new(), broken: Vec::new(), selecting_all: Vec::new() };
        for pool in pools {
            // A pool without a selector has no nodes.
            let Some(selector) = pool.node_selector() else { continue };
            match Selection::of(selector) {
                Ok(selection) if selection.is_empty() => all.selecting_all.push(pool.name),
                Ok(selection) => all.pools.push((pool, selection)),
                Err(error) => all.broken.push((pool.name, error)),
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
            return Membership::Foreign;
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
            (_, [_, _, ..]) => Membership::Torn(custom),
            (true, []) => Membership::In { primary: MASTER, behind: worker, in_vain: None },
            (true, [name]) => Membership::In { primary: MASTER, behind: worker, in_vain: Some(name) },
            (false, [name]) => Membership::In { primary: name, behind: worker, in_vain: None },
            (false, []) if is_worker => Membership::In { primary: WORKER, behind: None, in_vain: None },
            (false, []) => Membership::Nowhere,
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
