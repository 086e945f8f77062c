//! Schema reader: builds documents from JSON: a whole OpenAPI v3 document with references, or the one schema of a
//! CustomResourceDefinition's version.
//!
//! Reading is lenient: whether a definition is acceptable is judged elsewhere, on its JSON, because that judgement
//! must name the very place. Here a keyword of the wrong type is as good as absent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::document::{Document, NodeId};
use crate::node::{Additional, Limits, ListKind, Logic, MapKind, Node, Patching, Rule, Type};
use crate::pattern::Pattern;
use crate::rules::RuleSet;

/// How deep schemas may nest before they are read as "anything". The JSON reader's own limit is lower; this one
/// guards against trees that were built by hand.
const MAX_DEPTH: usize = 200;

impl Document {
    /// Reads the schema of one version of a CustomResourceDefinition. The number is that of its root.
    pub fn of_custom_resource(schema: &Value) -> (Document, NodeId) {
        let mut reader = Reader::default();
        let root = reader.inline(schema, 0);
        if let Some(set) = rule_set(schema, true) {
            reader.document.rule_sets.insert(root, set);
        }
        (reader.document, root)
    }

    /// Reads the definitions of an OpenAPI v3 document, an object of schemas by name.
    pub fn of_definitions(schemas: &Map<String, Value>) -> Document {
        let mut reader = Reader { is_built_in: true, ..Reader::default() };
        for name in schemas.keys() {
            let id = reader.reserve();
            reader.document.names.insert(name.as_str().into(), id);
        }
        for (name, schema) in schemas {
            let id = reader.document.names[name.as_str()];
            let node = reader.node(schema, 0);
            reader.document.nodes[id.0 as usize] = node;
        }
        // A reference with siblings is a copy of its target with changes, and the target may be read after it.
        for (id, target, changes) in std::mem::take(&mut reader.copies) {
            let mut node = reader.document.nodes[target.0 as usize].clone();
            node.default = changes.default.or(node.default);
            node.patching = changes.patching.or(node.patching);
            node.nullable |= changes.nullable;
            if changes.map != MapKind::default() {
                node.map = changes.map;
            }
            reader.document.nodes[id.0 as usize] = node;
        }
        reader.document
    }
}

#[derive(Default)]
struct Reader {
    /// Whether an object without declared fields may hold anything. So it is with the schemas of built-in kinds
    /// (managed fields, raw extensions); a custom resource has to ask for it.
    is_built_in: bool,
    document: Document,
    copies: Vec<(NodeId, NodeId, Node)>,
}

impl Reader {
    fn reserve(&mut self) -> NodeId {
        // A document of four thousand million schemas does not fit into memory first.
        let id = NodeId(u32::try_from(self.document.nodes.len()).unwrap_or(u32::MAX));
        self.document.nodes.push(Node::default());
        id
    }

    /// The number of a schema inside another one.
    fn inline(&mut self, schema: &Value, depth: usize) -> NodeId {
        if let Some(target) = self.referenced(schema) {
            let siblings = schema.as_object().is_some_and(|keys| {
                keys.keys().any(|key| !matches!(key.as_str(), "$ref" | "allOf" | "description" | "title"))
            });
            if !siblings {
                return target;
            }
            let changes = self.node(schema, depth);
            let id = self.reserve();
            self.copies.push((id, target, changes));
            return id;
        }
        let id = self.reserve();
        let node = self.node(schema, depth);
        if let Some(set) = rule_set(schema, node.is_embedded) {
            self.document.rule_sets.insert(id, set);
        }
        self.document.nodes[id.0 as usize] = node;
        id
    }

    /// The definition that a schema refers to: `$ref`, or `allOf` with nothing but one, which is how documents attach
    /// a description or a default to a reference.
    fn referenced(&self, schema: &Value) -> Option<NodeId> {
        let reference = schema.get("$ref").or_else(|| match schema.get("allOf")?.as_array()?.as_slice() {
            [only] => only.get("$ref"),
            _ => None,
        })?;
        let name = reference.as_str()?.rsplit('/').next()?;
        self.document.names.get(name).copied()
    }

