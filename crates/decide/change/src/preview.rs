//! Preview: runs the decisions of controllers on objects in memory, until none has anything left to write.
//!
//! An operator contributes its [`PreviewPart`]s. They react to each other as the controllers do in a cluster: what one writes is
//! what the next one reads. A part runs only where all its kinds have tables: its operator is off where a kind is not served, and
//! a kind that could not be read would look as if its objects were deleted.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use seaworthy_values::Severity;

use crate::decision::Decision;
use crate::memory::{self, MemoryError};
use crate::object::ObjectRef;
use crate::resource::Scope;
use crate::table::{TableConflict, Tables};
use crate::time::to_second;

/// Controllers that react to each other reach a fixpoint after a few rounds, or never.
const MAX_ROUNDS: usize = 20;

/// The controllers of an operator that make objects from other objects, in a preview.
pub trait PreviewPart: Send + Sync {
    /// Empty tables of the kinds that its decisions read or write.
    fn tables(&self) -> Tables;

    /// Decides about every object once, and performs the decisions.
    fn reconcile(&self, round: &mut PreviewRound<'_>);

    /// Empty tables of the kinds that `pending` reads. They are read again and again while a roll-out is watched.
    fn pending_tables(&self) -> Tables {
        Tables::default()
    }

    /// Why a pool's MachineConfigs are not yet what these objects ask for, as a message; `None` if they are.
    fn pending(&self, objects: &Tables, pool: &str) -> Option<String> {
        let (_, _) = (objects, pool);
        None
    }
}

/// Empty tables of the kinds that these parts read or write.
///
/// # Errors
///
/// If two parts have different types for a kind.
pub fn tables(parts: &[Box<dyn PreviewPart>]) -> Result<Tables, TableConflict> {
    union(parts.iter().map(|part| part.tables()))
}

/// Empty tables of the kinds that `pending` of these parts reads.
///
/// # Errors
///
/// If two parts have different types for a kind.
pub fn pending_tables(parts: &[Box<dyn PreviewPart>]) -> Result<Tables, TableConflict> {
    union(parts.iter().map(|part| part.pending_tables()))
}

fn union(all: impl Iterator<Item = Tables>) -> Result<Tables, TableConflict> {
    let mut union = Tables::default();
    for tables in all {
        union.extend(tables)?;
    }
    Ok(union)
}

/// What makes a pool wait for these parts, as a message; `None` if nothing does.
pub fn pending(parts: &[Box<dyn PreviewPart>], objects: &Tables, pool: &str) -> Option<String> {
    let mut parts = parts.iter().filter(|part| objects.has_all_of(&part.pending_tables()));
    parts.find_map(|part| part.pending(objects, pool))
}

/// The code of the problem that a change cannot be performed in memory.
const INCOMPLETE: &str = "preview";

/// A problem or a note that is not about one pool's rendering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreviewProblem {
    pub severity: Severity,
    /// For programs.
    pub code: &'static str,
    pub object: Option<ObjectRef>,
    /// The path of the field; empty for the object as a whole.
    pub path: String,
    /// The pool that causes it if it cannot be rendered: then the failure of the pool is reported instead.
    pub caused_by_pool: Option<String>,
    /// For users; names the object.
    pub message: String,
}

impl PreviewProblem {
    /// A note that requires no action.
    pub fn note(code: &'static str, message: String) -> PreviewProblem {
        PreviewProblem {
            severity: Severity::Info,
            code,
            object: None,
            path: String::new(),
            caused_by_pool: None,
            message,
        }
    }

    /// A problem of an object of the whole cluster.
    pub fn of<K>(severity: Severity, code: &'static str, name: &str, message: String) -> PreviewProblem
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        let object = Some(ObjectRef::named::<K>(name));
        PreviewProblem { severity, object, ..PreviewProblem::note(code, message) }
    }

    /// The problem at a field.
    #[must_use]
    pub fn at(self, path: impl Into<String>) -> PreviewProblem {
        PreviewProblem { path: path.into(), ..self }
    }

    /// A change that cannot be performed in memory.
    pub fn unperformed(error: &MemoryError) -> PreviewProblem {
        let message = format!("the preview is incomplete, because a change cannot be performed in memory: {error}");
        PreviewProblem { severity: Severity::Error, ..PreviewProblem::note(INCOMPLETE, message) }
    }

