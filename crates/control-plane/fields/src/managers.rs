//! `metadata.managedFields`: the managers of an object and the fields they own.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use seaworthy_schema::quoted;
use serde_json::{Map, Value, json};

use crate::codec::{FieldsError, kind_of};
use crate::set::Set;

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply: it says all it wants, each time.
    Apply,
    /// Everything else: it changes what it changes.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One manager and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    /// The name it gave itself.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The version in which its fields are named.
    pub api_version: String,
    /// When it last changed something, in RFC 3339.
    pub time: Option<String>,
    /// Through which subresource it writes; empty for the object itself.
    pub subresource: String,
    /// What it owns.
    pub fields: Set,
}

impl Manager {
    /// Whether two entries are of one manager. An applier is the same in all versions: what it applied in the old one
    /// is its own to take away in the new one.
    pub(crate) fn is_same(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The text by which the real server sorts managers.
    pub(crate) fn identifier(&self) -> String {
        let mut text = format!("{{\"manager\":{},\"operation\":\"{}\"", json!(self.name), self.operation.as_str());
        if self.operation == Operation::Update {
            text += &format!(",\"apiVersion\":{}", json!(self.api_version));
        }
        if !self.subresource.is_empty() {
            text += &format!(",\"subresource\":{}", json!(self.subresource));
        }
        text + "}"
    }

    /// As in conflict messages: `"kubectl-edit" using v1`.
    pub(crate) fn shown(&self) -> String {
        let mut text = quoted(&self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {}", quoted(&self.subresource));
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.api_version);
        }
        text
    }

    fn encode(self) -> Value {
        let mut entry = Map::new();
        if !self.name.is_empty() {
            entry.insert("manager".to_owned(), Value::String(self.name));
        }
        entry.insert("operation".to_owned(), Value::String(self.operation.as_str().to_owned()));
        entry.insert("apiVersion".to_owned(), Value::String(self.api_version));
        if let Some(time) = self.time {
            entry.insert("time".to_owned(), Value::String(time));
        }
        entry.insert("fieldsType".to_owned(), Value::String("FieldsV1".to_owned()));
        entry.insert("fieldsV1".to_owned(), self.fields.encode());
        if !self.subresource.is_empty() {
            entry.insert("subresource".to_owned(), Value::String(self.subresource));
        }
        Value::Object(entry)
    }

    fn decode(entry: &Value, position: usize) -> Result<Manager, ManagersError> {
        let Value::Object(entry) = entry else { return Err(ManagersError::NoObject(position, kind_of(entry))) };
        let text = |key: &'static str| match entry.get(key) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(ManagersError::NoText(position, key, kind_of(other))),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagersError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(ManagersError::NoVersion);
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(ManagersError::NoFieldsType(position)),
            other => return Err(ManagersError::FieldsType(other.to_owned(), position)),
        }
        let fields = entry.get("fieldsV1").map(Set::decode).transpose()?.unwrap_or_default();
        let time = text("time")?;
        Ok(Manager {
            name: text("manager")?.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            time: (!time.is_empty()).then(|| time.to_owned()),
            subresource: text("subresource")?.to_owned(),
            fields,
        })
    }
}

