//! `/openapi/v2`: schemas of all kinds in one document, for clients that do not read version 3.
//!
//! It is converted from the version 3 documents on demand, one group after the other, so that only the resulting text
//! is in memory. kubectl requests it to validate a `List`, and accepts only [`protobuf`].

mod protobuf;

use std::collections::HashSet;

use serde_json::{Value, json};

use self::protobuf::Message;
use crate::discovery::openapi;
use crate::resource::registry::Registry;

/// The type of the document in protobuf.
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The type that clients request. It is not a valid media type, and they do not accept it in a response.
pub const PROTOBUF_LEGACY: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document as JSON.
pub fn document(registry: &Registry) -> String {
    let info = info();
    let (mut paths, mut definitions) = (String::new(), String::new());
    each(registry, |path, item| push(&mut paths, path, item), |name, schema| push(&mut definitions, name, schema));
    let (schemes, required) = security();
    format!(
        r#"{{"swagger":"2.0","info":{info},"paths":{{{paths}}},"definitions":{{{definitions}}},"securityDefinitions":{schemes},"security":[{required}]}}"#
    )
}

/// The document as protobuf.
pub fn binary(registry: &Registry) -> Vec<u8> {
    let (mut paths, mut definitions) = (Message::default(), Message::default());
    each(
        registry,
        |path, item| paths.named(2, path, &protobuf::path_item(item)),
        |name, schema| definitions.named(1, name, &protobuf::schema(schema)),
    );
    let (schemes, required) = security();
    let mut document = Message::default();
    document.text(1, "2.0");
    document.message(2, &protobuf::info(&info()));
    document.message(8, &paths);
    document.message(9, &definitions);
    document.message(12, &protobuf::security_requirement(&required));
    document.message(13, &protobuf::security_definitions(&schemes));
    document.into_bytes()
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": crate::discovery::version::git_version()})
}

/// The security schemes, and that they are required.
fn security() -> (Value, Value) {
    let scheme = json!({"BearerToken": {
        "description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header",
    }});
    (scheme, json!({"BearerToken": []}))
}

/// Goes through every path, and every definition once.
fn each(registry: &Registry, mut path: impl FnMut(&str, &Value), mut definition: impl FnMut(&str, &Value)) {
    let mut known = HashSet::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let Some(Value::Object(mut document)) = openapi::document(registry, group, version) else { continue };
            if let Some(Value::Object(own)) = document.remove("paths") {
                own.into_iter().for_each(|(name, item)| path(&name, &path_item(item)));
            }
            let Some(Value::Object(mut components)) = document.remove("components") else { continue };
            let Some(Value::Object(schemas)) = components.remove("schemas") else { continue };
            for (name, schema) in schemas {
                if known.insert(name.clone()) {
                    definition(&name, &converted(schema));
                }
            }
        }
    }
}

fn push(text: &mut String, key: &str, value: &Value) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&Value::from(key).to_string());
    text.push(':');
    text.push_str(&value.to_string());
}

/// A path with its operations.
fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let each = item.into_iter().map(|(key, value)| match key.as_str() {
        "parameters" => (key, parameters(value, None)),
        _ => (key, operation(value)),
    });
    Value::Object(each.collect())
}

fn operation(value: Value) -> Value {
    let Value::Object(mut operation) = value else { return value };
    let body = operation.remove("requestBody");
    let (consumes, sent) = body.as_ref().map(content).unwrap_or_default();
    let own = operation.remove("parameters").unwrap_or_else(|| json!([]));
    let parameters = parameters(own, sent);
    if parameters.as_array().is_some_and(|list| !list.is_empty()) {
        operation.insert("parameters".to_owned(), parameters);
    }
    let mut produces = Vec::new();
    if let Some(Value::Object(responses)) = operation.get_mut("responses") {
        for response in responses.values_mut() {
            let (types, schema) = content(response);
            produces = if produces.is_empty() { types } else { produces };
            if let Some(response) = response.as_object_mut() {
                response.remove("content");
                response.extend(schema.map(|schema| ("schema".to_owned(), schema)));
            }
        }
    }
    let consumes = if consumes.is_empty() { vec!["*/*".to_owned()] } else { consumes };
    operation.insert("consumes".to_owned(), consumes.into());
    operation.insert("produces".to_owned(), produces.into());
    operation.insert("schemes".to_owned(), json!(["https"]));
    Value::Object(operation)
}