    fn node(&mut self, schema: &Value, depth: usize) -> Node {
        let Some(keys) = schema.as_object() else { return Node::default() };
        if depth > MAX_DEPTH {
            return Node { preserves_unknown: true, ..Node::default() };
        }
        let is_reference = self.referenced(schema).is_some();
        let one_of_scalars = one_of_scalars(keys);
        let is_int_or_string = flag(keys, "x-kubernetes-int-or-string");
        let mut node = Node {
            kind: match one_of_scalars {
                _ if is_int_or_string => None,
                Some(Type::Number) => Some(Type::Number),
                _ => keys.get("type").and_then(Value::as_str).and_then(Type::parse),
            },
            format: text(keys, "format"),
            nullable: flag(keys, "nullable"),
            properties: self.properties(keys, depth),
            additional: self.additional(keys, depth),
            items: keys.get("items").map(|items| self.inline(items, depth + 1)),
            required: texts(keys, "required"),
            // A default of null is as good as none.
            default: keys.get("default").filter(|default| !default.is_null()).cloned(),
            allowed: keys.get("enum").and_then(Value::as_array).cloned().unwrap_or_default().into(),
            limits: limits(keys).map(Box::new),
            logic: if is_reference || one_of_scalars.is_some() { None } else { self.logic(keys, depth).map(Box::new) },
            list: list_kind(keys),
            map: match keys.get("x-kubernetes-map-type").and_then(Value::as_str) {
                Some("atomic") => MapKind::Atomic,
                _ => MapKind::Granular,
            },
            patching: patching(keys).map(Box::new),
            preserves_unknown: flag(keys, "x-kubernetes-preserve-unknown-fields")
                || (self.is_built_in && !is_reference && says_nothing(keys)),
            is_embedded: flag(keys, "x-kubernetes-embedded-resource"),
            is_int_or_string: is_int_or_string || one_of_scalars.is_some(),
            rules: rules(keys),
            has_rules: false,
            has_keyed: false,
            has_embedded: false,
        };
        // Definitions that refer to each other are not all read yet, so anything may be in them.
        node.has_rules = !node.rules.is_empty();
        node.has_keyed = self.is_built_in || node.list != ListKind::Atomic;
        node.has_embedded = self.is_built_in || node.is_embedded;
        let each = match node.additional {
            Additional::Described(id) => Some(id),
            _ => None,
        };
        for id in node.properties.iter().map(|(_, id)| *id).chain(node.items).chain(each) {
            let child = &self.document.nodes[id.0 as usize];
            node.has_rules |= child.has_rules;
            node.has_keyed |= child.has_keyed;
            node.has_embedded |= child.has_embedded;
        }
        node
    }

    fn properties(&mut self, keys: &Map<String, Value>, depth: usize) -> Box<[(Box<str>, NodeId)]> {
        let Some(properties) = keys.get("properties").and_then(Value::as_object) else { return Box::default() };
        // Sorted here, whatever order the JSON library keeps: lookups are binary searches.
        let sorted: BTreeMap<&str, &Value> = properties.iter().map(|(name, schema)| (name.as_str(), schema)).collect();
        sorted.into_iter().map(|(name, schema)| (name.into(), self.inline(schema, depth + 1))).collect()
    }

    fn additional(&mut self, keys: &Map<String, Value>, depth: usize) -> Additional {
        match keys.get("additionalProperties") {
            None => Additional::Unspecified,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(Value::Bool(false)) => Additional::Nothing,
            Some(schema) => Additional::Described(self.inline(schema, depth + 1)),
        }
    }

    fn logic(&mut self, keys: &Map<String, Value>, depth: usize) -> Option<Logic> {
        let mut each = |key: &str| -> Box<[NodeId]> {
            let schemas = keys.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            schemas.iter().map(|schema| self.inline(schema, depth + 1)).collect()
        };
        let logic = Logic { all_of: each("allOf"), any_of: each("anyOf"), one_of: each("oneOf"), not: None };
        let not = keys.get("not").map(|schema| self.inline(schema, depth + 1));
        let logic = Logic { not, ..logic };
        (logic != Logic::default()).then_some(logic)
    }
}