    /// Whether the preview is incomplete because of it.
    pub fn is_incomplete_preview(&self) -> bool {
        self.code == INCOMPLETE
    }
}

/// One run of every part on the objects.
pub struct PreviewRound<'o> {
    objects: &'o mut Tables,
    build: &'o str,
    now: Timestamp,
    problems: BTreeSet<PreviewProblem>,
    is_changed: bool,
    /// The change that could not be performed. What follows it would rest on it.
    error: Option<MemoryError>,
}

impl PreviewRound<'_> {
    pub fn objects(&self) -> &Tables {
        self.objects
    }

    /// The build that generates, as it annotates what it makes.
    pub fn build(&self) -> &str {
        self.build
    }

    /// The time, to the second.
    pub fn now(&self) -> Time {
        Time(to_second(self.now))
    }

    /// Performs a decision, as the applier would on the cluster. A change that cannot be performed is a bug; it is reported, and
    /// nothing is performed after it.
    pub fn perform<R>(&mut self, decision: &Decision<'_, R>) {
        if self.error.is_some() {
            return;
        }
        match memory::perform(decision, self.objects, self.now) {
            Ok(performed) => self.is_changed |= performed.is_changed,
            Err(error) => self.error = Some(error),
        }
    }

    /// Reports a problem of the objects as they are. One that a later round solves is forgotten.
    pub fn report(&mut self, problem: PreviewProblem) {
        self.problems.insert(problem);
    }
}

