//! Lists and maps: built during evaluation, or data read through its declaration.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::decl::{Decl, DeclKind, ListType, ObjectDecl};
use crate::error::EvalError;
use crate::value::{JsonMap, Outcome, Str, Val};

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Made while evaluating.
    Values(Arc<Vec<Val<'a>>>),
    /// The merger of lists whose items are unique: that stays a property of the result.
    Merged(Arc<Vec<Val<'a>>>, &'a ListType),
    /// Data with a declaration.
    Json(&'a [Json], &'a Decl),
    /// Data without one.
    Dyn(&'a [Json]),
}

/// A map or an object.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Made while evaluating.
    Values(Arc<Entries<'a>>),
    /// Data with declared values.
    Json(&'a JsonMap, &'a Decl),
    /// Data with declared fields.
    Object(&'a JsonMap, &'a ObjectDecl),
    /// Data without a declaration.
    Dyn(&'a JsonMap),
}

/// The entries of a map made while evaluating, with their keys as written.
pub type Entries<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

/// What makes two keys the same: numbers are, whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    /// A whole number.
    Number(i128),
    /// Text.
    String(Box<str>),
    /// Any other double, by its bits.
    Double(u64),
}

impl Key {
    /// The key of a value, if the value can be one.
    pub(crate) fn of(value: &Val<'_>) -> Option<Key> {
        Some(match value {
            Val::Bool(value) => Key::Bool(*value),
            Val::Int(value) => Key::Number(i128::from(*value)),
            Val::Uint(value) => Key::Number(i128::from(*value)),
            // Within this range the conversion is exact.
            Val::Double(value) if value.fract() == 0.0 && value.abs() < 1e19 => Key::Number(*value as i128),
            Val::Double(value) => Key::Double(value.to_bits()),
            Val::String(text) => Key::String((&**text).into()),
            _ => return None,
        })
    }
}

// === impl List ===

impl<'a> List<'a> {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            List::Values(items) | List::Merged(items, _) => items.len(),
            List::Json(items, _) | List::Dyn(items) => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An item; asking beyond the end is an error of the language.
    pub fn get(&self, index: usize) -> Outcome<'a> {
        let item = match self {
            List::Values(items) | List::Merged(items, _) => items.get(index).cloned().map(Ok),
            List::Dyn(items) => items.get(index).map(|item| Ok(Val::dynamic(item))),
            List::Json(items, decl) => items.get(index).map(|item| match decl.kind() {
                DeclKind::List { items, .. } => Val::bind(item, items),
                _ => Ok(Val::dynamic(item)),
            }),
        };
        item.unwrap_or_else(|| Err(EvalError::new(format!("index out of bounds: {index}"))))
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// All items, if all are readable.
    pub(crate) fn values(&self) -> Result<Vec<Val<'a>>, EvalError> {
        self.iter().collect()
    }

    pub(crate) fn uniqueness(&self) -> &'a ListType {
        match self {
            List::Json(_, decl) => match decl.kind() {
                DeclKind::List { uniqueness, .. } => uniqueness,
                _ => &ListType::Atomic,
            },
            List::Merged(_, uniqueness) => uniqueness,
            List::Values(_) | List::Dyn(_) => &ListType::Atomic,
        }
    }
}

// === impl Map ===

impl<'a> Map<'a> {
    /// The number of entries in the data.
    pub fn len(&self) -> usize {
        match self {
            Map::Values(entries) => entries.len(),
            Map::Json(entries, _) | Map::Object(entries, _) | Map::Dyn(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value under a name as expressions write it.
    pub fn field(&self, ident: &str) -> Option<Outcome<'a>> {
        match self {
            Map::Values(entries) => entries.get(&Key::String(ident.into())).map(|(_, value)| Ok(value.clone())),
            Map::Json(entries, decl) => entries.get(ident).map(|value| Val::bind(value, decl)),
            Map::Dyn(entries) => entries.get(ident).map(|value| Ok(Val::dynamic(value))),
            Map::Object(..) => crate::escape::unescape(ident).and_then(|name| self.named(&name)),
        }
    }

    /// The value under a name as the data writes it.
    pub(crate) fn named(&self, name: &str) -> Option<Outcome<'a>> {
        match self {
            Map::Object(entries, object) => {
                // Fields that are null count as absent.
                let value = entries.get(name).filter(|value| !value.is_null())?;
                object.by_name(name).map(|field| Val::bind(value, &field.decl))
            }
            other => other.field(name),
        }
    }

    /// The value under any key.
    pub fn get(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, EvalError> {
        match (self, key) {
            (_, Val::String(text)) => self.field(text).transpose(),
            (Map::Values(entries), key) => {
                Ok(Key::of(key).and_then(|key| entries.get(&key)).map(|(_, value)| value.clone()))
            }
            (Map::Dyn(_), _) => Ok(None),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Values(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
            Map::Json(entries, _) | Map::Dyn(entries) => {
                entries.keys().map(|key| Val::String(Str::Borrowed(key))).collect()
            }
            Map::Object(entries, object) => entries
                .keys()
                .filter_map(|key| object.by_name(key))
                .map(|field| Val::String(Str::Borrowed(&field.ident)))
                .collect(),
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> Vec<(Val<'a>, Outcome<'a>)> {
        self.keys()
            .into_iter()
            .filter_map(|key| match self.get(&key) {
                Ok(Some(value)) => Some((key, Ok(value))),
                Ok(None) => None,
                Err(error) => Some((key, Err(error))),
            })
            .collect()
    }
}
