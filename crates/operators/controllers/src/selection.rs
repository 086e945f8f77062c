//! Selection: the operators, and the parts of them, that `--only` names.

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_runtime::{Operator, Parts};

/// The operators that run, by name, and which of their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Option<BTreeMap<&'static str, Parts>>);

impl Selection {
    /// Every operator with all its parts.
    pub fn all() -> Selection {
        Selection(None)
    }

    /// The operators and parts with these names; all for no name.
    ///
    /// # Errors
    ///
    /// If nothing has such a name.
    pub fn parse(names: &[String], operators: &[Box<dyn Operator>]) -> Result<Selection, String> {
        if names.is_empty() {
            return Ok(Selection::all());
        }
        let mut selected: BTreeMap<&'static str, Parts> = BTreeMap::new();
        for name in names {
            if let Some(operator) = operators.iter().find(|operator| operator.name() == name) {
                selected.insert(operator.name(), Parts::All);
                continue;
            }
            let found = operators.iter().find_map(|operator| {
                let part = operator.parts().iter().find(|part| *part == name)?;
                Some((operator.name(), *part))
            });
            let (operator, part) = found.ok_or_else(|| unknown(name, operators))?;
            let parts = selected.entry(operator).or_insert_with(|| Parts::Named(BTreeSet::new()));
            if let Parts::Named(named) = parts {
                named.insert(part);
            }
        }
        Ok(Selection(Some(selected)))
    }

    /// The parts of an operator that run, if any does.
    pub fn parts(&self, operator: &str) -> Option<Parts> {
        match &self.0 {
            None => Some(Parts::All),
            Some(selected) => selected.get(operator).cloned(),
        }
    }
}

/// The names that [`Selection::parse`] takes: operators, then their parts.
pub fn accepted(operators: &[Box<dyn Operator>]) -> Vec<&'static str> {
    let names = operators.iter().map(|operator| operator.name());
    names.chain(operators.iter().flat_map(|operator| operator.parts().iter().copied())).collect()
}

fn unknown(name: &str, operators: &[Box<dyn Operator>]) -> String {
    format!("--only {name}: no operator or controller has that name; accepted are {}", accepted(operators).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{Options, all};

    fn parse(names: &[&str]) -> Result<Selection, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::parse(&names, &all(Options::default()))
    }

    #[test]
    fn operator_is_selected_as_a_whole_and_by_its_parts() {
        assert_eq!(parse(&[]).unwrap().parts("machineconfig"), Some(Parts::All));
        assert_eq!(parse(&["machineconfig"]).unwrap().parts("machineconfig"), Some(Parts::All));
        let parts = parse(&["render", "rollout"]).unwrap().parts("machineconfig").unwrap();
        assert!(parts.contains("render") && parts.contains("rollout") && !parts.contains("base"));
        assert_eq!(parse(&["render", "machineconfig"]).unwrap().parts("machineconfig"), Some(Parts::All));
        assert_eq!(parse(&["machineconfig"]).unwrap().parts("kmm"), None);
    }

    #[test]
    fn unknown_name_is_refused_with_the_accepted_ones() {
        let error = parse(&["rollouts"]).unwrap_err();
        assert!(error.contains("rollouts") && error.contains("machineconfig, base, kubelet"), "{error}");
    }
}
