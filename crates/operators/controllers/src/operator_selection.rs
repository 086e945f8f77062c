//! Operator selection: the operators, and the controllers of them, that `--only` names.

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_runtime::{EnabledControllers, Operator};

/// The operators that run, by name, and which of their controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorSelection(Option<BTreeMap<&'static str, EnabledControllers>>);

impl OperatorSelection {
    /// Every operator with all its controllers.
    pub fn all() -> OperatorSelection {
        OperatorSelection(None)
    }

    /// The operators and controllers with these names; all for no name.
    ///
    /// # Errors
    ///
    /// If nothing has such a name.
    pub fn parse(names: &[String], operators: &[Box<dyn Operator>]) -> Result<OperatorSelection, String> {
        if names.is_empty() {
            return Ok(OperatorSelection::all());
        }
        let mut selected: BTreeMap<&'static str, EnabledControllers> = BTreeMap::new();
        for name in names {
            if let Some(operator) = operators.iter().find(|operator| operator.name() == name) {
                selected.insert(operator.name(), EnabledControllers::All);
                continue;
            }
            let found = operators.iter().find_map(|operator| {
                let controller = operator.controller_names().iter().find(|controller| *controller == name)?;
                Some((operator.name(), *controller))
            });
            let (operator, controller) = found.ok_or_else(|| unknown(name, operators))?;
            let enabled = selected.entry(operator).or_insert_with(|| EnabledControllers::Named(BTreeSet::new()));
            if let EnabledControllers::Named(named) = enabled {
                named.insert(controller);
            }
        }
        Ok(OperatorSelection(Some(selected)))
    }

    /// The controllers of an operator that run; `None` if the operator does not.
    pub fn enabled_controllers(&self, operator: &str) -> Option<EnabledControllers> {
        match &self.0 {
            None => Some(EnabledControllers::All),
            Some(selected) => selected.get(operator).cloned(),
        }
    }
}

/// The names that [`OperatorSelection::parse`] takes: operators, then their controllers.
pub fn accepted(operators: &[Box<dyn Operator>]) -> Vec<&'static str> {
    let names = operators.iter().map(|operator| operator.name());
    names.chain(operators.iter().flat_map(|operator| operator.controller_names().iter().copied())).collect()
}

fn unknown(name: &str, operators: &[Box<dyn Operator>]) -> String {
    format!(
        "--only {name}: no operator or controller has that name; expected one of {}",
        accepted(operators).join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{OperatorOptions, all};

    fn parse(names: &[&str]) -> Result<OperatorSelection, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        OperatorSelection::parse(&names, &all(OperatorOptions::default()))
    }

    #[test]
    fn operator_is_selected_as_a_whole_and_by_its_controllers() {
        assert_eq!(parse(&[]).unwrap().enabled_controllers("machineconfig"), Some(EnabledControllers::All));
        assert_eq!(
            parse(&["machineconfig"]).unwrap().enabled_controllers("machineconfig"),
            Some(EnabledControllers::All)
        );
        let enabled = parse(&["render", "rollout"]).unwrap().enabled_controllers("machineconfig").unwrap();
        assert!(enabled.contains("render") && enabled.contains("rollout") && !enabled.contains("base"));
        assert_eq!(
            parse(&["render", "machineconfig"]).unwrap().enabled_controllers("machineconfig"),
            Some(EnabledControllers::All)
        );
        assert_eq!(parse(&["machineconfig"]).unwrap().enabled_controllers("kmm"), None);
    }

    #[test]
    fn unknown_name_is_refused_with_the_accepted_ones() {
        let error = parse(&["rollouts"]).unwrap_err();
        assert!(
            error.contains("rollouts") && error.contains("machineconfig, ") && error.contains("base, kubelet"),
            "{error}"
        );
    }
}
