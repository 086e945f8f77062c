//! Selection: a [`LabelSelector`] that is known to be well-formed, ready to be asked about many objects.

use std::collections::BTreeSet;

use seaworthy_values::label_selector::{MatchOperator, Requirement};

use super::{LabelSelector, Pairs};

/// A well-formed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Sets of values, because a selector is matched against every node.
    requirements: Vec<Requirement<BTreeSet<String>>>,
}

/// What is wrong with a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The operator does not exist.
    #[error("label selector, key {key:?}: operator {found:?}; expected one of In, NotIn, Exists, DoesNotExist")]
    Operator { key: String, found: String },
    /// The operator compares values and there are none.
    #[error("label selector, key {key:?}: {operator} needs at least one value; add one, or use Exists")]
    NoValues { key: String, operator: String },
    /// The operator takes no values and there are some.
    #[error("label selector, key {key:?}: {operator} takes no values; remove them, or use In")]
    Values { key: String, operator: String },
    /// A requirement without a key.
    #[error("label selector: a requirement has no key; name the label that is meant")]
    NoKey,
}

impl Selection {
    /// Checks a selector.
    pub fn of(selector: &LabelSelector) -> Result<Self, SelectionError> {
        let labels = selector.match_labels.iter().flatten();
        let equal = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: MatchOperator::In([value.clone()].into()),
        };
        let mut requirements: Vec<Requirement<BTreeSet<String>>> = labels.map(equal).collect();
        for expression in selector.match_expressions.iter().flatten() {
            let key = expression.key.clone();
            if key.is_empty() {
                return Err(SelectionError::NoKey);
            }
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let operator = expression.operator.clone();
            match (operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => return Err(SelectionError::NoValues { key, operator }),
                ("Exists" | "DoesNotExist", false) => return Err(SelectionError::Values { key, operator }),
                _ => {}
            }
            match MatchOperator::named(&operator, values) {
                Some(operator) => requirements.push(Requirement { key, operator }),
                None => return Err(SelectionError::Operator { key, found: operator }),
            }
        }
        Ok(Self { requirements })
    }

    /// Whether it names no label at all. Kubernetes takes such a selector for "everything"; pools take it for a mistake.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is meant.
    pub fn matches<'l>(&self, labels: impl Into<Pairs<'l>>) -> bool {
        let labels = labels.into();
        self.requirements.iter().all(|requirement| requirement.is_met_by(labels.get(&requirement.key)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn selection(json: serde_json::Value) -> Result<Selection, SelectionError> {
        Selection::of(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn every_requirement_must_hold() {
        let selection = selection(json!({
            "matchLabels": {"a": "1"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["1", "2"]},
                {"key": "c", "operator": "NotIn", "values": ["x"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist"},
            ],
        }))
        .unwrap();
        let labels = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        assert!(selection.matches(Some(&labels("a=1 b=2 d="))));
        for lacking in ["a=2 b=2 d=", "b=2 d=", "a=1 b=3 d=", "a=1 b=2 c=x d=", "a=1 b=2", "a=1 b=2 d= e="] {
            assert!(!selection.matches(Some(&labels(lacking))), "{lacking}");
        }
        assert!(!selection.matches(None));
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        let refused = |operator: &str, values: serde_json::Value| {
            selection(json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]})).unwrap_err()
        };
        assert_eq!(
            refused("Foo", json!([])).to_string(),
            r#"label selector, key "k": operator "Foo"; expected one of In, NotIn, Exists, DoesNotExist"#
        );
        assert!(matches!(refused("In", json!([])), SelectionError::NoValues { .. }));
        assert!(matches!(refused("Exists", json!(["v"])), SelectionError::Values { .. }));
        let keyless = selection(json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}));
        assert_eq!(keyless, Err(SelectionError::NoKey));
    }

    #[test]
    fn a_selector_without_terms_is_empty() {
        assert!(selection(json!({})).unwrap().is_empty());
        assert!(selection(json!({"matchLabels": {}, "matchExpressions": []})).unwrap().is_empty());
    }
}
