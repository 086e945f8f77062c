//! Decisions: changes in stages, with the reasons for what does not change.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::change::Change;

/// What should change, the reason for everything that should not, and when to decide again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision<'a, R> {
    /// The stages, in the order in which they are performed.
    pub stages: Vec<Stage<'a>>,
    /// What was found, and why.
    pub report: R,
    /// When to decide again although nothing has changed.
    pub recheck: Option<Duration>,
}

/// Changes that are performed together.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage<'a> {
    /// What it is for; in logs and in printed decisions.
    pub purpose: Purpose,
    /// How its changes follow each other, and what a failure means.
    pub flow: Flow,
    pub changes: Vec<Change>,
    /// Changes that are built when their turn comes, after the others: each the changes of one object.
    #[serde(serialize_with = "built")]
    pub deferred: Vec<Deferred<'a>>,
}

/// What a stage is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Touches objects so that writes of an earlier decision which are still under way are refused.
    Fence,
    /// Reserves what later stages use: budget, names, finalizers.
    Reserve,
    /// Reports on objects other than the one that was decided about.
    Report,
    /// Gives orders to nodes.
    Order,
    /// Creates, replaces and deletes objects.
    Write,
    /// Evicts pods.
    Evict,
    /// Writes the status of the object that was decided about.
    Status,
    /// Emits events.
    Announce,
}

/// How the changes of a stage follow each other, and what a failure means for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Flow {
    /// One after the other. The first failure ends the decision: what follows rests on it.
    Sequence,
    /// One after the other. A failure stops neither the rest of the stage nor later stages.
    Each,
    /// The changes of one object in order, different objects at the same time. A failure ends the changes of its object
    /// only; later stages go on.
    PerObject,
}

/// The changes of one object, built when their turn comes: thousands of them need not be in memory at once.
pub struct Deferred<'a>(std::sync::Arc<dyn Fn() -> Vec<Change> + Send + Sync + 'a>);

impl<'a> Deferred<'a> {
    /// Built by this function.
    pub fn new(build: impl Fn() -> Vec<Change> + Send + Sync + 'a) -> Deferred<'a> {
        Deferred(std::sync::Arc::new(build))
    }

    /// The changes.
    pub fn build(&self) -> Vec<Change> {
        (self.0)()
    }
}

impl Clone for Deferred<'_> {
    fn clone(&self) -> Self {
        Deferred(std::sync::Arc::clone(&self.0))
    }
}

impl<R> Decision<'_, R> {
    /// A decision that changes nothing.
    pub fn nothing(report: R) -> Self {
        Decision { stages: Vec::new(), report, recheck: None }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(Stage::is_empty)
    }

    /// All changes, in the order of their stages.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        self.stages.iter().flat_map(Stage::all).map(Cow::into_owned)
    }
}

impl<'a> Decision<'a, ()> {
    /// A decision of these stages alone, for what has nothing to report.
    pub fn of(stages: impl IntoIterator<Item = Stage<'a>>) -> Self {
        let stages = stages.into_iter().filter(|stage| !stage.is_empty()).collect();
        Decision { stages, report: (), recheck: None }
    }
}

impl<'a> Stage<'a> {
    /// Changes one after the other; the first failure ends the decision.
    pub fn sequence(purpose: Purpose, changes: impl IntoIterator<Item = Change>) -> Stage<'a> {
        Stage::new(purpose, Flow::Sequence, changes)
    }

    /// Changes one after the other, whatever becomes of those before.
    pub fn each(purpose: Purpose, changes: impl IntoIterator<Item = Change>) -> Stage<'a> {
        Stage::new(purpose, Flow::Each, changes)
    }

    /// Changes of different objects at the same time.
    pub fn per_object(purpose: Purpose, changes: impl IntoIterator<Item = Change>) -> Stage<'a> {
        Stage::new(purpose, Flow::PerObject, changes)
    }

    fn new(purpose: Purpose, flow: Flow, changes: impl IntoIterator<Item = Change>) -> Stage<'a> {
        Stage { purpose, flow, changes: changes.into_iter().collect(), deferred: Vec::new() }
    }

    /// The same with changes that are built when their turn comes.
    #[must_use]
    pub fn with_deferred(mut self, deferred: impl IntoIterator<Item = Deferred<'a>>) -> Stage<'a> {
        self.deferred.extend(deferred);
        self
    }

    /// Whether it has no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.deferred.is_empty()
    }

    /// Its changes, those that are deferred included. The others are borrowed: a change may hold a whole rendered MachineConfig.
    pub fn all(&self) -> impl Iterator<Item = Cow<'_, Change>> {
        let deferred = self.deferred.iter().flat_map(Deferred::build);
        self.changes.iter().map(Cow::Borrowed).chain(deferred.map(Cow::Owned))
    }
}

impl PartialEq for Stage<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.purpose == other.purpose && self.flow == other.flow && self.all().eq(other.all())
    }
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<_> = self.all().collect();
        let mut shown = out.debug_struct("Stage");
        shown.field("purpose", &self.purpose).field("flow", &self.flow).field("changes", &changes).finish()
    }
}

fn built<S: Serializer>(deferred: &[Deferred<'_>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(deferred.iter().flat_map(Deferred::build))
}
