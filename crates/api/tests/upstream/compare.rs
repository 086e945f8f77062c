//! Walks two definitions side by side and lists where they differ.
//!
//! A path is a field path (`spec.files[].path`; `[]` is a list's items, `{}` a map's values), followed by `#keyword` for
//! anything but the presence of the field itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

/// One thing that is not the same in both.
#[derive(Clone, Debug)]
pub struct Difference {
    pub crd: String,
    pub version: String,
    pub path: String,
    pub theirs: String,
    pub ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crd, version, path, theirs, ours } = self;
        write!(formatter, "{crd} {version} {path}: theirs {theirs}, ours {ours}")
    }
}

/// Schema keywords whose values are compared as they are, with what their absence means.
const KEYWORDS: &[(&str, Value)] = &[
    ("type", Value::Null),
    ("format", Value::Null),
    ("default", Value::Null),
    ("minimum", Value::Null),
    ("maximum", Value::Null),
    ("exclusiveMinimum", Value::Bool(false)),
    ("exclusiveMaximum", Value::Bool(false)),
    ("multipleOf", Value::Null),
    ("minLength", Value::Null),
    ("maxLength", Value::Null),
    ("minItems", Value::Null),
    ("maxItems", Value::Null),
    ("minProperties", Value::Null),
    ("maxProperties", Value::Null),
    ("pattern", Value::Null),
    ("nullable", Value::Bool(false)),
    ("anyOf", Value::Null),
    ("oneOf", Value::Null),
    ("allOf", Value::Null),
    ("not", Value::Null),
    ("x-kubernetes-list-type", Value::Null),
    ("x-kubernetes-list-map-keys", Value::Null),
    ("x-kubernetes-map-type", Value::Null),
    ("x-kubernetes-preserve-unknown-fields", Value::Bool(false)),
    ("x-kubernetes-int-or-string", Value::Bool(false)),
    ("x-kubernetes-embedded-resource", Value::Bool(false)),
];

/// Keywords whose values are compared as sets.
const SETS: &[&str] = &["required", "enum", "x-kubernetes-validations"];

/// Keywords that lead to further schemas.
const NESTED: &[&str] = &["properties", "items", "additionalProperties"];

/// Keywords for people, each side in its own words.
const PROSE: &[&str] = &["description", "title", "example", "externalDocs"];

/// Every difference between two sets of definitions, by name.
pub fn definitions(theirs: &BTreeMap<String, Value>, ours: &BTreeMap<String, Value>) -> Vec<Difference> {
    let mut differences = Vec::new();
    for name in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        let mut walk = Walk { crd: name, version: "-", differences: &mut differences };
        match (theirs.get(name), ours.get(name)) {
            (Some(theirs), Some(ours)) => definition(&mut walk, theirs, ours),
            (Some(_), None) => walk.add("", "present", "absent"),
            (None, _) => walk.add("", "absent", "present"),
        }
    }
    differences
}

struct Walk<'a> {
    crd: &'a str,
    version: &'a str,
    differences: &'a mut Vec<Difference>,
}

impl Walk<'_> {
    fn add(&mut self, path: &str, theirs: impl ToString, ours: impl ToString) {
        self.differences.push(Difference {
            crd: self.crd.to_owned(),
            version: self.version.to_owned(),
            path: path.to_owned(),
            theirs: theirs.to_string(),
            ours: ours.to_string(),
        });
    }

    fn value(&mut self, path: &str, theirs: &Value, ours: &Value) {
        if theirs != ours {
            self.add(path, theirs, ours);
        }
    }

    /// Compares two lists as sets and reports what only one of them has.
    fn set(&mut self, path: &str, theirs: &[Value], ours: &[Value]) {
        let only = |these: &[Value], those: &[Value]| {
            let only: Vec<String> =
                these.iter().filter(|value| !those.contains(value)).map(ToString::to_string).collect();
            if only.is_empty() { "nothing more".to_owned() } else { only.join(", ") }
        };
        if theirs.iter().any(|value| !ours.contains(value)) || ours.iter().any(|value| !theirs.contains(value)) {
            self.add(path, only(theirs, ours), only(ours, theirs));
        }
    }
}