/// Why `metadata.managedFields` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagersError {
    /// It is no list.
    #[error("metadata.managedFields: a list was expected, found {0}")]
    NoList(&'static str),
    /// An entry is no object.
    #[error("managed fields entry {0}: an object was expected, found {1}")]
    NoObject(usize, &'static str),
    /// A key holds no text.
    #[error("managed fields entry {0}: {1}: text was expected, found {2}")]
    NoText(usize, &'static str, &'static str),
    /// Neither of the two operations.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// Another type of fields.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The fields themselves.
    #[error(transparent)]
    Fields(#[from] FieldsError),
}

/// The name under which old updates are merged.
const BUCKET: &str = "ancient-changes";

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers(pub Vec<Manager>);

impl Managers {
    /// Reads them from an object. Of two entries of one manager the later one counts.
    pub fn of_object(object: &Value) -> Result<Managers, ManagersError> {
        let entries = match managed_fields(object) {
            None | Some(Value::Null) => return Ok(Managers::default()),
            Some(Value::Array(entries)) => entries,
            Some(other) => return Err(ManagersError::NoList(kind_of(other))),
        };
        let mut managers = Managers(Vec::with_capacity(entries.len()));
        let mut places: HashMap<String, usize> = HashMap::with_capacity(entries.len());
        for (position, entry) in entries.iter().enumerate() {
            let manager = Manager::decode(entry, position)?;
            match places.entry(manager.identifier()) {
                Vacant(place) => {
                    place.insert(managers.0.len());
                    managers.0.push(manager);
                }
                Occupied(place) => managers.0[*place.get()] = manager,
            }
        }
        Ok(managers)
    }

    /// Writes them into an object, or takes the key away if there are none: by operation, then oldest first.
    pub fn write_into(mut self, object: &mut Value) {
        if self.0.is_empty() {
            return remove_managed_fields(object);
        }
        self.0.sort_by_cached_key(|manager| {
            let time = manager.seconds();
            let (name, version) = (manager.name.clone(), manager.api_version.clone());
            (manager.operation, time, name, version, manager.subresource.clone())
        });
        let entries = self.0.into_iter().map(Manager::encode).collect();
        if let Value::Object(object) = object {
            let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(metadata) = metadata {
                metadata.insert("managedFields".to_owned(), Value::Array(entries));
            }
        }
    }

    /// Takes the entry of the same manager out.
    pub(crate) fn remove(&mut self, manager: &Manager) -> Option<Manager> {
        let position = self.0.iter().position(|other| other.is_same(manager))?;
        Some(self.0.remove(position))
    }

    /// Merges the oldest updaters until there are no more than this many, one bucket per version.
    pub(crate) fn cap_updaters(&mut self, most: usize) {
        let (mut updaters, appliers): (Vec<Manager>, Vec<Manager>) =
            std::mem::take(&mut self.0).into_iter().partition(|manager| manager.operation == Operation::Update);
        self.0 = appliers;
        if updaters.len() > most {
            updaters.sort_by_cached_key(|manager| (manager.seconds(), manager.identifier()));
            updaters = Self::merge_oldest(updaters, most);
        }
        self.0.append(&mut updaters);
    }

    fn merge_oldest(updaters: Vec<Manager>, most: usize) -> Vec<Manager> {
        let mut count = updaters.len();
        let mut kept: Vec<Manager> = Vec::with_capacity(count);
        // Per version the entry that others are merged into: the first one, until there is a bucket.
        let mut buckets: HashMap<String, usize> = HashMap::new();
        for manager in updaters {
            match buckets.get(&manager.api_version) {
                Some(place) if count > most => {
                    let fields = std::mem::take(&mut kept[*place].fields).union(manager.fields);
                    let (name, subresource) = (BUCKET.to_owned(), String::new());
                    kept[*place] = Manager { name, subresource, fields, ..manager };
                    count -= 1;
                }
                before => {
                    if before.is_none() || manager.name == BUCKET && manager.subresource.is_empty() {
                        buckets.insert(manager.api_version.clone(), kept.len());
                    }
                    kept.push(manager);
                }
            }
        }
        kept
    }
}

impl Manager {
    /// Its time for sorting; the beginning of time if it has none.
    fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(seconds_of).unwrap_or_default()
    }
}

pub(crate) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

pub(crate) fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Seconds since 1970 of a time in RFC 3339; none for anything else.
fn seconds_of(time: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let text = time.get(range)?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let rest = time.get(19..)?;
    let zone = rest.find(['Z', 'z', '+', '-']).and_then(|start| rest.get(start..))?;
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign, digits @ ..] if digits.len() == 5 => {
            let start = time.len() - 5;
            let seconds = number(start..start + 2)? * 3600 + number(start + 3..start + 5)? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    // Days since 1970 in the calendar of today, counting years from March so that leap days come last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days =
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (month * 153 + 2) / 5 + day
            - 719_469;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn updater(name: &str, second: usize) -> Manager {
        Manager {
            name: name.to_owned(),
            operation: Operation::Update,
            api_version: "v1".to_owned(),
            time: Some(format!("2026-01-01T00:00:{second:02}Z")),
            subresource: String::new(),
            fields: Set::of_fields([["data", name].as_slice()]),
        }
    }

    #[test]
    fn oldest_updaters_are_merged_once_there_are_more_than_allowed() {
        let mut managers = Managers((0..12).rev().map(|number| updater(&format!("m{number:02}"), number)).collect());
        managers.cap_updaters(10);
        let mut object = json!({"metadata": {}});
        managers.write_into(&mut object);
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries.len(), 10);
        assert_eq!(entries[0]["manager"], "ancient-changes");
        assert_eq!(entries[0]["time"], "2026-01-01T00:00:02Z");
        assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:m00": {}, "f:m01": {}, "f:m02": {}}}));
        assert_eq!(entries[1]["manager"], "m03");
    }

    #[test]
    fn entries_are_sorted_by_operation_then_time_then_name() {
        let mut managers = Managers(vec![updater("b", 2), updater("a", 2), updater("c", 1)]);
        managers.0.push(Manager { operation: Operation::Apply, ..updater("z", 9) });
        let mut object = json!({});
        managers.write_into(&mut object);
        let names: Vec<_> =
            object["metadata"]["managedFields"].as_array().unwrap().iter().map(|entry| &entry["manager"]).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let managers = Managers(vec![Manager { subresource: "status".to_owned(), ..updater("a", 1) }, updater("b", 2)]);
        let mut object = json!({});
        managers.clone().write_into(&mut object);
        assert_eq!(Managers::of_object(&object).unwrap(), managers);
    }

    #[rstest]
    #[case(json!({}), "operation must be `Apply` or `Update`")]
    #[case(json!({"operation": "Apply"}), "apiVersion must not be empty")]
    #[case(json!({"operation": "Apply", "apiVersion": "v1"}), "missing fieldsType in managed fields entry 0")]
    #[case(json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}), "invalid fieldsType \"V2\" in managed fields entry 0")]
    #[case(json!({"operation": 1}), "managed fields entry 0: operation: text was expected, found a number")]
    #[case(json!("x"), "managed fields entry 0: an object was expected, found a string")]
    fn broken_entries_are_named(#[case] entry: Value, #[case] message: &str) {
        let object = json!({"metadata": {"managedFields": [entry]}});
        assert_eq!(Managers::of_object(&object).unwrap_err().to_string(), message);
    }

    #[rstest]
    #[case("1970-01-01T00:00:00Z", Some(0))]
    #[case("2000-02-29T12:30:15Z", Some(951_827_415))]
    #[case("2026-08-01T02:00:00.123456+02:00", Some(1_785_542_400))]
    #[case("2026-08-01", None)]
    #[case("yesterday, about noon: maybe Z", None)]
    fn times_are_read(#[case] text: &str, #[case] seconds: Option<i64>) {
        assert_eq!(seconds_of(text), seconds);
    }
}
