//! Values of the evaluator: JSON data is borrowed and read through its declaration, never copied.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::collection::{Key, List, Map};
use crate::decl::{Decl, DeclKind};
use crate::error::EvalError;
use crate::library::authz::AuthorizationCheck;
use crate::library::named_format::NamedFormat;
use crate::library::net::Cidr;
use crate::library::quantity::Quantity;
use crate::library::semver::Semver;
use crate::library::url::Url;
use crate::time::Timestamp;

/// The fields of a JSON object.
pub(crate) type JsonMap = serde_json::Map<String, Json>;
/// What evaluating a part gives.
pub(crate) type Outcome<'a> = Result<Val<'a>, EvalError>;

/// A value. `'a` is the life of the data and of the program.
#[derive(Debug, Clone)]
pub enum Val<'a> {
    /// `null`.
    Null,
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Str<'a>),
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time in nanoseconds.
    Duration(i64),
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// The name of a type.
    Type(Cow<'static, str>),
    /// A value or none.
    Optional(Option<Arc<Val<'a>>>),
    /// A value of a library.
    Opaque(Opaque<'a>),
}

/// Text, borrowed where possible.
#[derive(Clone)]
pub enum Str<'a> {
    /// Part of the data or the program.
    Borrowed(&'a str),
    /// Made while evaluating.
    Shared(Arc<str>),
}

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Str::Borrowed(text) => text,
            Str::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A value only library functions look into.
#[derive(Debug, Clone)]
pub enum Opaque<'a> {
    /// An amount with a unit.
    Quantity(Arc<Quantity>),
    /// A parsed URL.
    Url(Arc<Url>),
    /// An IP address.
    Ip(std::net::IpAddr),
    /// A network.
    Cidr(Arc<Cidr>),
    /// A semantic version.
    Semver(Arc<Semver>),
    /// A named format.
    Format(&'static NamedFormat),
    /// An authorization question or its answer.
    Authz(Arc<AuthorizationCheck<'a>>),
}

// === impl Val ===

impl<'a> Val<'a> {
    /// Text made now.
    pub fn string(text: impl Into<Arc<str>>) -> Val<'a> {
        Val::String(Str::Shared(text.into()))
    }

    /// Bytes made now.
    pub fn bytes(bytes: Vec<u8>) -> Val<'a> {
        Val::Bytes(bytes.into())
    }

    /// A list made now.
    pub fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(List::Values(Arc::new(items)))
    }

    /// An optional with a value.
    pub fn some(value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(Arc::new(value)))
    }

    /// A map made now from text keys.
    pub fn record(fields: impl IntoIterator<Item = (&'static str, Val<'a>)>) -> Val<'a> {
        let entries = fields
            .into_iter()
            .map(|(name, value)| (Key::String(name.into()), (Val::String(Str::Borrowed(name)), value)))
            .collect();
        Val::Map(Map::Values(Arc::new(entries)))
    }

    /// Data seen through its declaration. Data that does not match is an error of the language, as it is not met until
    /// an expression touches it.
    pub fn bind(data: &'a Json, decl: &'a Decl) -> Outcome<'a> {
        if data.is_null() && !matches!(decl.kind(), DeclKind::Dyn) {
            return if decl.is_nullable() {
                Ok(Val::Null)
            } else {
                Err(EvalError::new("invalid data, got null for schema with nullable=false"))
            };
        }
        let mismatch = |wanted: &str| EvalError::new(format!("invalid data, expected {wanted}, got {}", go_type(data)));
        let text = || data.as_str().ok_or_else(|| mismatch("string"));
        Ok(match decl.kind() {
            DeclKind::Dyn => Val::dynamic(data),
            DeclKind::Bool => Val::Bool(data.as_bool().ok_or_else(|| mismatch("bool"))?),
            DeclKind::Int => Val::Int(data.as_i64().ok_or_else(|| mismatch("int"))?),
            DeclKind::Double => Val::Double(data.as_f64().ok_or_else(|| mismatch("float"))?),
            DeclKind::String => Val::String(Str::Borrowed(text()?)),
            DeclKind::Bytes => Val::bytes(decode_base64(text()?)?),
            DeclKind::Timestamp { day } => {
                let text = text()?;
                let parsed = if *day { Timestamp::parse_day(text) } else { Timestamp::parse_lenient(text) };
                let kind = if *day { "date" } else { "date-time" };
                let problem = || EvalError::new(format!("Invalid {kind} formatted string {text}"));
                Val::Timestamp(parsed.ok_or_else(problem)?)
            }
            DeclKind::Duration => {
                let text = text()?;
                let problem = || EvalError::new(format!("Invalid duration {text}"));
                Val::Duration(crate::time::parse_lenient_duration(text).ok_or_else(problem)?)
            }
            DeclKind::IntOrString => match (data.as_str(), data.as_i64()) {
                (Some(text), _) => Val::String(Str::Borrowed(text)),
                (None, Some(number)) => Val::Int(number),
                (None, None) => {
                    return Err(EvalError::new(
                        "invalid data, expected XIntOrString value to be either a string or integer",
                    ));
                }
            },
            DeclKind::List { .. } => {
                let problem =
                    || EvalError::new("invalid data, expected an array for the provided schema with type=array");
                Val::List(List::Json(data.as_array().ok_or_else(problem)?, decl))
            }
            DeclKind::Map(values) => Val::Map(Map::Json(data.as_object().ok_or_else(no_map)?, values)),
            DeclKind::Object(object) => Val::Map(Map::Object(data.as_object().ok_or_else(no_map)?, object)),
        })
    }

    /// Data without a declaration.
    pub fn dynamic(data: &'a Json) -> Val<'a> {
        match data {
            Json::Null => Val::Null,
            Json::Bool(value) => Val::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Val::Int(number),
                None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Val::String(Str::Borrowed(text)),
            Json::Array(items) => Val::List(List::Dyn(items)),
            Json::Object(entries) => Val::Map(Map::Dyn(entries)),
        }
    }

    /// The same value, borrowing what it can from this one.
    pub(crate) fn reborrow(&'a self) -> Val<'a> {
        match self {
            Val::String(text) => Val::String(Str::Borrowed(text)),
            other => other.clone(),
        }
    }

    /// The name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Type(_) => "type",
            Val::Optional(_) => "optional_type",
            Val::Opaque(opaque) => match opaque {
                Opaque::Quantity(_) => "kubernetes.Quantity",
                Opaque::Url(_) => "kubernetes.URL",
                Opaque::Ip(_) => "net.IP",
                Opaque::Cidr(_) => "net.CIDR",
                Opaque::Semver(_) => "kubernetes.Semver",
                Opaque::Format(_) => "kubernetes.NamedFormat",
                Opaque::Authz(check) => check.type_name(),
            },
        }
    }

    /// The name some messages use for the value's type.
    pub(crate) fn go_name(&self) -> &'static str {
        match self {
            Val::Null => "types.Null",
            Val::Bool(_) => "types.Bool",
            Val::Int(_) => "types.Int",
            Val::Uint(_) => "types.Uint",
            Val::Double(_) => "types.Double",
            Val::String(_) => "types.String",
            Val::Bytes(_) => "types.Bytes",
            Val::Timestamp(_) => "types.Timestamp",
            Val::Duration(_) => "types.Duration",
            Val::Type(_) => "*types.Type",
            Val::Optional(_) => "*types.Optional",
            Val::List(List::Json(..)) => "*common.unstructuredList",
            Val::List(_) => "*types.baseList",
            Val::Map(Map::Json(..) | Map::Object(..)) => "*common.unstructuredMap",
            Val::Map(_) => "*types.baseMap",
            Val::Opaque(_) => self.type_name(),
        }
    }

    /// The size costs are measured by: characters, bytes, items or entries, and 1 for everything else.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Val::String(text) => text.chars().count() as u64,
            Val::Bytes(bytes) => bytes.len() as u64,
            Val::List(list) => list.len() as u64,
            Val::Map(map) => map.len() as u64,
            Val::Opaque(Opaque::Ip(ip)) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Val::Opaque(Opaque::Cidr(cidr)) => u64::from(cidr.prefix().div_ceil(8)),
            _ => 1,
        }
    }

    /// Whether `optional.ofNonZeroValue` drops it.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Val::Null => true,
            Val::Bool(value) => !value,
            Val::Int(value) => *value == 0,
            Val::Uint(value) => *value == 0,
            Val::Double(value) => *value == 0.0,
            Val::String(text) => text.is_empty(),
            Val::Bytes(bytes) => bytes.is_empty(),
            Val::Duration(value) => *value == 0,
            Val::Timestamp(time) => time.is_zero(),
            // Only values made while evaluating know whether they are zero; data with a declaration does not.
            Val::List(List::Values(items)) => items.is_empty(),
            Val::List(List::Dyn(items)) => items.is_empty(),
            Val::Map(Map::Values(entries)) => entries.is_empty(),
            Val::Map(Map::Dyn(entries)) => entries.is_empty(),
            Val::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            _ => false,
        }
    }
}

