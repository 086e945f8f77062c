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
    /// It is off: its definitions are not served.
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
        let states = operators.into_iter().map(|name| (name, OperatorState::Starting)).collect();
        Availability { states: Arc::new(Mutex::new(states)), metrics }
    }

    pub fn set(&self, operator: &'static str, state: OperatorState) {
        let is_available = !matches!(state, OperatorState::Unavailable(_));
        self.metrics.operator_available.get_or_create(&OperatorLabel { operator }).set(is_available.into());
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(operator, state);
    }

    /// Whether every operator is ready or off. One that is off does not make the process unready.
    pub fn is_ready(&self) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.values().all(|state| matches!(state, OperatorState::Ready | OperatorState::Unavailable(_)))
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
                OperatorState::Unavailable(why) => writeln!(report, "[!]{operator} off: {why}"),
                OperatorState::Failed(why) => writeln!(report, "[-]{operator} failed: {why}"),
            };
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_that_is_off_is_shown_and_does_not_make_the_process_unready() {
        let metrics = Arc::<Metrics>::default();
        let availability = Availability::new(["kmm", "machineconfig"], Arc::clone(&metrics));
        assert!(!availability.is_ready());
        availability.set("machineconfig", OperatorState::Ready);
        availability.set("kmm", OperatorState::Unavailable("CustomResourceDefinition a not found".to_owned()));
        assert!(availability.is_ready());
        assert_eq!(availability.report(), "[!]kmm off: CustomResourceDefinition a not found\n[+]machineconfig ok\n");
        let page = metrics.encode().unwrap();
        assert!(page.contains("seaworthy_operator_available{operator=\"kmm\"} 0\n"), "{page}");
        assert!(page.contains("seaworthy_operator_available{operator=\"machineconfig\"} 1\n"), "{page}");
        availability.set("kmm", OperatorState::Failed("timeout".to_owned()));
        assert!(!availability.is_ready());
    }
}
