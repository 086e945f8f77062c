//! Values while an expression is evaluated: JSON data is borrowed and read through its declaration, never copied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::decl::{Decl, DeclKind, Object, Uniqueness};
use crate::error::EvalError;
use crate::library::authz::Check;
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
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Str<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A list.
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
    Quantity(Quantity),
    /// A parsed URL.
    Url(Arc<Url>),
    /// An IP address.
    Ip(std::net::IpAddr),
    /// A network.
    Cidr(Cidr),
    /// A semantic version.
    Semver(Arc<Semver>),
    /// A named format.
    Format(&'static NamedFormat),
    /// An authorization question or its answer.
    Authz(Arc<Check<'a>>),
}

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Made while evaluating.
    Values(Arc<Vec<Val<'a>>>),
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
    Object(&'a JsonMap, &'a Object),
    /// Data without a declaration.
    Dyn(&'a JsonMap),
}

/// The entries of a map made while evaluating, with their keys as written.
pub type Entries<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

/// What makes two keys the same: numbers are, whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A boolean.
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
    if digits.len() % 4 != 0 {
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

// === impl List ===

impl<'a> List<'a> {
    /// The number of items.
    pub fn len(&self) -> usize {
        match self {
            List::Values(items) => items.len(),
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
            List::Values(items) => items.get(index).cloned().map(Ok),
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

    pub(crate) fn uniqueness(&self) -> &'a Uniqueness {
        match self {
            List::Json(_, decl) => match decl.kind() {
                DeclKind::List { uniqueness, .. } => uniqueness,
                _ => &Uniqueness::Atomic,
            },
            _ => &Uniqueness::Atomic,
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
                .filter_map(|key| object.ident_of(key))
                .map(|key| Val::String(Str::Borrowed(key)))
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