fn no_map() -> EvalError {
    EvalError::new("invalid data, expected a map for the provided schema with type=object")
}

/// The names the API server's messages use for kinds of JSON.
fn go_type(data: &Json) -> &'static str {
    match data {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>, EvalError> {
    let problem = || EvalError::new(format!("Invalid byte formatted string {text}"));
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    if !digits.len().is_multiple_of(4) {
        return Err(problem());
    }
    let padding = digits.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return Err(problem());
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3);
    for (index, group) in digits.chunks(4).enumerate() {
        let last = (index + 1) * 4 == digits.len();
        let mut bits = 0u32;
        for (place, byte) in group.iter().enumerate() {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if last && place >= 4 - padding => 0,
                _ => return Err(problem()),
            };
            bits = bits << 6 | u32::from(digit);
        }
        let bytes = bits.to_be_bytes();
        let keep = if last { 3 - padding } else { 3 };
        out.extend_from_slice(&bytes[1..1 + keep]);
    }
    Ok(out)
}

/// As messages print values.
impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Null => f.write_str("null"),
            Val::Bool(value) => write!(f, "{value}"),
            Val::Int(value) => write!(f, "{value}"),
            Val::Uint(value) => write!(f, "{value}"),
            Val::Double(value) => f.write_str(&crate::number::go_verb(*value)),
            Val::String(text) => f.write_str(text),
            Val::Bytes(bytes) => write!(f, "{bytes:?}"),
            Val::Timestamp(time) => write!(f, "{time}"),
            Val::Duration(nanos) => f.write_str(&crate::time::format_duration(*nanos)),
            Val::Type(name) => f.write_str(name),
            Val::List(list) => {
                f.write_str("[")?;
                for index in 0..list.len() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    match list.get(index) {
                        Ok(item) => write!(f, "{item}")?,
                        Err(error) => write!(f, "{error}")?,
                    }
                }
                f.write_str("]")
            }
            other => f.write_str(other.type_name()),
        }
    }
}