impl Type {
    /// The type of a `type` keyword.
    pub fn parse(word: &str) -> Option<Type> {
        Some(match word {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }
}

/// Whether a schema says no more than that a value is an object, if that.
fn says_nothing(keys: &Map<String, Value>) -> bool {
    let is_silent = |key: &str| matches!(key, "type" | "description" | "title" | "default");
    let kind = keys.get("type").and_then(Value::as_str);
    matches!(kind, None | Some("object")) && keys.keys().all(|key| is_silent(key))
}

/// Quantities and ports of built-in kinds are written as `oneOf` two scalar types: what a custom resource calls
/// int-or-string.
fn one_of_scalars(keys: &Map<String, Value>) -> Option<Type> {
    let [first, second] = keys.get("oneOf")?.as_array()?.as_slice() else { return None };
    let only_type = |schema: &Value| {
        let only = schema.as_object().filter(|keys| keys.len() == 1)?;
        only.get("type").and_then(Value::as_str).and_then(Type::parse)
    };
    if keys.contains_key("type") {
        return None;
    }
    match (only_type(first)?, only_type(second)?) {
        (Type::String, number @ (Type::Integer | Type::Number))
        | (number @ (Type::Integer | Type::Number), Type::String) => Some(number),
        _ => None,
    }
}

fn limits(keys: &Map<String, Value>) -> Option<Limits> {
    let number = |key: &str| keys.get(key).and_then(Value::as_number).cloned();
    let count = |key: &str| keys.get(key).and_then(Value::as_i64);
    let limits = Limits {
        minimum: number("minimum").map(|number| (number, flag(keys, "exclusiveMinimum"))),
        maximum: number("maximum").map(|number| (number, flag(keys, "exclusiveMaximum"))),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        unique_items: flag(keys, "uniqueItems"),
        pattern: text(keys, "pattern").filter(|pattern| !pattern.is_empty()).map(|pattern| Pattern::new(&pattern)),
    };
    (limits != Limits::default()).then_some(limits)
}

fn list_kind(keys: &Map<String, Value>) -> ListKind {
    match keys.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(texts(keys, "x-kubernetes-list-map-keys")),
        _ => ListKind::Atomic,
    }
}

fn patching(keys: &Map<String, Value>) -> Option<Patching> {
    let strategy = keys.get("x-kubernetes-patch-strategy")?.as_str()?;
    let mut words = strategy.split(',');
    Some(Patching {
        merges: words.clone().any(|word| word == "merge"),
        retains_keys: words.any(|word| word == "retainKeys"),
        merge_key: text(keys, "x-kubernetes-patch-merge-key"),
    })
}

fn rule_set(schema: &Value, is_object: bool) -> Option<RuleSet> {
    let has_rules =
        schema.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    has_rules.then(|| RuleSet::new(schema.clone(), is_object))
}

fn rules(keys: &Map<String, Value>) -> Box<[Rule]> {
    let rules = keys.get("x-kubernetes-validations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rules
        .iter()
        .filter_map(Value::as_object)
        .map(|rule| Rule {
            rule: text(rule, "rule").unwrap_or_default(),
            message: text(rule, "message"),
            message_expression: text(rule, "messageExpression"),
            reason: text(rule, "reason"),
            field_path: text(rule, "fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        })
        .collect()
}

fn flag(keys: &Map<String, Value>, key: &str) -> bool {
    keys.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn text(keys: &Map<String, Value>, key: &str) -> Option<Box<str>> {
    keys.get(key).and_then(Value::as_str).map(Into::into)
}

fn texts(keys: &Map<String, Value>, key: &str) -> Box<[Box<str>]> {
    let list = keys.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definitions(schemas: Value) -> Document {
        Document::of_definitions(schemas.as_object().unwrap())
    }

    #[test]
    fn definition_that_contains_itself_can_be_followed_to_any_depth() {
        let document = definitions(json!({
            "Tree": {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}}
        }));
        let tree = document.named("Tree").unwrap();
        assert_eq!(tree.property("left").unwrap().property("left").unwrap().id(), tree.id());
    }

    #[test]
    fn reference_with_a_default_is_a_copy_of_its_target_whatever_the_order() {
        let document = definitions(json!({
            "A": {"properties": {"z": {"allOf": [{"$ref": "#/components/schemas/Z"}], "default": {}}}},
            "Z": {"type": "object", "properties": {"name": {"type": "string"}}}
        }));
        let copy = document.named("A").unwrap().property("z").unwrap();
        assert_eq!(copy.default, Some(json!({})));
        assert_eq!(copy.kind, Some(Type::Object));
        assert_eq!(copy.property("name").unwrap().kind, Some(Type::String));
        assert_eq!(document.named("Z").unwrap().default, None);
    }

    #[test]
    fn one_of_a_number_and_a_string_is_int_or_string() {
        let document = definitions(json!({
            "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "Choice": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
        }));
        assert!(document.named("Quantity").unwrap().is_int_or_string);
        assert_eq!(document.named("Quantity").unwrap().one_of().len(), 0);
        assert_eq!(document.named("Choice").unwrap().one_of().len(), 2);
    }

    #[test]
    fn built_in_object_without_fields_may_hold_anything() {
        let document = definitions(json!({
            "FieldsV1": {"description": "d", "type": "object"},
            "Status": {"type": "object", "properties": {"code": {"type": "integer"}}}
        }));
        assert!(document.named("FieldsV1").unwrap().preserves_unknown);
        assert!(!document.named("Status").unwrap().preserves_unknown);
        let (custom, root) = Document::of_custom_resource(&json!({"type": "object"}));
        assert!(!custom.at(root).preserves_unknown);
    }

    #[test]
    fn keyed_list_of_a_custom_resource_has_its_keys() {
        let (document, root) = Document::of_custom_resource(&json!({
            "type": "object",
            "properties": {"ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}}}
            }}
        }));
        let ports = document.at(root).property("ports").unwrap();
        assert_eq!(ports.list, ListKind::Map(["port".into(), "protocol".into()].into()));
        assert_eq!(ports.items().unwrap().property("port").unwrap().kind, Some(Type::Integer));
    }
}
