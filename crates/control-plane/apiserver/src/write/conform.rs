//! Conformance of an object to its schema: unknown fields are dropped and reported, wrong types refused.
//!
//! The real server reads built-in kinds into typed structures and writes them out again, with effects that clients see:
//! a value of the wrong type is refused at once, and empty optional fields disappear.

use seaworthy_schema::{Additional, Pruning, Schema, Type, undecodable_metadata, undecodable_resource};
use seaworthy_values::quantity::INVALID_QUANTITY;
use serde_json::Value;

use crate::builtin::schemas::{self, Marks};
use crate::clock;
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::resource::{Origin, Resource};
use crate::response::status::Failure;

/// An object that conforms to its schema.
pub struct Conformed {
    pub object: Value,
    /// The paths of dropped unknown fields.
    pub unknown: Vec<String>,
}

/// Drops unknown fields and normalises values; refuses wrong types.
pub fn conform(resource: &Resource, object: impl Into<Value>) -> Result<Conformed, Failure> {
    let mut object = object.into();
    let mut unknown = Vec::new();
    match (&resource.origin, resource.schema()) {
        (_, None) => {}
        (Origin::Custom(_), Some(schema)) => {
            let metadata = schemas::object_meta();
            if let Some(why) = metadata.and_then(|metadata| undecodable(schema, metadata, &object)) {
                let (kind, version) = (&resource.kind, &resource.version);
                return Err(Failure::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
                )));
            }
            if let (Some(metadata), Some(own)) = (metadata, object.get_mut("metadata")) {
                // Every kind's metadata is built in.
                let mut typing = TypeChecker::new(schemas::marks("", "v1"));
                let typed = typing.value(metadata, own, &mut "metadata".to_owned());
                typed.map_err(|mismatch| refused(resource, &mismatch))?;
                unknown = typing.unknown;
                // For custom resources an empty list means none: only a list with an empty entry resets the field
                // managers.
                let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
                if let Value::Object(own) = own {
                    own.retain(|key, value| key != "managedFields" || !is_empty(value));
                }
            }
            let mut embedded = TypeChecker::new(schemas::marks("", "v1"));
            if let Some(metadata) = metadata {
                let typed = embedded.check_embedded_metadata(schema, metadata, &mut object, &mut String::new());
                typed.map_err(|mismatch| refused(resource, &mismatch))?;
            }
            unknown.extend(Pruning { metadata }.object(schema, &mut object));
            unknown.extend(embedded.unknown);
        }
        (Origin::BuiltIn(_), Some(schema)) => {
            let marks = schemas::marks(&resource.group, &resource.version);
            let mut typing = TypeChecker::new(marks);
            let typed = typing.value(schema, &mut object, &mut String::new());
            typed.map_err(|mismatch| refused(resource, &mismatch))?;
            unknown = typing.unknown;
        }
    }
    Ok(Conformed { object, unknown })
}

/// Why the metadata of an object, or of an embedded one, cannot be decoded.
fn undecodable(schema: Schema<'_>, metadata: Schema<'_>, value: &Value) -> Option<String> {
    if let Some(why) = value.get("metadata").and_then(|own| undecodable_metadata(metadata, own)) {
        return Some(why);
    }
    let cause = undecodable_resource(schema, metadata, value)?;
    Some(format!("{}: {}", cause.field, cause.message))
}

/// Conforms a `Scale`.
pub fn conform_scale(scale: Object) -> Result<Conformed, Failure> {
    let mut object = Value::Object(scale);
    let mut typing = TypeChecker::new(schemas::marks("apps", "v1"));
    if let Some(schema) = schemas::scale() {
        let typed = typing.value(schema, &mut object, &mut String::new());
        typed.map_err(|mismatch| refused_as("Scale", "v1", &mismatch))?;
    }
    Ok(Conformed { object, unknown: typing.unknown })
}

/// A value of the wrong type.
struct Mismatch {
    path: String,
    found: &'static str,
    wanted: &'static str,
}

fn refused(resource: &Resource, mismatch: &Mismatch) -> Failure {
    refused_as(&resource.kind, &resource.version, mismatch)
}

fn refused_as(kind: &str, version: &str, mismatch: &Mismatch) -> Failure {
    let Mismatch { path, found, wanted } = mismatch;
    let why = match *found {
        "base64" => format!("illegal base64 data in {kind}.{path}"),
        "time" => format!("parsing time in {kind}.{path} as RFC 3339 failed"),
        "micro time" => format!("parsing time in {kind}.{path} as RFC 3339 with six digits of a second failed"),
        "quantity" => INVALID_QUANTITY.to_owned(),
        found => format!("json: cannot unmarshal {found} into Go struct field {kind}.{path} of type {wanted}"),
    };
    Failure::bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {why}", version))
}

