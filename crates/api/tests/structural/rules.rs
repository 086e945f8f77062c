//! Structural rules: what an API server requires of a definition, as far as our definitions could violate it.

use regex::Regex;
use serde_json::Value;

/// Keywords that a structural schema may have.
const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

const FORMATS: &[&str] =
    &["byte", "date-time", "double", "duration", "float", "int32", "int64", "ip", "ipv4", "ipv6", "uri"];

/// Everything that is wrong with a definition.
pub fn problems(crd: &Value) -> Vec<String> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let spec = &crd["spec"];
    let mut found = Vec::new();
    let names = &spec["names"];
    if name != format!("{}.{}", text(&names["plural"]), text(&spec["group"])) {
        found.push("name is not plural.group".to_owned());
    }
    if ["plural", "singular"].iter().any(|key| text(&names[*key]).chars().any(|c| !c.is_ascii_lowercase())) {
        found.push("plural and singular must be lower case".to_owned());
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        found.push("exactly one version must be stored".to_owned());
    }
    for version in versions {
        let at = text(&version["name"]);
        for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
            if !["integer", "number", "string", "boolean", "date"].contains(&text(&column["type"])) {
                found.push(format!("{at}: column {} has an unknown type", column["name"]));
            }
            if !text(&column["jsonPath"]).starts_with('.') {
                found.push(format!("{at}: column {} has no path", column["name"]));
            }
        }
        let root = &version["schema"]["openAPIV3Schema"];
        if root["type"] != "object" {
            found.push(format!("{at}: the root is not an object"));
        }
        schema(at, root, &mut found);
    }
    found.into_iter().map(|problem| format!("{name} {problem}")).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn schema(at: &str, schema: &Value, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else {
        found.push(format!("{at}: is not a schema"));
        return;
    };
    for keyword in object.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
        found.push(format!("{at}: has `{keyword}`"));
    }
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let type_name = text(&schema["type"]);
    if !int_or_string && !preserves {
        match &schema["type"] {
            Value::Null => found.push(format!("{at}: has no type")),
            Value::String(name)
                if ["array", "boolean", "integer", "number", "object", "string"].contains(&name.as_str()) => {}
            other => found.push(format!("{at}: has the type {other}")),
        }
    }
    combinations(at, schema, int_or_string, found);
    scalars(at, schema, type_name, found);
    extensions(at, schema, type_name, found);

    if schema.get("properties").is_some() && schema.get("additionalProperties").is_some() {
        found.push(format!("{at}: has both properties and additionalProperties"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if schema["properties"].get(text(name)).is_none() {
            found.push(format!("{at}: requires `{}`, which it does not have", text(name)));
        }
    }
    if let Some(default) = schema.get("default")
        && let Err(problem) = valid(schema, default)
    {
        found.push(format!("{at}: default {default}: {problem}"));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        self::schema(&format!("{at}.{name}"), property, found);
    }
    match schema.get("items") {
        Some(items) => self::schema(&format!("{at}[]"), items, found),
        None if type_name == "array" => found.push(format!("{at}: has no items")),
        None => {}
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(_)) => found.push(format!("{at}: additionalProperties is not a schema")),
        Some(values) => self::schema(&format!("{at}{{}}"), values, found),
        None => {}
    }
}

/// Alternatives are allowed for int-or-string only; elsewhere they would hide structure.
fn combinations(at: &str, schema: &Value, int_or_string: bool, found: &mut Vec<String>) {
    let alternatives = schema.get("anyOf");
    let usual = serde_json::json!([{ "type": "integer" }, { "type": "string" }]);
    if alternatives.is_some() && !(int_or_string && alternatives == Some(&usual)) {
        found.push(format!("{at}: has anyOf"));
    }
}

fn scalars(at: &str, schema: &Value, type_name: &str, found: &mut Vec<String>) {
    if let Some(format) = schema.get("format")
        && !FORMATS.contains(&text(format))
    {
        found.push(format!("{at}: has the format {format}"));
    }
    if let Some(pattern) = schema.get("pattern")
        && Regex::new(text(pattern)).is_err()
    {
        found.push(format!("{at}: has a pattern that is not a regular expression"));
    }
    if let Some(values) = schema.get("enum") {
        let fits = |value: &Value| type_name != "string" || value.is_string();
        if values.as_array().is_none_or(|values| values.is_empty() || !values.iter().all(fits)) {
            found.push(format!("{at}: has an enum that does not fit its type"));
        }
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if text(&rule["rule"]).trim().is_empty() {
            found.push(format!("{at}: has an empty rule"));
        }
        if text(&rule["message"]).contains('\n') || rule["message"] == "" {
            found.push(format!("{at}: has a rule with an empty or broken message"));
        }
    }
}

fn extensions(at: &str, schema: &Value, type_name: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true && !["object", ""].contains(&type_name) {
        found.push(format!("{at}: preserves unknown fields but is not an object"));
    }
    if schema["x-kubernetes-embedded-resource"] == true
        && schema.get("properties").is_none()
        && schema["x-kubernetes-preserve-unknown-fields"] != true
    {
        found.push(format!("{at}: is an embedded resource without fields"));
    }
    if schema.get("x-kubernetes-map-type").is_some() && type_name != "object" {
        found.push(format!("{at}: has a map-type but is not an object"));
    }
    let items = &schema["items"];
    match text(&schema["x-kubernetes-list-type"]) {
        "" => {}
        _ if type_name != "array" => found.push(format!("{at}: has a list-type but is not a list")),
        "atomic" => {}
        "set" => {
            if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
                found.push(format!("{at}: is a set of objects that are not atomic"));
            }
        }
        "map" => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
            if keys.is_empty() {
                found.push(format!("{at}: is a map list without keys"));
            }
            for key in keys.iter().map(text) {
                let property = &items["properties"][key];
                let scalar = ["string", "integer", "number", "boolean"].contains(&text(&property["type"]));
                let required = items["required"].as_array().into_iter().flatten().any(|name| name == key);
                if !scalar || !(required || property.get("default").is_some()) {
                    found.push(format!("{at}: key `{key}` is not a required scalar"));
                }
            }
        }
        other => found.push(format!("{at}: has the list-type {other}")),
    }
}

/// Whether a default is a value of its own schema.
fn valid(schema: &Value, value: &Value) -> Result<(), String> {
    let fits = match text(&schema["type"]) {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !fits {
        return Err(format!("is not of the type {}", schema["type"]));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Err("is not in the enum".into());
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let property = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
        match property {
            Some(property) => valid(property, value)?,
            None => return Err(format!("has the unknown field {key}")),
        }
    }
    for item in value.as_array().into_iter().flatten() {
        valid(&schema["items"], item)?;
    }
    Ok(())
}
