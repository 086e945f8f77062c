//! `format`: text formatting in the style of C but with CEL's rules.

use super::{overload_mismatch, within};
use crate::error::EvalError;
use crate::number::go_general;
use crate::time::format_duration;
use crate::value::{Outcome, Val};

/// How a value is put in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clause {
    pub verb: char,
    precision: Option<usize>,
}

/// Why a text cannot be formatted; the place is that of an argument the problem is with.
#[derive(Debug)]
pub(crate) struct Problem {
    pub message: String,
    pub at: Option<u32>,
}

fn problem(message: impl Into<String>) -> Problem {
    Problem { message: message.into(), at: None }
}

/// Reads a format and hands every clause to `put`, with the index of its argument. `known` is the number of arguments,
/// and `early` says whether a missing one is noticed before a broken clause.
pub(crate) fn drive(
    text: &str,
    known: usize,
    early: bool,
    mut put: impl FnMut(usize, Clause) -> Result<String, Problem>,
) -> Result<(String, usize), Problem> {
    let mut out = String::with_capacity(text.len());
    let mut index = 0;
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let missing = || problem(format!("index {index} out of range"));
        if early && index >= known {
            return Err(missing());
        }
        if rest.is_empty() {
            return Err(problem("unexpected end of string"));
        }
        if index >= known {
            return Err(missing());
        }
        let (clause, after) =
            clause(rest).map_err(|message| problem(format!("could not parse formatting clause: {message}")))?;
        let value = put(index, clause).map_err(|found| Problem {
            message: format!("error during formatting: {}", found.message),
            at: found.at,
        })?;
        if within(out.len() + value.len()).is_err() {
            return Err(problem("formatted text is too long"));
        }
        out.push_str(&value);
        index += 1;
        rest = after;
    }
    out.push_str(rest);
    Ok((out, index))
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(|| "error while parsing precision: could not find end of precision specifier".to_owned())?;
        let number = &after[..digits];
        precision = Some(number.parse().map_err(|_| {
            let why = if number.is_empty() { "invalid syntax" } else { "value out of range" };
            format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \
                 {number:?}: {why}"
            )
        })?);
        rest = &after[digits..];
    }
    let verb = rest.chars().next().unwrap_or('\0');
    if !matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
        return Err(format!("unrecognized formatting clause \"{verb}\""));
    }
    Ok((Clause { verb, precision }, &rest[1..]))
}

/// What a clause says to a value of a type it is not for.
pub(crate) fn unsuitable(verb: char, type_name: &str) -> String {
    let what = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps"
        }
    };
    format!("{what}, was given {type_name}")
}

pub(super) fn format<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::String(text), Val::List(list)] = args else { return overload_mismatch() };
    let result = drive(text, list.len(), true, |index, clause| {
        let value = list.get(index).map_err(|error| problem(error.message()))?;
        put(clause, &value).map_err(problem)
    });
    match result {
        Ok((text, _)) => Ok(Val::string(text)),
        Err(found) => Err(EvalError::new(found.message)),
    }
}

fn put(clause: Clause, value: &Val<'_>) -> Result<String, String> {
    let refuse = || Err(unsuitable(clause.verb, value.type_name()));
    match (clause.verb, value) {
        ('s', value) => text_of(value),
        ('d', Val::Int(value)) => Ok(value.to_string()),
        ('d', Val::Uint(value)) => Ok(value.to_string()),
        ('f', value) => match double_of(value) {
            Some(value) => Ok(fixed(value, clause.precision.unwrap_or(6))),
            None => refuse(),
        },
        ('e', value) => match double_of(value) {
            Some(value) => Ok(scientific(value, clause.precision.unwrap_or(6))),
            None => refuse(),
        },
        ('b', Val::Int(value)) => Ok(signed(*value, |value| format!("{value:b}"))),
        ('b', Val::Uint(value)) => Ok(format!("{value:b}")),
        ('b', Val::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('o', Val::Int(value)) => Ok(signed(*value, |value| format!("{value:o}"))),
        ('o', Val::Uint(value)) => Ok(format!("{value:o}")),
        ('x' | 'X', value) => {
            let hex = match value {
                Val::Int(value) => signed(*value, |value| format!("{value:x}")),
                Val::Uint(value) => format!("{value:x}"),
                Val::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => return refuse(),
            };
            Ok(if clause.verb == 'X' { hex.to_uppercase() } else { hex })
        }
        _ => refuse(),
    }
}

fn signed(value: i64, print: fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, print(value.unsigned_abs()))
}

fn double_of(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(value) => Some(*value),
        Val::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn infinite(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// With thousands separated, as the locale of all servers has it.
fn fixed(value: f64, precision: usize) -> String {
    if let Some(text) = infinite(value) {
        return text.to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let text = format!("{:.*}", precision.min(1000), value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    if value.is_sign_negative() {
        out.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// The precision is taken for a width here, as upstream does.
fn scientific(value: f64, width: usize) -> String {
    if let Some(text) = infinite(value) {
        return format!("{text:>width$}", width = width.min(1000));
    }
    if value.is_nan() {
        return format!("{:>width$}", "NaN", width = width.min(1000));
    }
    let text = format!("{value:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised: String = format!("{digits:0>2}")
        .chars()
        .map(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize - 48).unwrap_or(digit))
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn text_of(value: &Val<'_>) -> Result<String, String> {
    Ok(match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => go_general(*value),
        Val::String(text) => text.to_string(),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(
                    "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string"
                        .to_owned(),
                );
            }
        },
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => format_duration(*nanos),
        Val::Type(name) => name.to_string(),
        Val::List(list) => {
            let items = list.iter().map(|item| nested(&item.map_err(|error| error.to_string())?));
            format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        Val::Map(map) => {
            let mut pairs = Vec::new();
            for (key, value) in map.entries() {
                if !matches!(key, Val::String(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
                    return Err(format!("no formatting function for map key of type {}", key.type_name()));
                }
                pairs.push((nested(&key)?, nested(&value.map_err(|error| error.to_string())?)?));
            }
            pairs.sort();
            let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Val::Optional(_) | Val::Opaque(_) => return Err(unsuitable('s', value.type_name())),
    })
}

/// A value inside a list or a map: written as a literal would be.
fn nested(value: &Val<'_>) -> Result<String, String> {
    let quoted = |text: &str| format!("{text:?}").replace("\\'", "'");
    Ok(match value {
        Val::String(text) => quoted(text),
        Val::Bytes(_) => format!("b{}", quoted(&text_of(value)?)),
        Val::Double(number) if number.is_finite() => format!("{number:.6}"),
        Val::Double(number) => quoted(&crate::number::go_general(*number)),
        Val::Timestamp(time) => format!("timestamp({})", quoted(&time.to_string())),
        Val::Duration(nanos) => format!("duration({})", quoted(&format_duration(*nanos))),
        Val::Optional(_) | Val::Opaque(_) => return Err(format!("no formatting function for {}", value.type_name())),
        value => text_of(value)?,
    })
}
