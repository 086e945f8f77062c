//! Normalisation of answers, so that two runs can be compared.
//!
//! - uids of objects are numbered by first appearance; times near now, tokens, continue tokens and ages in tables get
//!   a placeholder; other times stay.
//! - `managedFields` lose their time; they, verbs and discovery lists are sorted.
//! - Outside of custom resources null is the same as nothing.
//! - An object's resourceVersions become `<rv1>`, `<rv2>`, … in numeric order; that of a list is fresh or stale
//!   compared with the newest object seen so far. `order` lists all resourceVersions of objects in numeric order.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::reshape::Filters;
use crate::scenario::Scenario;
use crate::text::{plain, sortable};

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static JWT: LazyLock<Regex> = LazyLock::new(|| pattern(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z$"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^((\d+[smhdy])+|<invalid>)$"));

/// Times further from now than this are data, not the time of the run.
const MAX_TIME_DIFFERENCE_SECONDS: i64 = 172_800;

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// What one run was answered, as it can be compared.
pub fn recording(scenario: &Scenario, answers: Vec<(Filters, Value)>, now: Timestamp) -> Value {
    let mut normaliser = Normaliser { now, uids: HashMap::new(), versions: BTreeMap::new(), newest: 0 };
    for (_, answer) in &answers {
        normaliser.collect(answer);
    }
    let steps: Vec<Value> = answers.into_iter().map(|(filters, answer)| normaliser.answer(&filters, &answer)).collect();
    let mut out = json!({"scenario": scenario.name, "steps": steps});
    if scenario.order {
        out["order"] = normaliser.order();
    }
    out
}

struct Normaliser {
    now: Timestamp,
    /// Placeholders of uids.
    uids: HashMap<String, String>,
    /// For each uid its resourceVersions, and the name the object had.
    versions: BTreeMap<String, BTreeMap<u128, String>>,
    newest: u128,
}

impl Normaliser {
    /// Numbers the uids of objects and gathers their resourceVersions.
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::Object(meta)) = map.get("metadata")
                    && let Some(uid) = text_in(meta, "uid")
                {
                    let number = self.uids.len() + 1;
                    self.uids.entry(uid.to_owned()).or_insert_with(|| format!("<uid{number}>"));
                    if let Some(version) = text_in(meta, "resourceVersion").and_then(number_of) {
                        let name = plain(meta.get("name").unwrap_or(&Value::Null));
                        self.versions.entry(uid.to_owned()).or_default().insert(version, name);
                    }
                }
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                keys.into_iter().for_each(|key| self.collect(&map[key]));
            }
            Value::Array(list) => list.iter().for_each(|child| self.collect(child)),
            _ => {}
        }
    }

    fn answer(&mut self, filters: &Filters, answer: &Value) -> Value {
        let Value::Object(mut parts) = self.value(answer, true) else { return Value::Null };
        for key in ["body", "events"] {
            if let Some(part) = parts.get_mut(key) {
                *part = filters.apply(part.take());
            }
        }
        Value::Object(parts)
    }

    fn order(&self) -> Value {
        let mut order: Vec<(u128, String)> = self
            .versions
            .iter()
            .flat_map(|(uid, versions)| {
                versions.iter().map(|(version, name)| (*version, format!("{name}{}", self.uids[uid])))
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, name)| Value::from(name)).collect()
    }

    fn value(&mut self, value: &Value, are_nulls_kept: bool) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(list) => list.iter().map(|child| self.value(child, are_nulls_kept)).collect(),
            Value::Object(map) => Value::Object(self.object(map, are_nulls_kept)),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, are_nulls_kept: bool) -> Map<String, Value> {
        let are_nulls_kept = match map.get("apiVersion") {
            Some(version) => plain(version).contains(".example.com/"),
            None => are_nulls_kept,
        };
        // Servers write the metadata of a list before its items: a list is compared with what was seen before it.
        let (first, rest): (Vec<_>, Vec<_>) = map.iter().partition(|(key, _)| *key == "metadata");
        let mut out = Map::new();
        for (key, child) in first.into_iter().chain(rest) {
            if are_nulls_kept || !child.is_null() {
                let child = match child {
                    Value::Object(meta) if key == "metadata" => Value::Object(self.metadata(meta)),
                    child => self.value(child, are_nulls_kept),
                };
                out.insert(self.text(key), child);
            }
        }
        level(&mut out);
        out
    }

    fn metadata(&mut self, meta: &Map<String, Value>) -> Map<String, Value> {
        let mut out = self.object(meta, true);
        if let Some(version) = text_in(meta, "resourceVersion") {
            let shown = match (number_of(version), text_in(meta, "uid")) {
                (None, _) => "<not a number>".to_owned(),
                (Some(version), Some(uid)) => {
                    self.newest = self.newest.max(version);
                    let known = self.versions.get(uid).into_iter().flatten();
                    format!("<rv{}>", known.take_while(|(other, _)| **other <= version).count())
                }
                (Some(version), None) if version >= self.newest => "<fresh>".to_owned(),
                (Some(_), None) => "<stale>".to_owned(),
            };
            out.insert("resourceVersion".to_owned(), shown.into());
        }
        out
    }

    fn text(&self, text: &str) -> String {
        let text = UUID.replace_all(text, |found: &Captures<'_>| {
            self.uids.get(&found[0]).cloned().unwrap_or_else(|| found[0].to_owned())
        });
        let text = JWT.replace_all(&text, "<token>");
        if let Some(found) = TIME.captures(&text)
            && let Ok(time) = format!("{}Z", &found[1]).parse::<Timestamp>()
            && (time.as_second() - self.now.as_second()).abs() < MAX_TIME_DIFFERENCE_SECONDS
        {
            return if found.get(2).is_some() { "<microtime>" } else { "<time>" }.to_owned();
        }
        text.into_owned()
    }
}

