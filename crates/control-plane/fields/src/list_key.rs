//! List keys: what identifies the elements of a list.

use std::cmp::Ordering;

use seaworthy_schema::{ListKind, quoted};
use serde_json::Value;

use crate::object_type::SchemaPosition;
use crate::path::{PathElement, compare_keys, compare_values};

/// The key of an element in its list, borrowed from the element and the schema.
#[derive(Debug, Clone)]
pub(crate) enum ListKey<'v> {
    /// By the values of keys, sorted by name.
    Fields(Vec<(&'v str, &'v Value)>),
    /// By itself.
    Scalar(&'v Value),
}

impl<'v> ListKey<'v> {
    /// The key of an element of the list at a place; the error says why it has none. Lists with one owner have no
    /// keys, so this is not asked of them.
    pub(crate) fn of(list: SchemaPosition<'v>, element: &'v Value) -> Result<ListKey<'v>, String> {
        match list.list() {
            ListKind::Map(names) if !names.is_empty() => Self::of_fields(list, names, element),
            _ => match element {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(ListKey::Scalar(scalar)),
            },
        }
    }

    fn of_fields(list: SchemaPosition<'v>, names: &'v [Box<str>], element: &'v Value) -> Result<ListKey<'v>, String> {
        let fields = match element {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let items = list.items();
        let mut key: Vec<(&str, &Value)> = Vec::with_capacity(names.len());
        for name in names {
            // A key that is neither written nor has a default is left out: with it, it would be another element.
            key.extend(fields.get(&**name).or_else(|| items.key_default(name)).map(|value| (&**name, value)));
        }
        if key.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        key.sort_by_key(|(name, _)| *name);
        Ok(ListKey::Fields(key))
    }

    /// The keys of all elements; elements without one are left out.
    pub(crate) fn of_all(list: SchemaPosition<'v>, elements: &'v [Value]) -> Vec<(ListKey<'v>, &'v Value)> {
        elements.iter().filter_map(|element| Some((ListKey::of(list, element).ok()?, element))).collect()
    }

    pub(crate) fn to_element(&self) -> PathElement {
        match self {
            ListKey::Fields(fields) => {
                PathElement::Key(fields.iter().map(|(name, value)| ((*name).into(), (*value).clone())).collect())
            }
            ListKey::Scalar(value) => PathElement::value((*value).clone()),
        }
    }
}

impl Ord for ListKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (ListKey::Fields(left), ListKey::Fields(right)) => {
                compare_keys(left.iter().copied(), right.iter().copied())
            }
            (ListKey::Scalar(left), ListKey::Scalar(right)) => compare_values(left, right),
            (ListKey::Fields(_), ListKey::Scalar(_)) => Ordering::Less,
            (ListKey::Scalar(_), ListKey::Fields(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for ListKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ListKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ListKey<'_> {}