/// The media types of a body, and its schema.
fn content(body: &Value) -> (Vec<String>, Option<Value>) {
    let content = body.get("content").and_then(Value::as_object).into_iter().flatten();
    let mut types = Vec::new();
    let mut schema = None;
    for (media_type, described) in content {
        types.push(media_type.clone());
        schema = schema.or_else(|| described.get("schema").cloned().map(converted));
    }
    (types, schema)
}

/// Parameters: types are inline here, and the body is one of them.
fn parameters(own: Value, body: Option<Value>) -> Value {
    let Value::Array(own) = own else { return own };
    let plain = own.into_iter().map(|parameter| match parameter {
        Value::Object(mut parameter) => {
            if let Some(Value::Object(schema)) = parameter.remove("schema") {
                parameter.extend(schema);
            }
            Value::Object(parameter)
        }
        other => other,
    });
    let body = body.map(|schema| json!({"name": "body", "in": "body", "required": true, "schema": schema}));
    plain.chain(body).collect()
}

/// A schema in version 2, which has no alternatives and no null.
fn converted(schema: Value) -> Value {
    match schema {
        Value::Object(mut map) => {
            // A reference with something beside it is wrapped in version 3 only.
            if let Some(Value::Array(all)) = map.get("allOf")
                && let [Value::Object(only)] = all.as_slice()
                && only.contains_key("$ref")
            {
                let reference = only["$ref"].clone();
                map.retain(|key, _| key == "description" || key.starts_with("x-kubernetes-"));
                map.insert("$ref".to_owned(), reference);
            }
            let had_choice = ["oneOf", "anyOf", "not", "nullable"].map(|key| map.remove(key).is_some());
            if had_choice[0] && !map.contains_key("type") {
                map.insert("type".to_owned(), "string".into());
            }
            // Defaults are in version 3 only.
            map.remove("default");
            let each = map.into_iter().map(|(key, value)| match (key.as_str(), value) {
                // The keys of these are names, whatever they look like.
                ("properties", Value::Object(fields)) => {
                    let fields = fields.into_iter().map(|(name, field)| (name, converted(field)));
                    (key, Value::Object(fields.collect()))
                }
                ("$ref", Value::String(text)) => {
                    let name = text.rsplit('/').next().unwrap_or_default();
                    (key, format!("#/definitions/{name}").into())
                }
                (_, value) => (key, converted(value)),
            });
            Value::Object(each.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(converted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_reference_is_unwrapped_and_points_to_the_definitions() {
        let schema = json!({"allOf": [{"$ref": "#/components/schemas/a.b"}], "default": {}, "description": "d"});
        assert_eq!(converted(schema), json!({"$ref": "#/definitions/a.b", "description": "d"}));
    }

    #[test]
    fn field_may_be_called_as_schemas_call_their_parts() {
        let schema = json!({"properties": {"not": {"type": "object"}, "default": {"type": "string", "default": ""}}});
        let wanted = json!({"properties": {"not": {"type": "object"}, "default": {"type": "string"}}});
        assert_eq!(converted(schema), wanted);
    }

    #[test]
    fn number_or_text_is_a_text() {
        let schema = json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"});
        assert_eq!(converted(schema), json!({"type": "string", "format": "int-or-string"}));
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let text = document(&Registry::with([]));
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["swagger"], "2.0");
        let definitions = document["definitions"].as_object().unwrap();
        assert!(definitions.contains_key("io.k8s.api.core.v1.Pod"));
        for name in text.split("#/definitions/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(definitions.contains_key(name), "{name}");
        }
        assert!(!text.contains("#/components/"));
        let list = &document["paths"]["/api/v1/nodes"]["get"];
        assert_eq!(list["responses"]["200"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.NodeList");
    }
}
