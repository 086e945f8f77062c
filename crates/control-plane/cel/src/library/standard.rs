//! Operators, conversions and the functions of the language itself.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seaworthy_values::duration;

use super::{Native, overload_mismatch, within};
use crate::collection::List;
use crate::compare::{equal, item_key, order, scalar_key};
use crate::decl::ListType;
use crate::error::EvalError;
use crate::number::{go_general, parse_double};
use crate::time::{CalendarField, Timestamp, format_duration, parse_offset};
use crate::value::{Opaque, Outcome, Str, Val};

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "!_" => |args| match args {
            [Val::Bool(value)] => Ok(Val::Bool(!value)),
            _ => overload_mismatch(),
        },
        "@not_strictly_false" => |args| Ok(args.first().cloned().unwrap_or(Val::Bool(true))),
        "-_" => negate,
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "_<_" => |args| compare(args, Ordering::is_lt),
        "_<=_" => |args| compare(args, Ordering::is_le),
        "_>_" => |args| compare(args, Ordering::is_gt),
        "_>=_" => |args| compare(args, Ordering::is_ge),
        "@in" => member_of,
        "size" => size,
        "type" => |args| match args {
            [Val::Type(_)] => Ok(Val::Type("type".into())),
            [value] => Ok(Val::Type(value.type_name().into())),
            _ => overload_mismatch(),
        },
        "dyn" => |args| args.first().cloned().ok_or_else(EvalError::no_such_overload),
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        "contains" => |args| text_test(args, |text, part| text.contains(part)),
        "startsWith" => |args| text_test(args, |text, part| text.starts_with(part)),
        "endsWith" => |args| text_test(args, |text, part| text.ends_with(part)),
        "getFullYear" => |args| calendar(args, CalendarField::Year),
        "getMonth" => |args| calendar(args, CalendarField::Month),
        "getDayOfYear" => |args| calendar(args, CalendarField::DayOfYear),
        "getDayOfMonth" => |args| calendar(args, CalendarField::DayOfMonth),
        "getDate" => |args| calendar(args, CalendarField::Date),
        "getDayOfWeek" => |args| calendar(args, CalendarField::DayOfWeek),
        "getHours" => |args| calendar(args, CalendarField::Hours),
        "getMinutes" => |args| calendar(args, CalendarField::Minutes),
        "getSeconds" => |args| calendar(args, CalendarField::Seconds),
        "getMilliseconds" => |args| calendar(args, CalendarField::Milliseconds),
        "optional.of" => |args| match args {
            [value] => Ok(Val::some(value.clone())),
            _ => overload_mismatch(),
        },
        "optional.ofNonZeroValue" => |args| match args {
            [value] if value.is_zero() => Ok(Val::Optional(None)),
            [value] => Ok(Val::some(value.clone())),
            _ => overload_mismatch(),
        },
        "optional.none" => |_| Ok(Val::Optional(None)),
        "value" => |args| match args {
            [Val::Optional(Some(value))] => Ok((**value).clone()),
            [Val::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
            _ => overload_mismatch(),
        },
        "hasValue" => |args| match args {
            [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
            _ => overload_mismatch(),
        },
        "cel.@mapInsert" => |_| overload_mismatch(),
        _ => return None,
    };
    Some(native)
}

fn int_overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn uint_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn timestamp_overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

fn negate<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(value)] => value.checked_neg().map(Val::Int).ok_or_else(int_overflow),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        [Val::Duration(value)] => value.checked_neg().map(Val::Duration).ok_or_else(int_overflow),
        _ => overload_mismatch(),
    }
}

/// `+`, also what folds gather with.
pub(crate) fn add<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => a.checked_add(*b).map(Val::Int).ok_or_else(int_overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_add(*b).map(Val::Uint).ok_or_else(uint_overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::String(a), Val::String(b)] => {
            within(a.len() + b.len())?;
            Ok(Val::string(format!("{}{}", &**a, &**b)))
        }
        [Val::Bytes(a), Val::Bytes(b)] => {
            within(a.len() + b.len())?;
            Ok(Val::bytes([&**a, &**b].concat()))
        }
        [Val::Duration(a), Val::Duration(b)] => a.checked_add(*b).map(Val::Duration).ok_or_else(int_overflow),
        [Val::Timestamp(time), Val::Duration(span)] | [Val::Duration(span), Val::Timestamp(time)] => {
            time.plus(*span).map(Val::Timestamp).ok_or_else(timestamp_overflow)
        }
        [Val::List(a), Val::List(b)] => add_lists(a, b),
        _ => overload_mismatch(),
    }
}

