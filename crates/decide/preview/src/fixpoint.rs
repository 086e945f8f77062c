//! Fixpoint: runs the decisions of controllers on objects in memory, until none changes anything.
//!
//! Parts react to each other as the controllers do in a cluster: what one writes is what the next one reads. A part runs only
//! where all its kinds have tables: its operator is off where a kind is not served, and a kind that could not be read would look
//! as if its objects were deleted.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use seaworthy_change::memory::{self, MemoryError};
use seaworthy_change::{Decision, Tables, to_second};
use seaworthy_values::Severity;

use crate::part::PreviewPart;
use crate::problem::PreviewProblem;

/// Controllers that react to each other reach a fixpoint after a few rounds, or never.
const MAX_ROUNDS: usize = 20;

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
        match memory::perform(decision, self.objects, self.now).result() {
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
    problems.insert(PreviewProblem::new(Severity::Warning, "unsettled", message).incomplete());
    problems
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use seaworthy_change::{Change, Event, ObjectRef, Purpose, Stage};
    use serde_json::json;

    use super::*;
    use crate::part::tables;
    use crate::problem::INCOMPLETE;

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

    /// The label of the node after a run, and the codes of the problems.
    fn run(parts: &[Box<dyn PreviewPart>]) -> (String, Vec<&'static str>) {
        let (label, problems) = run_with_problems(parts);
        (label, problems.iter().map(|problem| problem.code).collect())
    }

    fn run_with_problems(parts: &[Box<dyn PreviewPart>]) -> (String, BTreeSet<PreviewProblem>) {
        let mut objects = tables(parts).unwrap();
        objects
            .of_kind_mut("", "Node")
            .unwrap()
            .put(json!({"metadata": {"name": "w1", "labels": {"a": "1"}}}))
            .unwrap();
        let problems = run_to_fixpoint(&mut objects, parts, "b", Timestamp::UNIX_EPOCH);
        let label = objects.of::<Node>()[0].metadata.labels.as_ref().unwrap()["a"].clone();
        (label, problems)
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
        let (_, problems) = run_with_problems(&[Box::new(Labeller(|_| "2")), Box::new(Labeller(|_| "1"))]);
        let problems: Vec<(&str, bool)> =
            problems.iter().map(|problem| (problem.code, problem.leaves_preview_incomplete)).collect();
        assert_eq!(problems, [("busy", false), ("unsettled", true)]);
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
        let (label, problems) = run_with_problems(&parts);
        let found: Vec<(&str, bool)> =
            problems.iter().map(|problem| (problem.code, problem.leaves_preview_incomplete)).collect();
        assert_eq!((label.as_str(), found), ("1", vec![(INCOMPLETE, true)]));
    }

    #[test]
    fn part_without_a_table_of_its_kind_does_not_run() {
        let parts: [Box<dyn PreviewPart>; 1] = [Box::new(Repeater(|| panic!("it runs")))];
        let mut objects = Tables::default().with::<Pod>();
        assert!(run_to_fixpoint(&mut objects, &parts, "b", Timestamp::UNIX_EPOCH).is_empty());
    }
}
