//! Holds: what beside the pool itself asks its nodes to wait.
//!
//! Maintenance windows, gates behind canaries, budgets shared with other operators: each becomes a [`Hold`] before the
//! decision, so that the decision has one rule for all of them. A hold never keeps back a node that an earlier target
//! broke: waiting would not make it better.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

/// Something that asks nodes to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What kind of thing it is.
    pub kind: HoldKind,
    /// Whom it keeps back.
    pub scope: Scope,
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
    /// Somebody else takes nodes away at the moment.
    SharedBudget,
    /// A person said so.
    Person,
}

/// Whom a hold keeps back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every node of the pool.
    Pool,
    /// These nodes, by name.
    Nodes(BTreeSet<String>),
    /// Every node but these, by name: canaries may go.
    AllBut(BTreeSet<String>),
}

impl Hold {
    /// Whether it keeps a node back.
    pub fn keeps(&self, node: &str) -> bool {
        match &self.scope {
            Scope::Pool => true,
            Scope::Nodes(nodes) => nodes.contains(node),
            Scope::AllBut(nodes) => !nodes.contains(node),
        }
    }
}