/// The most unknown fields that are reported, by number and by bytes: a map's key may be as long as the body.
const MAX_UNKNOWN_FIELDS: usize = 1000;
const MAX_UNKNOWN_SIZE: usize = 1 << 20;

/// Checks and normalises values as typed structures would.
struct TypeChecker<'m> {
    marks: Option<&'m Marks>,
    /// The paths of dropped unknown fields.
    unknown: Vec<String>,
    /// The total length of `unknown`, in bytes.
    unknown_size: usize,
}

impl<'m> TypeChecker<'m> {
    fn new(marks: Option<&'m Marks>) -> TypeChecker<'m> {
        TypeChecker { marks, unknown: Vec::new(), unknown_size: 0 }
    }

    /// Checks and normalises the metadata of embedded objects.
    fn check_embedded_metadata(
        &mut self,
        schema: Schema<'_>,
        metadata: Schema<'_>,
        value: &mut Value,
        path: &mut String,
    ) -> Result<(), Mismatch> {
        if !schema.has_embedded {
            return Ok(());
        }
        let length = path.len();
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    let is_head = schema.is_embedded && length > 0 && key == "metadata";
                    let field = schema.field(key);
                    if !is_head && field.is_none() {
                        continue;
                    }
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    if is_head {
                        self.value(metadata, value, path)?;
                    }
                    if let Some(field) = field {
                        self.check_embedded_metadata(field, metadata, value, path)?;
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(each) = schema.items() else { return Ok(()) };
                for (at, item) in items.iter_mut().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    self.check_embedded_metadata(each, metadata, item, path)?;
                    path.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks and normalises a value.
    fn value(&mut self, schema: Schema<'_>, value: &mut Value, path: &mut String) -> Result<(), Mismatch> {
        if value.is_null() {
            return Ok(());
        }
        if schema.is_int_or_string {
            return match value {
                // A schema of type number is a quantity here; the others are int-or-string.
                Value::String(_) | Value::Number(_) if schema.kind == Some(Type::Number) => amount(value, path),
                Value::String(_) | Value::Number(_) => Ok(()),
                other => Err(mismatch(other, path, "string")),
            };
        }
        match (schema.kind, &mut *value) {
            (Some(Type::Object), Value::Object(map)) => self.map(schema, map, path),
            (Some(Type::Array), Value::Array(items)) => {
                let Some(each) = schema.items() else { return Ok(()) };
                for (at, item) in items.iter_mut().enumerate() {
                    let length = path.len();
                    path.push_str(&format!("[{at}]"));
                    self.value(each, item, path)?;
                    path.truncate(length);
                }
                Ok(())
            }
            (Some(Type::String), Value::String(text)) => match schema.format.as_deref() {
                Some("byte") if !is_base64(text) => Err(Mismatch { path: path.clone(), found: "base64", wanted: "" }),
                Some("date-time") => {
                    let is_micro = self.marks.is_some_and(|marks| marks.is_micro_time(schema));
                    let found = if is_micro { "micro time" } else { "time" };
                    *text = time(text, is_micro).ok_or_else(|| Mismatch { path: path.clone(), found, wanted: "" })?;
                    Ok(())
                }
                _ => Ok(()),
            },
            (Some(Type::Integer), Value::Number(number)) => {
                if number.is_f64() && number.as_f64().is_some_and(|float| float.fract() != 0.0) {
                    return Err(mismatch(value, path, "int32"));
                }
                if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                    // 1.0 is read as 1, and written so.
                    *value = Value::from(float as i64);
                }
                Ok(())
            }
            (Some(Type::Number), Value::Number(_)) | (Some(Type::Boolean), Value::Bool(_)) | (None, _) => Ok(()),
            (Some(kind), other) => Err(mismatch(other, path, wanted(kind))),
        }
    }

    fn map(&mut self, schema: Schema<'_>, map: &mut Object, path: &mut String) -> Result<(), Mismatch> {
        let is_open = schema.properties().len() == 0 && schema.additional == Additional::Unspecified;
        if is_open || schema.preserves_unknown {
            return Ok(());
        }
        let mut result = Ok(());
        map.retain(|key, value| {
            if result.is_err() {
                return true;
            }
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            let is_kept = match schema.field(key) {
                None => {
                    // Beyond the limits, fields are dropped without a report.
                    if self.unknown.len() < MAX_UNKNOWN_FIELDS && self.unknown_size < MAX_UNKNOWN_SIZE {
                        self.unknown_size += path.len();
                        self.unknown.push(path.clone());
                    }
                    false
                }
                Some(field) => {
                    result = self.value(field, value, path);
                    // An empty list means: reset all field managers.
                    if key == "managedFields" && !value.is_null() {
                        path.truncate(length);
                        return true;
                    }
                    let is_declared = schema.property(key).is_some();
                    let is_required = schema.required.iter().any(|required| **required == **key);
                    let is_certain = !is_declared || is_required;
                    if !is_declared && value.is_null() && field.kind == Some(Type::String) && field.format.is_none() {
                        // A null in a map of strings is an empty string.
                        *value = Value::from("");
                    }
                    if is_certain { !value.is_null() } else { !self.is_empty(field, value) }
                }
            };
            path.truncate(length);
            is_kept
        });
        result
    }

    /// Whether an optional field of this type is left out when it has this value.
    fn is_empty(&self, schema: Schema<'_>, value: &Value) -> bool {
        let is_marked = |mark: fn(&Marks, Schema<'_>) -> bool| self.marks.is_some_and(|marks| mark(marks, schema));
        match value {
            Value::Null => true,
            Value::String(text) => text.is_empty() && !is_marked(Marks::keeps_empty),
            Value::Array(items) => items.is_empty() && !is_marked(Marks::keeps_empty),
            // An empty structure is kept; an empty map is dropped.
            Value::Object(map) => map.is_empty() && schema.properties().len() == 0 && schema.additional().is_some(),
            Value::Bool(flag) => !flag && is_marked(Marks::drops_zero),
            Value::Number(number) => number.as_i64() == Some(0) && is_marked(Marks::drops_zero),
        }
    }
}

/// Rewrites a quantity in canonical form.
fn amount(value: &mut Value, path: &str) -> Result<(), Mismatch> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let wrong = || Mismatch { path: path.to_owned(), found: "quantity", wanted: "" };
    *value = Quantity::parse(&text).ok_or_else(wrong)?.canonical().into();
    Ok(())
}

/// Rewrites a time in UTC, with whole seconds or with microseconds.
fn time(text: &str, is_micro: bool) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let time = text.parse::<jiff::Timestamp>().ok()?;
    if !is_micro {
        return Some(clock::rfc3339(time));
    }
    let digits = text.split_once('.').map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    (digits == Some(6)).then(|| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', '\r'], "")).is_ok()
}

fn mismatch(found: &Value, path: &str, wanted: &'static str) -> Mismatch {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Mismatch { path: path.to_owned(), found, wanted }
}

fn wanted(kind: Type) -> &'static str {
    match kind {
        Type::Object => "map",
        Type::Array => "slice",
        Type::String => "string",
        Type::Integer => "int64",
        Type::Number => "float64",
        Type::Boolean => "bool",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::custom;

    /// A kind with lists of whole objects in a map.
    fn fleets() -> std::sync::Arc<Resource> {
        let boat = json!({"type": "object", "x-kubernetes-embedded-resource": true});
        let fleets = json!({"type": "object", "additionalProperties": {"type": "array", "items": boat}});
        let schema = json!({"type": "object", "properties": {"fleets": fleets}});
        let definition = json!({"spec": {"group": "example.com", "names": {"plural": "fleets", "kind": "Fleet"},
            "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        custom::stored_resource(definition.as_object().unwrap()).unwrap()
    }

    fn fleet(key: &str, boats: Vec<Value>) -> Object {
        json!({"metadata": {"name": "a"}, "fleets": {key: boats}}).as_object().unwrap().clone()
    }

    #[test]
    fn long_key_above_many_objects_costs_no_more_than_its_length() {
        let (key, boats) = ("k".repeat(1 << 20), vec![json!({"kind": "Boat"}); 1 << 17]);
        // With a copy of the path for each object it would copy a hundred thousand times a million bytes.
        let conformed = conform(&fleets(), fleet(&key, boats.clone())).unwrap();
        assert_eq!(conformed.object["fleets"][&key], Value::from(boats));
    }

    #[test]
    fn unknown_fields_of_objects_behind_a_long_key_are_named_within_bounds() {
        let boats = || vec![json!({"kind": "Boat", "metadata": {"name": "b", "colour": "red"}}); 900];
        let few = conform(&fleets(), fleet("k", boats())).unwrap();
        assert_eq!(few.unknown.len(), 900);
        let many = conform(&fleets(), fleet(&"k".repeat(1 << 20), boats())).unwrap();
        assert!(many.unknown.iter().map(String::len).sum::<usize>() < 4 << 20, "{}", many.unknown.len());
        assert_eq!(many.object["fleets"]["k".repeat(1 << 20)][899]["metadata"], json!({"name": "b"}));
    }
}