/// Levels what may differ from run to run inside one object.
fn level(out: &mut Map<String, Value>) {
    if let Some(Value::Array(entries)) = out.get_mut("managedFields") {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
    }
    let is_discovery = out.get("kind").is_some_and(|kind| kind == "APIGroupDiscoveryList");
    for key in ["managedFields", "verbs", "groups", "resources", "subresources", "items"] {
        if let Some(Value::Array(list)) = out.get_mut(key)
            && (key != "items" || is_discovery)
        {
            list.sort_by_cached_key(sortable);
        }
    }
    if let Some(Value::Array(types)) = out.get_mut("headers").and_then(|headers| headers.get_mut("content-type")) {
        for media_type in types {
            *media_type = plain(media_type).replace(' ', "").to_lowercase().into();
        }
    }
    match out.get("continue") {
        Some(Value::String(token)) if token.is_empty() => {
            out.remove("continue");
        }
        Some(Value::String(_)) => {
            out.insert("continue".to_owned(), "<continue>".into());
        }
        _ => {}
    }
    if out.get("kind").is_some_and(|kind| kind == "Table")
        && let Some(Value::Array(rows)) = out.get_mut("rows")
    {
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            let cells = row.entry("cells").or_insert_with(|| json!([])).as_array_mut();
            for cell in cells.into_iter().flatten() {
                if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                    *cell = "<age>".into();
                }
            }
        }
    }
}

