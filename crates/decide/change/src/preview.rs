//! Preview: runs the decisions of controllers on objects in memory, until none has anything left to write.
//!
//! An operator contributes its [`PreviewPart`]s. They react to each other as the controllers do in a cluster: what one writes is
//! what the next one reads.

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
use crate::table::Tables;
use crate::time::to_second;

/// Controllers that react to each other reach a fixpoint after a few rounds, or never.
const MAX_ROUNDS: usize = 20;

/// The controllers of an operator that make objects from other objects, in a preview.
pub trait PreviewPart: Send + Sync {
    /// Empty tables of the kinds that its decisions read or write.
    fn tables(&self) -> Tables;

    /// Decides about every object once, and performs the decisions.
    fn reconcile(&self, round: &mut PreviewRound<'_>);

    /// Why a pool's MachineConfigs are not yet what these objects ask for, as a message; `None` if they are.
    fn pending(&self, objects: &Tables, pool: &str) -> Option<String> {
        let (_, _) = (objects, pool);
        None
    }
}

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
        PreviewProblem { severity: Severity::Error, ..PreviewProblem::note("preview", message) }
    }
}

/// One run of every part on the objects.
pub struct PreviewRound<'o> {
    objects: &'o mut Tables,
    build: &'o str,
    now: Timestamp,
    problems: BTreeSet<PreviewProblem>,
    is_stable: bool,
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

    /// Performs a decision, as the applier would on the cluster. A change that cannot be performed is a bug, and reported.
    pub fn perform<R>(&mut self, decision: &Decision<'_, R>) {
        self.is_stable &= decision.is_empty();
        if let Err(error) = memory::perform(decision, self.objects, self.now) {
            self.problems.insert(PreviewProblem::unperformed(&error));
        }
    }

    /// Reports a problem of the objects as they are. One that a later round solves is forgotten.
    pub fn report(&mut self, problem: PreviewProblem) {
        self.problems.insert(problem);
    }
}

/// Runs the parts until none has anything left to write. Returns the problems that are left then.
pub fn run_to_fixpoint(
    objects: &mut Tables,
    parts: &[Box<dyn PreviewPart>],
    build: &str,
    now: Timestamp,
) -> BTreeSet<PreviewProblem> {
    let mut problems = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut round = PreviewRound { objects, build, now, problems: BTreeSet::new(), is_stable: true };
        for part in parts {
            part.reconcile(&mut round);
        }
        let PreviewRound { problems: of_round, is_stable, .. } = round;
        problems = of_round;
        if is_stable {
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
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::change::Change;
    use crate::decision::{Purpose, Stage};

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

    fn run(parts: &[Box<dyn PreviewPart>]) -> (String, Vec<&'static str>) {
        let mut objects = Tables::default();
        for part in parts {
            objects.extend(part.tables());
        }
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
        assert_eq!(problems, ["unsettled", "busy"].into_iter().rev().collect::<Vec<_>>());
    }
}
