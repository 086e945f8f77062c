//! Makes objects from a schema: fields at random, and things that no schema mentions.

use serde_json::{Map, Value, json};

use super::kinds::Kind;

/// What keys start with that no schema has.
pub const UNKNOWN_KEY: &str = "zz";

/// Times as Kubernetes writes them.
const TIMES: &[&str] = &["2021-09-20T06:44:07Z", "1970-01-01T00:00:00Z"];

/// Times that mean the same in other spellings.
const UNUSUAL_TIMES: &[&str] = &["2021-09-20T06:44:07.120000Z", "2021-09-20T08:44:07+02:00", "2021-09-20t06:44:07z"];

/// What a generated object may contain beside what its schema says.
#[derive(Clone, Copy)]
pub struct Wild {
    /// Unknown keys at the root and in `metadata` too, not only in what our types describe.
    root: bool,
    /// `null` in place of an optional field.
    nulls: bool,
    /// Times in other spellings than the usual one.
    spellings: bool,
}

impl Wild {
    /// What a type keeps by itself.
    pub const UNKNOWN_KEYS: Self = Self { root: false, nulls: false, spellings: false };
    /// What the wrapper keeps.
    pub const EVERYTHING: Self = Self { root: true, nulls: true, spellings: true };
}

pub struct Generator {
    state: u64,
    wild: Wild,
}

impl Generator {
    pub fn new(seed: u64, wild: Wild) -> Self {
        Self { state: seed, wild }
    }

    /// The next number, by the SplitMix64 sequence: cheap, and the same for the same seed everywhere.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// An object of a kind.
    pub fn object(&mut self, kind: &Kind, schema: &Value) -> Value {
        let has_spec = schema["properties"].get("spec").is_some();
        let mut root = match self.value(schema, 0) {
            Value::Object(root) => root,
            other => panic!("an object is not {other}"),
        };
        if has_spec && !self.wild.root {
            // Known keys only, and a spec: the rest is what the wrapper is for.
            root.retain(|key, _| !key.starts_with(UNKNOWN_KEY));
            if !root.contains_key("spec") {
                root.insert("spec".into(), self.value(&schema["properties"]["spec"], 1));
            }
        }
        root.insert("apiVersion".into(), kind.api_version.clone().into());
        root.insert("kind".into(), kind.kind.clone().into());
        if self.wild.root && self.one_in(10) {
            root.remove("metadata");
        } else {
            root.insert("metadata".into(), self.metadata());
        }
        Value::Object(root)
    }

    fn metadata(&mut self) -> Value {
        let mut metadata = json!({
            "name": self.text(),
            "labels": { "a": "b" },
            "resourceVersion": "1",
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1" },
                { "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1" },
            ],
            "managedFields": [{ "manager": "m", "operation": "Apply", "fieldsV1": { "f:spec": {} } }],
        });
        if self.wild.root {
            metadata["creationTimestamp"] = Value::Null;
            metadata["labels"] = Value::Null;
            let fields = metadata.as_object_mut().unwrap();
            self.add_unknown(fields);
            for list in ["ownerReferences", "managedFields"] {
                for item in metadata[list].as_array_mut().unwrap() {
                    self.add_unknown(item.as_object_mut().unwrap());
                }
            }
        }
        metadata
    }

    /// Puts any value in some place of an object.
    pub fn damage(&mut self, value: &mut Value) {
        let inside = match value {
            Value::Object(fields) if !fields.is_empty() => {
                let at = self.below(fields.len());
                fields.values_mut().nth(at)
            }
            Value::Array(items) if !items.is_empty() => {
                let at = self.below(items.len());
                items.get_mut(at)
            }
            _ => None,
        };
        match inside {
            Some(inside) if !self.one_in(4) => self.damage(inside),
            Some(inside) => *inside = self.any(2),
            None => *value = self.any(2),
        }
    }

    fn add_unknown(&mut self, fields: &mut Map<String, Value>) {
        for _ in 0..self.below(3) {
            let key = format!("{UNKNOWN_KEY}{}", self.choose(&["New", "-key", "/q", " ", "ü", ".a.b"]));
            let value = self.any(2);
            fields.insert(key, value);
        }
    }

    fn any(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => self.one_in(2).into(),
            2 => self.whole(i64::MIN, i64::MAX).into(),
            3 => json!(0.5),
            4 => self.text().into(),
            5 => (0..self.below(3)).map(|_| self.any(depth - 1)).collect(),
            _ => self.any_object(depth - 1),
        }
    }

    fn any_object(&mut self, depth: usize) -> Value {
        let fields: Map<String, Value> = (0..self.below(3)).map(|_| (self.text(), self.any(depth))).collect();
        Value::Object(fields)
    }

    fn text(&mut self) -> String {
        (*self.choose(&["", "a", "worker-0", "true", "1", "10%", "nul\u{0}", "ü\u{1f6a2}", "two\nlines"])).to_owned()
    }

    fn whole(&mut self, least: i64, most: i64) -> i64 {
        *self.choose(&[least, -1, 0, 1, 7, most])
    }

    /// A value that the schema accepts in structure; bounds and patterns are the API server's to enforce.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if self.wild.nulls && schema["nullable"] == true && self.one_in(6) {
            return Value::Null;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if self.one_in(2) { self.whole(i64::MIN, i64::MAX).into() } else { self.text().into() };
        }
        if let Some(words) = schema["enum"].as_array() {
            // A word of a newer upstream now and then.
            return if self.one_in(8) { "FromTheFuture".into() } else { self.choose(words).clone() };
        }
        match schema["type"].as_str() {
            Some("string") if schema["format"] == "date-time" => self.time().into(),
            Some("string") => self.text().into(),
            Some("integer") if schema["format"] == "int32" => self.whole(i32::MIN.into(), i32::MAX.into()).into(),
            Some("integer") => self.whole(i64::MIN, i64::MAX).into(),
            Some("number") => json!(1.5),
            Some("boolean") => self.one_in(2).into(),
            Some("array") => (0..self.below(4)).map(|_| self.value(&schema["items"], depth + 1)).collect(),
            Some("object") => self.fields(schema, depth),
            other => panic!("no value of the type {other:?} is made"),
        }
    }

    fn time(&mut self) -> &'static str {
        let unusual = self.wild.spellings && self.one_in(2);
        let times = if unusual { UNUSUAL_TIMES } else { TIMES };
        times[self.below(times.len())]
    }

    fn fields(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(values) = schema.get("additionalProperties") {
            let fields: Map<String, Value> =
                (0..self.below(3)).map(|_| (self.text(), self.value(values, depth + 1))).collect();
            return Value::Object(fields);
        }
        let Some(properties) = schema["properties"].as_object() else {
            return self.any_object(2);
        };
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut fields = Map::new();
        for (name, property) in properties {
            let is_required = required.iter().any(|required| required == name);
            if is_required || self.one_in(if depth < 3 { 2 } else { 4 }) {
                fields.insert(name.clone(), self.value(property, depth + 1));
            } else if self.wild.nulls && self.one_in(12) {
                fields.insert(name.clone(), Value::Null);
            }
        }
        self.add_unknown(&mut fields);
        Value::Object(fields)
    }
}
