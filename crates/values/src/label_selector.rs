//! Label selectors: one requirement on one label, and whether a value meets it.
//!
//! The forms that a selector is written in, and what counts as a mistake there, are the readers': pools report findings, the API
//! server gives the messages of kube-apiserver.

use std::collections::BTreeSet;
use std::fmt;

/// The operators that objects have in `matchExpressions`.
pub const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// One requirement on one label. `V` holds the values: in the order of the author where they are shown, in a set where a selector
/// of many values is matched against many objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<V = Vec<String>> {
    pub key: String,
    pub operator: MatchOperator<V>,
}

/// How a label and the values of a requirement relate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchOperator<V = Vec<String>> {
    In(V),
    /// A label that is missing has none of the values either.
    NotIn(V),
    Exists,
    DoesNotExist,
    /// Only in the text form.
    GreaterThan(i64),
    /// Only in the text form.
    LessThan(i64),
}

/// The values of a requirement.
pub trait Values {
    fn has(&self, value: &str) -> bool;
}

impl Values for Vec<String> {
    fn has(&self, value: &str) -> bool {
        self.iter().any(|own| own == value)
    }
}

impl Values for BTreeSet<String> {
    fn has(&self, value: &str) -> bool {
        self.contains(value)
    }
}

impl<V> MatchOperator<V> {
    /// The operator of a name that objects use, with its values; `None` if there is no such operator.
    pub fn named(name: &str, values: V) -> Option<Self> {
        Some(match name {
            "In" => MatchOperator::In(values),
            "NotIn" => MatchOperator::NotIn(values),
            "Exists" => MatchOperator::Exists,
            "DoesNotExist" => MatchOperator::DoesNotExist,
            _ => return None,
        })
    }
}

impl<V: Values> Requirement<V> {
    /// Whether a label's value meets it; `None` is a label that is missing.
    pub fn is_met_by(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            MatchOperator::In(values) => value.is_some_and(|value| values.has(value)),
            MatchOperator::NotIn(values) => value.is_none_or(|value| !values.has(value)),
            MatchOperator::Exists => value.is_some(),
            MatchOperator::DoesNotExist => value.is_none(),
            MatchOperator::GreaterThan(than) => number().is_some_and(|number| number > *than),
            MatchOperator::LessThan(than) => number().is_some_and(|number| number < *than),
        }
    }
}

/// The text form: `env=prod`, `tier in (front,back)`, `!canary`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            MatchOperator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            MatchOperator::In(values) => write!(f, "{key} in ({})", values.join(",")),
            MatchOperator::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            MatchOperator::Exists => f.write_str(key),
            MatchOperator::DoesNotExist => write!(f, "!{key}"),
            MatchOperator::GreaterThan(than) => write!(f, "{key}>{than}"),
            MatchOperator::LessThan(than) => write!(f, "{key}<{than}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(MatchOperator::In(vec!["7".to_owned()]), "k=7", [true, false, false])]
    #[case(MatchOperator::In(vec!["7".to_owned(), "x".to_owned()]), "k in (7,x)", [true, true, false])]
    #[case(MatchOperator::NotIn(vec!["7".to_owned()]), "k notin (7)", [false, true, true])]
    #[case(MatchOperator::Exists, "k", [true, true, false])]
    #[case(MatchOperator::DoesNotExist, "!k", [false, false, true])]
    #[case(MatchOperator::GreaterThan(6), "k>6", [true, false, false])]
    #[case(MatchOperator::LessThan(7), "k<7", [false, false, false])]
    fn requirement_is_met_or_not(#[case] operator: MatchOperator, #[case] text: &str, #[case] met: [bool; 3]) {
        let requirement = Requirement { key: "k".to_owned(), operator };
        assert_eq!([Some("7"), Some("x"), None].map(|value| requirement.is_met_by(value)), met);
        assert_eq!(requirement.to_string(), text);
    }

    #[test]
    fn set_of_values_means_the_same_as_a_list() {
        let values = BTreeSet::from(["a".to_owned()]);
        let requirement =
            |name| Requirement { key: "k".to_owned(), operator: MatchOperator::named(name, values.clone()).unwrap() };
        assert!(requirement("In").is_met_by(Some("a")) && !requirement("In").is_met_by(Some("b")));
        assert!(requirement("NotIn").is_met_by(None) && !requirement("NotIn").is_met_by(Some("a")));
        assert!(
            OPERATORS.iter().all(|name| MatchOperator::named(name, ()).is_some())
                && MatchOperator::named("Gt", ()).is_none()
        );
    }
}
