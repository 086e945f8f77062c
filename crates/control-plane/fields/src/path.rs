//! Path elements: steps to a field: a name, a list element's key, a set's value, a position.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use seaworthy_schema::quoted;
use serde_json::{Number, Value};

/// One step from a value to something inside it.
///
/// The order is the one in which field sets are written: names, then keys, then values, then positions.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A key of an object.
    Field(Box<str>),
    /// The element of a list whose fields have these values, sorted by field name.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set that is this scalar.
    Value(Box<Value>),
    /// A position in a list.
    Index(i64),
}

impl PathElement {
    /// The step to a key of an object.
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(name.into())
    }

    /// The step to the list element with these key values, given in any order.
    pub fn key<'n>(fields: impl IntoIterator<Item = (&'n str, Value)>) -> PathElement {
        let mut fields: Vec<(Box<str>, Value)> = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(fields.into())
    }

    /// The step to a set's element.
    pub fn value(value: Value) -> PathElement {
        PathElement::Value(Box::new(value))
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => compare_keys(
                left.iter().map(|(name, value)| (&**name, value)),
                right.iter().map(|(name, value)| (&**name, value)),
            ),
            (PathElement::Value(left), PathElement::Value(right)) => compare_values(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// As in error messages: `.name`, `[key="value"]`, `[="value"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_char('[')?;
                for (position, (name, value)) in fields.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", DisplayValue(value))?;
                }
                f.write_char(']')
            }
            PathElement::Value(value) => write!(f, "[={}]", DisplayValue(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A whole path, for display.
pub(crate) fn display_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// Orders two keys field by field; a shorter one comes first.
pub(crate) fn compare_keys<'l, 'r>(
    left: impl IntoIterator<Item = (&'l str, &'l Value)>,
    right: impl IntoIterator<Item = (&'r str, &'r Value)>,
) -> Ordering {
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => {
                let order = left.0.cmp(right.0).then_with(|| compare_values(left.1, right.1));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// Orders any two values: numbers, strings, booleans, lists, objects, null. Numbers compare by value, so that 1 and
/// 1.0 are the same element.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let unequal = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            unequal.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_keys(
            left.iter().map(|(name, value)| (name.as_str(), value)),
            right.iter().map(|(name, value)| (name.as_str(), value)),
        ),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    let float = |number: &Number| number.as_f64().unwrap_or(f64::MAX);
    // Numbers of JSON are never NaN.
    float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal)
}

/// Whether two values are the same: as `==`, but numbers compare by value.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    // Nearly always they are equal, and `==` is faster to find that out.
    left == right || same_by_value(left, right)
}

fn same_by_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_by_value(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same_by_value(left, right)))
        }
        _ => left == right,
    }
}

/// A value as error messages show it: text in quotes, the rest bare.
pub(crate) struct DisplayValue<'v>(pub(crate) &'v Value);

impl fmt::Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(&quoted(text)),
            Value::Number(number) => f.write_str(&shown_number(number)),
            Value::Array(items) => {
                f.write_char('[')?;
                for (position, item) in items.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{}", DisplayValue(item))?;
                }
                f.write_char(']')
            }
            Value::Object(fields) => {
                fields.iter().try_for_each(|(name, value)| write!(f, "{name}={}", DisplayValue(value)))
            }
            Value::Null | Value::Bool(_) => write!(f, "{}", self.0),
        }
    }
}

/// A number as the real server's messages show it: fractions have an exponent from a million on.
pub(crate) fn shown_number(number: &Number) -> String {
    float_text(number, |float, exponent| float != 0.0 && !(-4..6).contains(&exponent))
}

/// A number as the real server stores it: no fraction where there is none, an exponent for the very large and small.
pub(crate) fn number_text(number: &Number) -> String {
    float_text(number, |float, _| float != 0.0 && !(1e-6..1e21).contains(&float.abs()))
}

fn float_text(number: &Number, is_scientific: impl FnOnce(f64, i32) -> bool) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    let text = format!("{float:e}");
    match text.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if is_scientific(float, exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{float}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_shown_as_in_conflict_messages() {
        let shown = |element: PathElement| element.to_string();
        assert_eq!(shown(PathElement::field("data")), ".data");
        assert_eq!(
            shown(PathElement::key([("protocol", json!("TCP")), ("port", json!(80))])),
            r#"[port=80,protocol="TCP"]"#
        );
        assert_eq!(shown(PathElement::value(json!("a\"b\n"))), r#"[="a\"b\n"]"#);
        assert_eq!(shown(PathElement::Index(3)), "[3]");
    }

    #[test]
    fn one_and_one_point_zero_are_the_same_element() {
        assert_eq!(PathElement::value(json!(1)), PathElement::value(json!(1.0)));
        assert!(same(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(!same(&json!({"a": null}), &json!({"b": null})));
    }

    #[test]
    fn names_come_before_keys_before_values_before_positions() {
        let mut elements = [
            PathElement::Index(0),
            PathElement::value(json!("a")),
            PathElement::key([("a", json!(1))]),
            PathElement::field("z"),
        ];
        elements.sort();
        let shown: Vec<_> = elements.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".z", "[a=1]", "[=\"a\"]", "[0]"]);
    }

    #[test]
    fn numbers_have_no_needless_fraction() {
        let shown = |value: Value| DisplayValue(&value).to_string();
        assert_eq!(shown(json!(1.0)), "1");
        assert_eq!(shown(json!(1.5)), "1.5");
        assert_eq!(shown(json!(1e21)), "1e+21");
        assert_eq!(shown(json!(1e-7)), "1e-07");
        assert_eq!(shown(json!(123456.5)), "123456.5");
        assert_eq!(shown(json!(1234567.5)), "1.2345675e+06");
    }
}