fn definition(walk: &mut Walk<'_>, theirs: &Value, ours: &Value) {
    let labels = |crd: &Value| crd["metadata"].get("labels").cloned().unwrap_or_else(|| json!({}));
    walk.value("labels", &labels(theirs), &labels(ours));
    let (theirs, ours) = (&theirs["spec"], &ours["spec"]);
    walk.value("group", &theirs["group"], &ours["group"]);
    walk.value("scope", &theirs["scope"], &ours["scope"]);
    walk.value("conversion", &theirs["conversion"], &ours["conversion"]);
    walk.value("preserveUnknownFields", &theirs["preserveUnknownFields"], &ours["preserveUnknownFields"]);
    for name in ["kind", "listKind", "plural", "singular"] {
        walk.value(&format!("names.{name}"), &theirs["names"][name], &ours["names"][name]);
    }
    for name in ["shortNames", "categories"] {
        walk.set(&format!("names.{name}"), list(&theirs["names"][name]), list(&ours["names"][name]));
    }
    let names =
        |spec: &Value| list(&spec["versions"]).iter().map(|version| version["name"].clone()).collect::<Vec<_>>();
    walk.value("versions", &names(theirs).into(), &names(ours).into());
    for version in list(&theirs["versions"]) {
        if let Some(ours) = list(&ours["versions"]).iter().find(|ours| ours["name"] == version["name"]) {
            let mut walk =
                Walk { crd: walk.crd, version: version["name"].as_str().unwrap(), differences: walk.differences };
            self::version(&mut walk, version, ours);
        }
    }
}

fn version(walk: &mut Walk<'_>, theirs: &Value, ours: &Value) {
    for flag in ["served", "storage"] {
        walk.value(flag, &theirs[flag], &ours[flag]);
    }
    let deprecated = |version: &Value| version["deprecated"].as_bool().unwrap_or(false).into();
    walk.value("deprecated", &deprecated(theirs), &deprecated(ours));
    walk.value("selectableFields", &theirs["selectableFields"], &ours["selectableFields"]);
    // An empty object asks for no subresource, as its absence does.
    let subresources = |version: &Value| version["subresources"].as_object().cloned().unwrap_or_default().into();
    walk.value("subresources", &subresources(theirs), &subresources(ours));
    columns(walk, list(&theirs["additionalPrinterColumns"]), list(&ours["additionalPrinterColumns"]));
    schema(walk, "", &theirs["schema"]["openAPIV3Schema"], &ours["schema"]["openAPIV3Schema"]);
}

fn columns(walk: &mut Walk<'_>, theirs: &[Value], ours: &[Value]) {
    let names = |columns: &[Value]| columns.iter().map(|column| column["name"].clone()).collect::<Vec<_>>();
    walk.value("columns", &names(theirs).into(), &names(ours).into());
    for theirs in theirs {
        if let Some(ours) = ours.iter().find(|ours| ours["name"] == theirs["name"]) {
            let name = theirs["name"].as_str().unwrap();
            for key in ["type", "format", "jsonPath"] {
                walk.value(&format!("columns.{name}#{key}"), &theirs[key], &ours[key]);
            }
            let priority = |column: &Value| column["priority"].as_i64().unwrap_or(0).into();
            walk.value(&format!("columns.{name}#priority"), &priority(theirs), &priority(ours));
        }
    }
}

