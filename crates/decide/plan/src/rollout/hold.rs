//! Holds: reasons outside of the pool for its nodes to wait.
//!
//! Maintenance windows, gates behind canaries, budgets shared with other operators: each becomes a [`Hold`] before the
//! decision, so that the decision has one rule for all of them. A hold never keeps back a node that an earlier target
//! broke: waiting would not make it better.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

/// Something that asks nodes to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub kind: HoldKind,
    /// The nodes that it applies to.
    pub scope: HoldScope,
    /// What it is, as a sentence begins after "waits for": `the window "nights", which opens at 22:00`.
    pub what: String,
    /// When to look again, if that is known.
    pub until: Option<Timestamp>,
}

/// What asks nodes to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// It is not the time.
    Window,
    /// The nodes that went first have not proved the target yet.
    Gate,
    /// Another operator makes nodes unavailable at the moment.
    SharedBudget,
    /// A user set it.
    Manual,
}

/// The nodes that a hold applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldScope {
    /// Every node of the pool.
    Pool,
    /// These nodes, by name.
    Nodes(BTreeSet<String>),
    /// Every node but these, by name: canaries may go.
    AllExcept(BTreeSet<String>),
}

impl Hold {
    /// Whether a node has to wait for it.
    pub fn applies_to(&self, node: &str) -> bool {
        match &self.scope {
            HoldScope::Pool => true,
            HoldScope::Nodes(nodes) => nodes.contains(node),
            HoldScope::AllExcept(nodes) => !nodes.contains(node),
        }
    }
}