/// Runs the parts until none changes anything. Returns the problems that are left then; a change that cannot be performed ends
/// the run, and is the only one.
pub fn run_to_fixpoint(
    objects: &mut Tables,
    parts: &[Box<dyn PreviewPart>],
    build: &str,
    now: Timestamp,
) -> BTreeSet<PreviewProblem> {
    let parts: Vec<&dyn PreviewPart> =
        parts.iter().filter(|part| objects.has_all_of(&part.tables())).map(|part| &**part).collect();
    let mut problems = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut round = PreviewRound { objects, build, now, problems: BTreeSet::new(), is_changed: false, error: None };
        for part in &parts {
            part.reconcile(&mut round);
            if let Some(error) = &round.error {
                return BTreeSet::from([PreviewProblem::unperformed(error)]);
            }
        }
        let PreviewRound { problems: of_round, is_changed, .. } = round;
        problems = of_round;
        if !is_changed {
            return problems;
        }
    }
    let message = format!(
        "the controllers still write after {MAX_ROUNDS} rounds, each undoing what another did; what is shown is one of their results"
    );
    problems.insert(PreviewProblem { severity: Severity::Warning, ..PreviewProblem::note("unsettled", message) });
    problems
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;
    use crate::change::Change;
    use crate::decision::{Purpose, Stage};
    use crate::event::Event;

    /// Labels every node, with what `wanted` makes of its present label.
    struct Labeller(fn(&str) -> &'static str);

    impl PreviewPart for Labeller {
        fn tables(&self) -> Tables {
            Tables::default().with::<Node>()
        }

        fn reconcile(&self, round: &mut PreviewRound<'_>) {
            let change = |node: &std::sync::Arc<Node>| {
                let label = node.metadata.labels.as_ref()?.get("a")?;
                let wanted = (self.0)(label);
                let patch = json!({"metadata": {"labels": {"a": wanted}}});
                (label != wanted).then(|| Change::patch(ObjectRef::of(&**node), patch))
            };
            let changes: Vec<Change> = round.objects().of::<Node>().iter().filter_map(change).collect();
            if !changes.is_empty() {
                round.report(PreviewProblem::note("busy", "a node is labelled".to_owned()));
            }
            round.perform(&Decision::of([Stage::sequence(Purpose::Write, changes)]));
        }
    }

    /// Performs the same decision in every round.
    struct Repeater(fn() -> Vec<Change>);

    impl PreviewPart for Repeater {
        fn tables(&self) -> Tables {
            Tables::default().with::<Node>()
        }

        fn reconcile(&self, round: &mut PreviewRound<'_>) {
            round.report(PreviewProblem::note("repeated", "a node is written".to_owned()));
            round.perform(&Decision::of([Stage::sequence(Purpose::Write, (self.0)())]));
        }
    }

    fn run(parts: &[Box<dyn PreviewPart>]) -> (String, Vec<&'static str>) {
        let mut objects = tables(parts).unwrap();
        objects
            .of_kind_mut("", "Node")
            .unwrap()
            .put(json!({"metadata": {"name": "w1", "labels": {"a": "1"}}}))
            .unwrap();
        let problems = run_to_fixpoint(&mut objects, parts, "b", Timestamp::UNIX_EPOCH);
        let label = objects.of::<Node>()[0].metadata.labels.as_ref().unwrap()["a"].clone();
        (label, problems.iter().map(|problem| problem.code).collect())
    }

    #[test]
    fn parts_run_until_none_has_anything_left_to_write() {
        let first: fn(&str) -> &'static str = |label| if label == "1" || label == "2" { "2" } else { "3" };
        let second: fn(&str) -> &'static str = |label| if label == "2" || label == "3" { "3" } else { "1" };
        let (label, problems) = run(&[Box::new(Labeller(first)), Box::new(Labeller(second))]);
        assert_eq!((label.as_str(), problems), ("3", vec![]), "problems of earlier rounds are solved");
    }

    #[test]
    fn parts_that_undo_each_other_are_reported() {
        let (_, problems) = run(&[Box::new(Labeller(|_| "2")), Box::new(Labeller(|_| "1"))]);
        assert_eq!(problems, ["busy", "unsettled"]);
    }

    #[test]
    fn decision_that_changes_nothing_is_stable() {
        let label = || {
            let node = json!({"metadata": {"name": "w1", "labels": {"a": "2"}}});
            vec![Change::apply(&serde_json::from_value::<Node>(node).unwrap())]
        };
        assert_eq!(run(&[Box::new(Repeater(label))]), ("2".to_owned(), vec!["repeated"]));
        let announce = || {
            let event = Event { is_warning: false, reason: "Labelled", message: "a label".to_owned(), related: None };
            vec![Change::emit(ObjectRef::named::<Node>("w1"), event)]
        };
        assert_eq!(run(&[Box::new(Repeater(announce))]), ("1".to_owned(), vec!["repeated"]));
    }

    #[test]
    fn change_that_cannot_be_performed_ends_the_preview_and_is_its_only_problem() {
        let missing = || vec![Change::patch(ObjectRef::named::<Node>("w9"), json!({}))];
        let parts: [Box<dyn PreviewPart>; 2] = [Box::new(Repeater(missing)), Box::new(Labeller(|_| "2"))];
        let (label, problems) = run(&parts);
        assert_eq!((label.as_str(), problems), ("1", vec![INCOMPLETE]));
    }

    #[test]
    fn part_without_a_table_of_its_kind_does_not_run() {
        let parts: [Box<dyn PreviewPart>; 1] = [Box::new(Repeater(|| panic!("it runs")))];
        let mut objects = Tables::default().with::<Pod>();
        assert!(run_to_fixpoint(&mut objects, &parts, "b", Timestamp::UNIX_EPOCH).is_empty());
    }

    /// Waits for nodes.
    struct Waiter;

    impl PreviewPart for Waiter {
        fn tables(&self) -> Tables {
            Tables::default().with::<Node>().with::<Pod>()
        }

        fn pending_tables(&self) -> Tables {
            Tables::default().with::<Node>()
        }

        fn reconcile(&self, _: &mut PreviewRound<'_>) {}

        fn pending(&self, _: &Tables, pool: &str) -> Option<String> {
            Some(format!("{pool} waits"))
        }
    }

    #[test]
    fn only_parts_whose_kinds_were_read_are_asked_what_is_pending() {
        let parts: [Box<dyn PreviewPart>; 2] = [Box::new(Repeater(Vec::new)), Box::new(Waiter)];
        let read = pending_tables(&parts).unwrap();
        assert!(read.get::<Node>().is_some() && read.get::<Pod>().is_none());
        assert_eq!(pending(&parts, &read, "infra").as_deref(), Some("infra waits"));
        assert_eq!(pending(&parts, &Tables::default(), "infra"), None);
    }
}