fn schema(walk: &mut Walk<'_>, path: &str, theirs: &Value, ours: &Value) {
    let empty = Map::new();
    let theirs = theirs.as_object().unwrap_or(&empty);
    let ours = ours.as_object().unwrap_or(&empty);
    for keyword in theirs.keys().chain(ours.keys()) {
        let known = KEYWORDS.iter().any(|(known, _)| known == keyword)
            || [SETS, NESTED, PROSE].iter().any(|known| known.contains(&keyword.as_str()));
        assert!(known, "{} {path}: nothing here compares `{keyword}`", walk.crd);
    }
    for (keyword, absent) in KEYWORDS {
        let value = |schema: &Map<String, Value>| number(schema.get(*keyword).unwrap_or(absent));
        walk.value(&format!("{path}#{keyword}"), &value(theirs), &value(ours));
    }
    let set = |schema: &Map<String, Value>, keyword| schema.get(keyword).map(list).unwrap_or_default().to_vec();
    walk.set(&format!("{path}#required"), &set(theirs, "required"), &set(ours, "required"));
    walk.set(&format!("{path}#enum"), &set(theirs, "enum"), &set(ours, "enum"));
    let rules = |schema| set(schema, "x-kubernetes-validations").iter().map(without_message).collect::<Vec<_>>();
    walk.set(&format!("{path}#rules"), &rules(theirs), &rules(ours));

    properties(walk, path, theirs.get("properties"), ours.get("properties"));
    nested(walk, &format!("{path}[]"), theirs.get("items"), ours.get("items"));
    nested(walk, &format!("{path}{{}}"), theirs.get("additionalProperties"), ours.get("additionalProperties"));
}

fn properties(walk: &mut Walk<'_>, path: &str, theirs: Option<&Value>, ours: Option<&Value>) {
    let empty = Map::new();
    let theirs = theirs.and_then(Value::as_object).unwrap_or(&empty);
    let ours = ours.and_then(Value::as_object).unwrap_or(&empty);
    for name in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        nested(walk, &path, theirs.get(name), ours.get(name));
    }
}

fn nested(walk: &mut Walk<'_>, path: &str, theirs: Option<&Value>, ours: Option<&Value>) {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => schema(walk, path, theirs, ours),
        (None, None) => {}
        (theirs, ours) => walk.add(path, presence(theirs), presence(ours)),
    }
}

fn presence(schema: Option<&Value>) -> String {
    match schema {
        None => "absent".into(),
        Some(schema) => schema["type"].as_str().unwrap_or("present").into(),
    }
}

/// A rule without its message, which each side words itself.
fn without_message(rule: &Value) -> Value {
    let mut rule = rule.clone();
    if let Some(rule) = rule.as_object_mut() {
        rule.remove("message");
        rule.remove("messageExpression");
    }
    rule
}

/// `1` and `1.0` are the same bound.
fn number(value: &Value) -> Value {
    match value.as_f64() {
        Some(number) => json!(number),
        None => value.clone(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Where a definition has a keyword, a field, a name or a column: each is a place where a difference could be.
pub fn keyword_pointers(crd: &Value) -> Vec<String> {
    fn schema_pointers(pointer: &str, schema: &Value, pointers: &mut Vec<String>) {
        let Some(schema) = schema.as_object() else { return };
        for (keyword, value) in schema {
            let pointer = format!("{pointer}/{}", keyword.replace('~', "~0").replace('/', "~1"));
            if PROSE.contains(&keyword.as_str()) {
                continue;
            }
            match keyword.as_str() {
                "properties" => {
                    for (name, schema) in value.as_object().unwrap() {
                        let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                        pointers.push(pointer.clone());
                        schema_pointers(&pointer, schema, pointers);
                    }
                }
                "items" | "additionalProperties" => {
                    pointers.push(pointer.clone());
                    schema_pointers(&pointer, value, pointers);
                }
                _ => pointers.push(pointer),
            }
        }
    }
    let mut pointers = vec!["/spec/scope".to_owned()];
    pointers.extend(crd["spec"]["names"].as_object().unwrap().keys().map(|name| format!("/spec/names/{name}")));
    for (index, version) in list(&crd["spec"]["versions"]).iter().enumerate() {
        let base = format!("/spec/versions/{index}");
        pointers.extend(
            version.as_object().unwrap().keys().filter(|key| *key != "schema").map(|key| format!("{base}/{key}")),
        );
        let schema = format!("{base}/schema/openAPIV3Schema");
        schema_pointers(&schema, &version["schema"]["openAPIV3Schema"], &mut pointers);
    }
    pointers
}
