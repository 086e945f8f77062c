//! Label selectors of pools.

use seaworthy_ignition::node::Node;
use seaworthy_ignition::{Path, spelling};
use seaworthy_values::label_selector::{MatchOperator, OPERATORS, Requirement};

use crate::inspection::{Inspection, KnownKeys};
use crate::machine_config::MachineConfig;

/// A label selector that is known to be well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Reads a selector; everything that is wrong with it is noted in the inspection.
    pub(crate) fn inspect(node: &Node<'_>, path: &Path, inspection: &mut Inspection) -> Self {
        let mut requirements = Vec::new();
        if node.as_map().is_none() {
            inspection.wrong(path.clone(), node, "an object with matchLabels or matchExpressions");
            return Selector { requirements };
        }
        let known = KnownKeys { noun: "label selector", keys: &["matchExpressions", "matchLabels"], below: &[] };
        inspection.unknown_keys(node, path, &known);
        if let Some(labels) = node.get("matchLabels").filter(|labels| !labels.is_null()) {
            let path = path.clone().key("matchLabels");
            match labels.as_map() {
                None => inspection.wrong(path, labels, "an object of strings"),
                Some(labels) => {
                    for (key, value) in labels.iter() {
                        match value.as_str() {
                            None => inspection.no_string(path.clone().key(key), value),
                            Some(value) => requirements.push(Requirement {
                                key: key.to_owned(),
                                operator: MatchOperator::In(vec![value.to_owned()]),
                            }),
                        }
                    }
                }
            }
        }
        if let Some(expressions) = node.get("matchExpressions").filter(|expressions| !expressions.is_null()) {
            let path = path.clone().key("matchExpressions");
            match expressions.as_list() {
                None => inspection.wrong(path, expressions, "a list of objects with key, operator and values"),
                Some(list) => {
                    let read = |(index, node)| inspect_requirement(node, &path.clone().index(index), inspection);
                    requirements.extend(list.iter().enumerate().filter_map(read));
                }
            }
        }
        Selector { requirements }
    }

    /// A selector that wants one of these values for a label.
    pub(crate) fn of_values(key: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Selector { requirements: vec![Requirement { key: key.to_owned(), operator: MatchOperator::In(values) }] }
    }

    /// The values that it accepts for a label.
    pub fn values_of<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        let values = move |requirement: &'s Requirement| match &requirement.operator {
            MatchOperator::In(values) if requirement.key == key => values.as_slice(),
            _ => &[],
        };
        self.requirements.iter().flat_map(values).map(String::as_str)
    }

    /// The labels that it asks for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| requirement.key.as_str())
    }

    /// Whether it names no label at all. Such a selector means "everything" in Kubernetes and nothing here.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a MachineConfig has the labels.
    pub fn matches(&self, machine_config: &MachineConfig<'_>) -> bool {
        self.requirements.iter().all(|requirement| requirement.is_met_by(machine_config.label(&requirement.key)))
    }
}

fn inspect_requirement(node: &Node<'_>, path: &Path, inspection: &mut Inspection) -> Option<Requirement> {
    if node.as_map().is_none() {
        inspection.wrong(path.clone(), node, "an object with key, operator and values");
        return None;
    }
    let known = KnownKeys { noun: "requirement of a label selector", keys: &["key", "operator", "values"], below: &[] };
    inspection.unknown_keys(node, path, &known);
    let mut is_sound = true;
    let mut wrong = |key: &str, message: String| {
        is_sound = false;
        inspection.error(path.clone().key(key), message);
    };
    let key = node.text_of("key");
    if key.is_empty() {
        wrong("key", "a label selector needs a key".to_owned());
    }
    let values: Vec<String> = node.list_of("values").iter().filter_map(Node::as_str).map(str::to_owned).collect();
    if let Some(values) = node.get("values").filter(|values| !values.is_null() && values.as_list().is_none()) {
        wrong("values", format!("found {}; expected a list of strings", values.describe()));
    } else if values.len() != node.list_of("values").len() {
        wrong("values", "expected strings; quote them".to_owned());
    } else {
        match node.text_of("operator") {
            "In" | "NotIn" if values.is_empty() => {
                wrong("values", "In and NotIn need at least one value".to_owned());
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                wrong("values", "Exists and DoesNotExist take no values".to_owned());
            }
            _ => {}
        }
    }
    let name = node.text_of("operator");
    let Some(operator) = MatchOperator::named(name, values) else {
        let near = spelling::nearest(name, OPERATORS);
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let accepted = OPERATORS.join(", ");
        wrong("operator", format!("invalid label selector operator {name:?}; expected one of {accepted}{near}"));
        return None;
    };
    is_sound.then(|| Requirement { key: key.to_owned(), operator })
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, requirement) in self.requirements.iter().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}
