//! Availability: the state of every operator of a process, for `/readyz?verbose` and the metric
//! `seaworthy_operator_available`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics::{Metrics, OperatorLabel};

/// The state of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorState {
    /// Its caches are being filled.
    Starting,
    Ready,
    /// It is off: none of its definitions is installed, so the cluster does not use it.
    NotInstalled(String),
    /// It is off although the cluster uses it: some of its definitions are missing or cannot be used.
    Unavailable(String),
    /// It stopped with an error and is started again.
    Failed(String),
}

/// The operators of a process and their states. Cloning shares them.
#[derive(Clone)]
pub struct Availability {
    states: Arc<Mutex<BTreeMap<&'static str, OperatorState>>>,
    metrics: Arc<Metrics>,
}

impl Availability {
    /// These operators, all of them starting.
    pub fn new(operators: impl IntoIterator<Item = &'static str>, metrics: Arc<Metrics>) -> Availability {
        let availability = Availability { states: Arc::default(), metrics };
        operators.into_iter().for_each(|name| availability.set(name, OperatorState::Starting));
        availability
    }

    pub fn set(&self, operator: &'static str, state: OperatorState) {
        let is_available = state == OperatorState::Ready;
        self.metrics.operator_available.get_or_create(&OperatorLabel { operator }).set(is_available.into());
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(operator, state);
    }

    /// Whether an operator is ready, and every other one is ready or not installed.
    ///
    /// A release that needs another definition or version than the cluster has must not become ready: it would replace the
    /// process of the release before, which still runs.
    pub fn is_ready(&self) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_any_ready = states.values().any(|state| *state == OperatorState::Ready);
        is_any_ready
            && states.values().all(|state| matches!(state, OperatorState::Ready | OperatorState::NotInstalled(_)))
    }

    /// One line for each operator, in the format of the API server's `/readyz?verbose`.
    pub fn report(&self) -> String {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = String::new();
        for (operator, state) in &*states {
            // Writing to a String cannot fail.
            let _ = match state {
                OperatorState::Ready => writeln!(report, "[+]{operator} ok"),
                OperatorState::Starting => writeln!(report, "[-]{operator} starting: its caches are not filled yet"),
                OperatorState::NotInstalled(why) => writeln!(report, "[!]{operator} off: {why}"),
                OperatorState::Unavailable(why) => writeln!(report, "[-]{operator} off: {why}"),
                OperatorState::Failed(why) => writeln!(report, "[-]{operator} failed: {why}"),
            };
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_installed() -> OperatorState {
        OperatorState::NotInstalled("CustomResourceDefinition a not found".to_owned())
    }

    #[test]
    fn operator_that_is_not_installed_is_shown_and_does_not_make_the_process_unready() {
        let availability = Availability::new(["kmm", "machineconfig"], Arc::default());
        assert!(!availability.is_ready());
        availability.set("machineconfig", OperatorState::Ready);
        availability.set("kmm", not_installed());
        assert!(availability.is_ready());
        assert_eq!(availability.report(), "[!]kmm off: CustomResourceDefinition a not found\n[+]machineconfig ok\n");
        availability.set("kmm", OperatorState::Failed("timeout".to_owned()));
        assert!(!availability.is_ready());
    }

    #[test]
    fn process_without_a_running_operator_or_with_one_that_cannot_run_is_unready() {
        let availability = Availability::new(["kmm", "machineconfig"], Arc::default());
        ["kmm", "machineconfig"].into_iter().for_each(|operator| availability.set(operator, not_installed()));
        assert!(!availability.is_ready(), "nothing runs");
        availability.set("machineconfig", OperatorState::Ready);
        let why = "CustomResourceDefinition a does not serve version v2".to_owned();
        availability.set("kmm", OperatorState::Unavailable(why));
        assert!(!availability.is_ready());
        let line = "[-]kmm off: CustomResourceDefinition a does not serve version v2\n";
        assert!(availability.report().starts_with(line), "{}", availability.report());
    }

    #[test]
    fn only_an_operator_that_runs_is_available() {
        let metrics = Arc::<Metrics>::default();
        let availability = Availability::new(["kmm"], Arc::clone(&metrics));
        let is = |value: u8| {
            let page = metrics.encode().unwrap();
            assert!(page.contains(&format!("seaworthy_operator_available{{operator=\"kmm\"}} {value}\n")), "{page}");
        };
        is(0);
        availability.set("kmm", OperatorState::Ready);
        is(1);
        for state in [OperatorState::Starting, not_installed(), OperatorState::Failed("timeout".to_owned())] {
            availability.set("kmm", OperatorState::Ready);
            availability.set("kmm", state);
            is(0);
        }
    }
}