/// Lists one after the other; sets and keyed lists are merged.
fn add_lists<'a>(one: &List<'a>, two: &List<'a>) -> Outcome<'a> {
    let mut items = one.values()?;
    let uniqueness = one.uniqueness();
    match uniqueness {
        ListType::Atomic => {
            items.extend(two.values()?);
            return Ok(Val::list(items));
        }
        ListType::Set => {
            let mut known = items.iter().map(scalar_key).collect::<Result<BTreeSet<_>, _>>()?;
            for item in two.iter() {
                let item = item?;
                if known.insert(scalar_key(&item)?) {
                    items.push(item);
                }
            }
        }
        ListType::Keys(keys) => {
            let mut places = BTreeMap::new();
            for (place, item) in items.iter().enumerate() {
                places.insert(item_key(keys, item)?, place);
            }
            for item in two.iter() {
                let item = item?;
                match places.get(&item_key(keys, &item)?) {
                    Some(place) => items[*place] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(Val::List(List::Merged(Arc::new(items), uniqueness)))
}

fn subtract<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => a.checked_sub(*b).map(Val::Int).ok_or_else(int_overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_sub(*b).map(Val::Uint).ok_or_else(uint_overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => a.checked_sub(*b).map(Val::Duration).ok_or_else(int_overflow),
        [Val::Timestamp(a), Val::Timestamp(b)] => a.minus(*b).map(Val::Duration).ok_or_else(int_overflow),
        [Val::Timestamp(time), Val::Duration(span)] => {
            let back = span.checked_neg().ok_or_else(int_overflow)?;
            time.plus(back).map(Val::Timestamp).ok_or_else(timestamp_overflow)
        }
        _ => overload_mismatch(),
    }
}

fn multiply<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => a.checked_mul(*b).map(Val::Int).ok_or_else(int_overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_mul(*b).map(Val::Uint).ok_or_else(uint_overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => overload_mismatch(),
    }
}

fn divide<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::new("division by zero")),
        [Val::Int(a), Val::Int(b)] => a.checked_div(*b).map(Val::Int).ok_or_else(int_overflow),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a / b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => overload_mismatch(),
    }
}

fn modulo<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::new("modulus by zero")),
        [Val::Int(a), Val::Int(b)] => a.checked_rem(*b).map(Val::Int).ok_or_else(int_overflow),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(a % b)),
        _ => overload_mismatch(),
    }
}

fn compare<'a>(args: &[Val<'a>], test: fn(Ordering) -> bool) -> Outcome<'a> {
    match args {
        [one, two] => order(one, two).map(|order| Val::Bool(test(order))),
        _ => overload_mismatch(),
    }
}

fn member_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [value, Val::List(list)] => {
            let mut problem = None;
            for item in list.iter() {
                match item.and_then(|item| equal(&item, value)) {
                    Ok(true) => return Ok(Val::Bool(true)),
                    Ok(false) => {}
                    Err(error) => problem = problem.or(Some(error)),
                }
            }
            problem.map_or(Ok(Val::Bool(false)), Err)
        }
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key)?.is_some())),
        _ => overload_mismatch(),
    }
}

fn size<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [value @ (Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => Ok(Val::Int(value.size() as i64)),
        _ => overload_mismatch(),
    }
}

fn text_test<'a>(args: &[Val<'a>], test: fn(&str, &str) -> bool) -> Outcome<'a> {
    match args {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(test(text, part))),
        _ => overload_mismatch(),
    }
}