/// A text that is there and not empty.
fn text_in<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number_of(text: &str) -> Option<u128> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::recording;
    use crate::reshape::Filters;
    use crate::scenario::Scenario;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-222222222222";

    fn recorded(bodies: &[Value]) -> Value {
        let scenario = Scenario::parse(r#"{"name": "s", "topic": "t", "about": "", "steps": []}"#).unwrap();
        let answers = bodies.iter().map(|body| (Filters::default(), json!({"step": "one", "body": body}))).collect();
        recording(&scenario, answers, "2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap())
    }

    fn body(body: &Value) -> Value {
        recorded(std::slice::from_ref(body))["steps"][0]["body"].clone()
    }

    fn object(name: &str, uid: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version}})
    }

    #[test]
    fn versions_are_numbered_by_value_for_each_object() {
        let bodies = [object("a", ONE, "100"), object("b", TWO, "99"), object("a", ONE, "20"), object("a", ONE, "100")];
        let recording = recorded(&bodies);
        let versions: Vec<_> =
            (0..4).map(|at| &recording["steps"][at]["body"]["metadata"]["resourceVersion"]).collect();
        assert_eq!(versions, ["<rv2>", "<rv1>", "<rv1>", "<rv2>"]);
        assert_eq!(recording["order"], json!(["a<uid1>", "b<uid2>", "a<uid1>"]));
    }

    #[test]
    fn list_is_fresh_unless_something_newer_was_seen() {
        let list = |version: &str| json!({"metadata": {"resourceVersion": version}, "items": [object("b", TWO, "11")]});
        let recording = recorded(&[object("a", ONE, "10"), list("10"), list("10"), list("x1")]);
        let versions: Vec<_> =
            (1..4).map(|at| &recording["steps"][at]["body"]["metadata"]["resourceVersion"]).collect();
        assert_eq!(versions, ["<fresh>", "<stale>", "<not a number>"]);
    }

    #[test]
    fn known_uids_are_numbered_everywhere_and_others_stay() {
        let owner = json!({"metadata": {"uid": ONE, "ownerReferences": [{"uid": ONE}, {"uid": TWO}]}, "text": format!("uid {ONE}")});
        let expected = json!({
            "metadata": {"uid": "<uid1>", "ownerReferences": [{"uid": "<uid1>"}, {"uid": TWO}]},
            "text": "uid <uid1>",
        });
        assert_eq!(body(&owner), expected);
    }

    #[test]
    fn only_times_near_now_are_replaced() {
        let times = json!([
            "2026-01-01T12:00:00Z",
            "2026-01-01T12:00:00.123456Z",
            "2020-01-01T00:00:00Z",
            "on 2026-01-01T12:00:00Z"
        ]);
        let expected = json!(["<time>", "<microtime>", "2020-01-01T00:00:00Z", "on 2026-01-01T12:00:00Z"]);
        assert_eq!(body(&times), expected);
    }

    #[test]
    fn null_counts_in_custom_resources_only() {
        assert_eq!(
            body(&json!({"apiVersion": "v1", "a": null, "b": {"c": null}})),
            json!({"apiVersion": "v1", "b": {}})
        );
        let custom = json!({"apiVersion": "x.example.com/v1", "a": null});
        assert_eq!(body(&custom), custom);
    }

    #[test]
    fn what_has_no_order_is_sorted_and_the_rest_is_not() {
        let value = json!({"verbs": ["list", "get"], "items": [2, 1], "managedFields": [{"manager": "b", "time": "x"}, {"manager": "a"}]});
        let expected =
            json!({"verbs": ["get", "list"], "items": [2, 1], "managedFields": [{"manager": "a"}, {"manager": "b"}]});
        assert_eq!(body(&value), expected);
        let discovery = json!({"kind": "APIGroupDiscoveryList", "items": [2, 1]});
        assert_eq!(body(&discovery)["items"], json!([1, 2]));
    }

    #[test]
    fn tokens_and_ages_get_placeholders() {
        let value =
            json!({"token": "eyJhbGciOi.eyJpc3M.c2ln-_", "metadata": {"continue": "abc"}, "list": {"continue": ""}});
        let expected = json!({"token": "<token>", "metadata": {"continue": "<continue>"}, "list": {}});
        assert_eq!(body(&value), expected);
        let table = json!({"kind": "Table", "rows": [{"cells": ["5m3s", "5", "<invalid>", 7]}, {}]});
        assert_eq!(body(&table)["rows"], json!([{"cells": ["<age>", "5", "<age>", 7]}, {"cells": []}]));
    }
}
