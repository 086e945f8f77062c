//! Equality and order of values, across number types.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::collection::{Key, List, Map};
use crate::decl::ListType;
use crate::error::EvalError;
use crate::value::{Opaque, Val};

/// Whether two values are equal. Some library values refuse to be compared with another type.
pub(crate) fn equal(one: &Val<'_>, two: &Val<'_>) -> Result<bool, EvalError> {
    use Val::{Bool, Bytes, Double, Duration, Int, Null, Optional, String, Timestamp, Type, Uint};
    Ok(match (one, two) {
        (Null, Null) => true,
        (Null, _) | (_, Null) => false,
        (Bool(a), Bool(b)) => a == b,
        (Int(_) | Uint(_) | Double(_), Int(_) | Uint(_) | Double(_)) => number_order(one, two) == Some(Ordering::Equal),
        (String(a), String(b)) => **a == **b,
        (Bytes(a), Bytes(b)) => a == b,
        (Timestamp(a), Timestamp(b)) => a == b,
        (Duration(a), Duration(b)) => a == b,
        (Type(a), Type(b)) => a == b,
        (Optional(a), Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b)?,
            (None, None) => true,
            _ => false,
        },
        (Val::List(a), Val::List(b)) => equal_lists(a, b)?,
        (Val::Map(a), Val::Map(b)) => equal_maps(a, b)?,
        (Val::Opaque(a), Val::Opaque(b)) => equal_opaque(a, b)?,
        (Val::Opaque(_) | Val::List(List::Json(..)) | Val::Map(Map::Json(..) | Map::Object(..)), _) => {
            return Err(EvalError::no_such_overload());
        }
        _ => false,
    })
}

fn equal_opaque(one: &Opaque<'_>, two: &Opaque<'_>) -> Result<bool, EvalError> {
    Ok(match (one, two) {
        (Opaque::Quantity(a), Opaque::Quantity(b)) => a.compare(b) == Ordering::Equal,
        (Opaque::Url(a), Opaque::Url(b)) => a.to_string() == b.to_string(),
        (Opaque::Ip(a), Opaque::Ip(b)) => a == b,
        (Opaque::Cidr(a), Opaque::Cidr(b)) => a == b,
        (Opaque::Semver(a), Opaque::Semver(b)) => a.compare(b) == Ordering::Equal,
        (Opaque::Format(a), Opaque::Format(b)) => a.name == b.name,
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn equal_lists(one: &List<'_>, two: &List<'_>) -> Result<bool, EvalError> {
    if one.len() != two.len() {
        return Ok(false);
    }
    match one.uniqueness() {
        ListType::Atomic => {
            for (a, b) in one.iter().zip(two.iter()) {
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Set => {
            let one = one.iter().map(|item| scalar_key(&item?)).collect::<Result<BTreeSet<_>, _>>()?;
            let two = two.iter().map(|item| scalar_key(&item?)).collect::<Result<BTreeSet<_>, _>>()?;
            Ok(one == two)
        }
        ListType::Keys(keys) => {
            let mut items = BTreeMap::new();
            for item in one.iter() {
                let item = item?;
                items.insert(item_key(keys, &item)?, item);
            }
            let mut seen = BTreeSet::new();
            for item in two.iter() {
                let item = item?;
                let key = item_key(keys, &item)?;
                match items.get(&key) {
                    Some(other) if equal(other, &item)? => seen.insert(key),
                    _ => return Ok(false),
                };
            }
            Ok(seen.len() == items.len())
        }
    }
}

/// The identity of an item of a set; only scalars have one.
pub(crate) fn scalar_key(item: &Val<'_>) -> Result<Key, EvalError> {
    match item {
        Val::List(_) | Val::Map(_) => {
            Err(EvalError::new("listSet operations are only supported on lists of scalar values"))
        }
        // Other scalars of one list have one type, so their text identifies them.
        item => Ok(Key::of(item).unwrap_or_else(|| Key::String(item.to_string().into()))),
    }
}

/// The identity of an item of a keyed list: its key fields, absent ones included.
pub(crate) fn item_key(keys: &[String], item: &Val<'_>) -> Result<Vec<Option<Key>>, EvalError> {
    let Val::Map(map) = item else { return Err(EvalError::no_such_overload()) };
    let part = |key: &String| match map.named(key) {
        Some(Ok(value)) => Key::of(&value),
        _ => None,
    };
    Ok(keys.iter().map(part).collect())
}

/// Whether the items hold one equal to `value`.
pub(crate) fn contains(items: &[Val<'_>], value: &Val<'_>) -> Result<bool, EvalError> {
    let mut problem = None;
    for item in items {
        match equal(item, value) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem.map_or(Ok(false), Err)
}

fn equal_maps(one: &Map<'_>, two: &Map<'_>) -> Result<bool, EvalError> {
    if one.len() != two.len() {
        return Ok(false);
    }
    if let (Map::Object(a, object), Map::Object(b, _)) = (one, two) {
        for (name, value) in a.iter() {
            if object.by_name(name).is_some() {
                match (one.named(name).transpose()?, two.named(name).transpose()?) {
                    (Some(a), Some(b)) if !equal(&a, &b)? => return Ok(false),
                    (Some(_), Some(_)) | (None, None) => {}
                    _ => return Ok(false),
                }
            } else {
                match b.get(name) {
                    Some(other) if !equal_json(value, other) => return Ok(false),
                    None if object.knows(name) => return Ok(false),
                    _ => {}
                }
            }
        }
        return Ok(true);
    }
    for (key, value) in one.entries() {
        match two.get(&key)? {
            Some(other) if equal(&value?, &other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Equality of data no declaration describes: an empty list or map equals an absent one.
fn equal_json(one: &Json, two: &Json) -> bool {
    let is_empty = |json: &Json| match json {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        _ => false,
    };
    one == two || (is_empty(one) && is_empty(two))
}

fn number_order(one: &Val<'_>, two: &Val<'_>) -> Option<Ordering> {
    use Val::{Double, Int, Uint};
    match (one, two) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Double(a), other) => double_order(*a, other),
        (other, Double(b)) => double_order(*b, other).map(Ordering::reverse),
        _ => None,
    }
}

/// A double against a whole number: beyond the whole number's range its type's bounds decide.
fn double_order(double: f64, whole: &Val<'_>) -> Option<Ordering> {
    let (low, high, whole) = match whole {
        Val::Int(value) => (i64::MIN as f64, i64::MAX as f64, *value as f64),
        Val::Uint(value) => (0.0, u64::MAX as f64, *value as f64),
        _ => return None,
    };
    if double.is_nan() {
        return None;
    }
    if double < low {
        return Some(Ordering::Less);
    }
    if double > high {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&whole)
}

/// The order of two values of types that have one.
pub(crate) fn order(one: &Val<'_>, two: &Val<'_>) -> Result<Ordering, EvalError> {
    use Val::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    Ok(match (one, two) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Int(_) | Uint(_) | Double(_), Int(_) | Uint(_) | Double(_)) => {
            number_order(one, two).ok_or_else(|| EvalError::new("NaN values cannot be ordered"))?
        }
        (String(a), String(b)) => (**a).cmp(&**b),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        (Duration(a), Duration(b)) => a.cmp(b),
        _ => return Err(EvalError::overload_mismatch()),
    })
}