fn calendar<'a>(args: &[Val<'a>], field: CalendarField) -> Outcome<'a> {
    match args {
        [Val::Timestamp(time)] => Ok(Val::Int(time.field(field, 0))),
        [Val::Timestamp(time), Val::String(zone)] => {
            let offset = parse_offset(zone).map_err(EvalError::new)?;
            Ok(Val::Int(time.field(field, offset)))
        }
        [Val::Duration(nanos)] => Ok(Val::Int(match field {
            CalendarField::Hours => nanos / 3_600_000_000_000,
            CalendarField::Minutes => nanos / 60_000_000_000,
            CalendarField::Seconds => nanos / 1_000_000_000,
            CalendarField::Milliseconds => nanos / 1_000_000,
            _ => return overload_mismatch(),
        })),
        _ => overload_mismatch(),
    }
}

// === conversions ===

fn no_conversion<'a>(from: &Val<'a>, to: &str) -> Outcome<'a> {
    Err(EvalError::new(format!("type conversion error from '{}' to '{to}'", from.type_name())))
}

fn to_bool<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [value @ Val::String(text)] => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => no_conversion(value, "bool"),
        },
        _ => overload_mismatch(),
    }
}

fn to_bytes<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::String(text)] => Ok(Val::bytes(text.as_bytes().to_vec())),
        _ => overload_mismatch(),
    }
}

fn to_double<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [value @ Val::String(text)] => match parse_double(text) {
            Some(number) => Ok(Val::Double(number)),
            None => no_conversion(value, "double"),
        },
        _ => overload_mismatch(),
    }
}

fn to_duration<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Duration(value)] => Ok(Val::Duration(*value)),
        [value @ Val::String(text)] => match duration::parse(text) {
            Some(nanos) => Ok(Val::Duration(nanos)),
            None => no_conversion(value, "google.protobuf.Duration"),
        },
        _ => overload_mismatch(),
    }
}

fn to_int<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => i64::try_from(*value).map(Val::Int).map_err(|_| int_overflow()),
        [Val::Double(value)] => {
            // The bounds themselves are refused: next to them a double is no exact integer any more.
            let inside = *value > i64::MIN as f64 && *value < i64::MAX as f64;
            if inside { Ok(Val::Int(*value as i64)) } else { Err(int_overflow()) }
        }
        [Val::Timestamp(time)] => Ok(Val::Int(time.seconds())),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        [value @ Val::String(text)] => match parse_int(text) {
            Some(number) => Ok(Val::Int(number)),
            None => no_conversion(value, "int"),
        },
        _ => overload_mismatch(),
    }
}

fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn to_uint<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => u64::try_from(*value).map(Val::Uint).map_err(|_| uint_overflow()),
        [Val::Double(value)] => {
            let inside = *value >= 0.0 && *value < u64::MAX as f64;
            if inside { Ok(Val::Uint(*value as u64)) } else { Err(uint_overflow()) }
        }
        [value @ Val::String(text)] => match text.parse::<u64>().ok().filter(|_| !text.starts_with('+')) {
            Some(number) => Ok(Val::Uint(number)),
            None => no_conversion(value, "uint"),
        },
        _ => overload_mismatch(),
    }
}

fn to_string<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    Ok(match args {
        [Val::String(text)] => Val::String(text.clone()),
        [Val::Bool(value)] => Val::String(Str::Borrowed(if *value { "true" } else { "false" })),
        [Val::Int(value)] => Val::string(value.to_string()),
        [Val::Uint(value)] => Val::string(value.to_string()),
        [Val::Double(value)] => Val::string(go_general(*value)),
        [Val::Timestamp(time)] => Val::string(time.to_string()),
        [Val::Duration(nanos)] => Val::string(format_duration(*nanos)),
        [Val::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Val::string(text),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        [Val::Opaque(Opaque::Ip(ip))] => Val::string(ip.to_string()),
        [Val::Opaque(Opaque::Cidr(cidr))] => Val::string(cidr.to_string()),
        _ => return overload_mismatch(),
    })
}

fn to_timestamp<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Timestamp(time)] => Ok(Val::Timestamp(*time)),
        [Val::Int(seconds)] => Timestamp::new(*seconds, 0).map(Val::Timestamp).ok_or_else(timestamp_overflow),
        [value @ Val::String(text)] => match Timestamp::parse(text) {
            Some(time) => Ok(Val::Timestamp(time)),
            None => no_conversion(value, "google.protobuf.Timestamp"),
        },
        _ => overload_mismatch(),
    }
}
