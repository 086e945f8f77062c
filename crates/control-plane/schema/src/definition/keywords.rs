//! Validation of the keywords of a schema, alone and in combination.

use serde_json::{Value, json};

use super::Requirements;
use super::field_path::follow;
use super::props::{AdditionalProps, Props};
use super::rule_costs::RuleCosts;
use crate::cause::{Cause, ShownValue};
use crate::document::Schema;
use crate::path::Path;
use crate::wording;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
/// The most that one rule may cost.
const MAX_RULE_COST: u64 = 10_000_000;

/// Mistakes of schemas, and mistakes of rules: rules are only looked at where schemas are fine.
#[derive(Default)]
pub(super) struct Mistakes {
    pub(super) schema: Vec<Cause>,
    pub(super) rules: Vec<Cause>,
}

/// What a schema inherits from those around it.
#[derive(Clone, Copy)]
pub(super) struct SchemaContext<'a> {
    /// Why a default is not allowed here.
    pub(super) no_defaults: Option<&'a str>,
    pub(super) is_inside_metadata: bool,
    /// The path within which old values cannot be correlated, so that rules may not use them.
    pub(super) no_old_self: Option<&'a Path<'a>>,
    pub(super) is_root: bool,
    /// How often the value may occur at most, if that is bounded.
    pub(super) cardinality: Option<u64>,
}

/// Looks through a schema and all inside it.
pub(super) struct Keywords<'r> {
    pub(super) requires: &'r Requirements,
    pub(super) ignores_cost: bool,
    pub(super) costs: RuleCosts,
}

impl Keywords<'_> {
    /// `node` is the same schema once it was read; there is none where rules cannot be.
    pub(super) fn check(
        &mut self,
        schema: Props<'_>,
        node: Option<Schema<'_>>,
        path: &Path<'_>,
        around: SchemaContext<'_>,
    ) -> Mistakes {
        let mut found = Mistakes::default();
        self.forbidden(schema, path, around, &mut found.schema);
        self.children(schema, node, path, around, &mut found);
        self.extensions(schema, path, &mut found.schema);
        list_keys(schema, path, &mut found.schema);
        if self.requires.map_keys {
            found.schema.extend(list_elements(schema, path));
        }
        self.rules(schema, node, path, around, &mut found);
        found
    }

    fn forbidden(&self, schema: Props<'_>, path: &Path<'_>, around: SchemaContext<'_>, found: &mut Vec<Cause>) {
        let kind = schema.kind();
        if self.requires.valid_types && !kind.is_empty() && !TYPES.contains(&kind) {
            found.push(Cause::not_supported(path.name("type"), kind, &TYPES));
        }
        if let Some(reason) = around.no_defaults.filter(|_| schema.get("default").is_some()) {
            let detail = format!("must not be set {reason}");
            found.push(Cause::forbidden(path.name("default"), detail.trim_end()));
        }
        if schema.text("id").is_some_and(|id| !id.is_empty()) {
            found.push(Cause::forbidden(path.name("id"), "id is not supported"));
        }
        for key in ["additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            let is_set = match schema.get(key) {
                Some(Value::Object(map)) => !map.is_empty() || matches!(key, "dependencies" | "additionalItems"),
                Some(_) => true,
                None => false,
            };
            if is_set {
                found.push(Cause::forbidden(path.name(key), &format!("{key} is not supported")));
            }
        }
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            found.push(Cause::forbidden(path.name("type"), detail));
        }
        if schema.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
            found.push(Cause::forbidden(path.name("items"), "items must be a schema object and not an array"));
        }
        if around.is_inside_metadata && schema.flag("x-kubernetes-embedded-resource") {
            let detail = "must not be used inside of resource meta";
            found.push(Cause::forbidden(path.name("x-kubernetes-embedded-resource"), detail));
        }
        if schema.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            found.push(Cause::forbidden(path.name("uniqueItems"), detail));
        }
    }

    fn children(
        &mut self,
        schema: Props<'_>,
        node: Option<Schema<'_>>,
        path: &Path<'_>,
        around: SchemaContext<'_>,
        found: &mut Mistakes,
    ) {
        let mut merge = |mistakes: Mistakes| {
            found.schema.extend(mistakes.schema);
            found.rules.extend(mistakes.rules);
        };
        let elements = max_elements(schema);
        let cardinality = around.cardinality.zip(elements).map(|(here, each)| here.saturating_mul(each));
        let inside = SchemaContext { is_root: false, cardinality, ..around };
        let properties = schema.properties();
        if let Some(additional) = schema.additional() {
            let at = path.name("additionalProperties");
            if !properties.is_empty() && additional != AdditionalProps::Allowed(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                merge(Mistakes { schema: vec![Cause::forbidden(at, detail)], rules: Vec::new() });
            }
            let mut inside = inside;
            if around.is_inside_metadata {
                inside.no_defaults = Some("inside additionalProperties applying to object metadata");
            }
            if let AdditionalProps::Each(each) = additional {
                merge(self.check(each, node.and_then(Schema::additional), &at, inside));
            }
        }
        let at_properties = path.name("properties");
        for (name, property) in properties {
            let mut inside = inside;
            let reason = format!("in top-level {name}");
            if (around.is_root || schema.flag("x-kubernetes-embedded-resource"))
                && matches!(name, "metadata" | "kind" | "apiVersion")
            {
                inside.is_inside_metadata = true;
                if around.is_root {
                    inside.no_defaults = Some(&reason);
                }
            }
            let node = node.and_then(|node| node.property(name));
            merge(self.check(property, node, &at_properties.key(name), inside));
        }
        let combined = SchemaContext { is_root: false, cardinality: None, ..around };
        if let Some(not) = schema.not() {
            merge(self.check(not, None, &path.name("not"), combined));
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            let at = path.name(key);
            for (index, alternative) in schema.alternatives(key).into_iter().enumerate() {
                merge(self.check(alternative, None, &at.index(index), combined));
            }
        }
        let at_definitions = path.name("definitions");
        for (name, definition) in schema.schemas("definitions") {
            merge(self.check(definition, None, &at_definitions.key(name), combined));
        }
        // Elements of a list have a past only where they have keys.
        let mut inside = inside;
        if schema.list_type() != Some("map") && inside.no_old_self.is_none() {
            inside.no_old_self = Some(path);
        }
        let at_items = path.name("items");
        if let Some(items) = schema.items() {
            merge(self.check(items, node.and_then(Schema::items), &at_items, inside));
        }
        for (index, items) in schema.alternatives("items").into_iter().enumerate() {
            merge(self.check(items, None, &at_items.index(index), inside));
        }
    }

    fn extensions(&self, schema: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
        let kind = schema.kind();
        let mut wrong_type = |detail: &str| {
            let at = path.name("type");
            found.push(if kind.is_empty() { Cause::required(at, detail) } else { Cause::invalid(at, kind, detail) });
        };
        let is_open = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool);
        if schema.map_type().is_some() && kind != "object" {
            wrong_type("must be object if x-kubernetes-map-type is specified");
        }
        if schema.list_type().is_some() && kind != "array" {
            wrong_type("must be array if x-kubernetes-list-type is specified");
        }
        if is_open == Some(false) {
            let at = path.name("x-kubernetes-preserve-unknown-fields");
            found.push(Cause::invalid(at, false, "must be true or undefined"));
        }
        if let Some(map_type) = schema.map_type().filter(|kind| !matches!(*kind, "atomic" | "granular")) {
            let at = path.name("x-kubernetes-map-type");
            found.push(Cause::not_supported(at, map_type, &["atomic", "granular"]));
        }
        if self.requires.atomic_sets
            && kind == "array"
            && let Some(items) = schema.items().filter(|_| has_shared_elements(schema))
        {
            let key = if items.kind() == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
            // The original shows the list type in both cases.
            let shown = items.list_type().map_or(ShownValue::from(&Value::Null), ShownValue::from);
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            found.push(Cause::invalid(path.name("items").name(key), shown, detail));
        }
        if let Some(list_type) = schema.list_type().filter(|kind| !matches!(*kind, "atomic" | "set" | "map")) {
            let at = path.name("x-kubernetes-list-type");
            found.push(Cause::not_supported(at, list_type, &["atomic", "set", "map"]));
        }
    }

    fn rules(
        &mut self,
        schema: Props<'_>,
        node: Option<Schema<'_>>,
        path: &Path<'_>,
        around: SchemaContext<'_>,
        found: &mut Mistakes,
    ) {
        let rules = schema.rules();
        let at_rules = path.name("x-kubernetes-validations");
        for (index, rule) in rules.iter().enumerate() {
            rule_texts(*rule, schema, &at_rules.index(index), &mut found.schema);
        }
        let Some(node) = node.filter(|_| !rules.is_empty() && found.schema.is_empty()) else { return };
        let is_stored = |expression: &str| self.requires.stored_expressions.contains(expression);
        let compiled = node.rule_set().and_then(|set| set.compile(&node.node().rules, &is_stored));
        let Some(compiled) = compiled else {
            let detail = "internal error: failed to retrieve type information for x-kubernetes-validations";
            found.rules.push(Cause::internal(at_rules, detail));
            return;
        };
        for (index, (compiled, rule)) in compiled.rules.iter().zip(&rules).enumerate() {
            let at = at_rules.index(index);
            let (at_rule, at_message) = (at.name("rule"), at.name("messageExpression"));
            let times = around.cardinality.unwrap_or(compiled.cardinality);
            let cost = compiled.cost.saturating_mul(times);
            if !self.ignores_cost && cost > MAX_RULE_COST {
                let detail = too_expensive("estimated rule cost", cost, MAX_RULE_COST);
                found.rules.push(Cause::forbidden(at_rule, &detail));
            }
            self.costs.add(&at_rule, cost);
            if let Some(detail) = &compiled.mistake {
                found.rules.push(Cause::invalid(at_rule, rule_shown(*rule), detail));
            }
            if let Some(detail) = &compiled.message_mistake {
                found.rules.push(Cause::invalid(at_message, rule_shown(*rule), detail));
            } else if let Some(cost) = compiled.message_cost {
                if !self.ignores_cost && cost > MAX_RULE_COST {
                    let detail = too_expensive("estimated messageExpression cost", cost, MAX_RULE_COST);
                    found.rules.push(Cause::forbidden(at_message, &detail));
                }
                self.costs.add(&at_message, cost);
            }
            let source = rule.text("rule").unwrap_or_default();
            if compiled.uses_old_self {
                if let Some(within) = around.no_old_self {
                    let detail =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                    found.rules.push(Cause::invalid(at_rule, source, &detail));
                }
            } else if let Some(optional) = rule.get("optionalOldSelf").and_then(Value::as_bool) {
                let detail = "may not be set if oldSelf is not used in rule";
                found.rules.push(Cause::invalid(at.name("optionalOldSelf"), optional, detail));
            }
        }
    }
}

/// Whether a set's elements are shared between writers, which a set cannot have.
pub(super) fn has_shared_elements(schema: Props<'_>) -> bool {
    let Some(items) = schema.items().filter(|_| schema.list_type() == Some("set")) else { return false };
    match items.kind() {
        "array" => items.list_type().is_some_and(|kind| kind != "atomic"),
        "object" => items.map_type() != Some("atomic"),
        _ => false,
    }
}

fn list_keys(schema: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let keys = schema.texts("x-kubernetes-list-map-keys");
    let at_type = path.name("x-kubernetes-list-type");
    let at_keys = path.name("x-kubernetes-list-map-keys");
    let at_items = path.name("items");
    if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.list_type() {
            None => found.push(Cause::required(at_type, detail)),
            Some("map") => {}
            Some(other) => found.push(Cause::invalid(at_type, other, detail)),
        }
    }
    if schema.list_type() != Some("map") {
        return;
    }
    if keys.is_empty() {
        found.push(Cause::required(at_keys, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = match (schema.get("items"), schema.items()) {
        (None, _) => {
            found.push(Cause::required(at_items, "must have a schema if x-kubernetes-list-type is map"));
            return;
        }
        (Some(other), None) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            found.push(Cause::invalid(at_items, other, detail));
            return;
        }
        (_, Some(items)) => items,
    };
    if items.kind() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        found.push(Cause::invalid(at_items.name("type"), items.kind(), detail));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match items.property(key) {
            Some(property) if matches!(property.kind(), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = at_items.name("properties");
                found.push(Cause::invalid(at.key(key).name("type"), items.kind(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                found.push(Cause::invalid(at_keys, &json!(keys), detail));
            }
        }
        if keys[..index].contains(key) {
            found.push(Cause::invalid(at_keys, &json!(keys), "must not contain duplicate entries"));
        }
    }
}

/// Elements of sets and keyed lists must be there, and so must their keys.
pub(super) fn list_elements(schema: Props<'_>, path: &Path<'_>) -> Vec<Cause> {
    let mut found = Vec::new();
    let Some(items) = schema.items() else { return found };
    let Some(list_type @ ("set" | "map")) = schema.list_type() else { return found };
    let at_items = path.name("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        found.push(Cause::forbidden(at_items.name("nullable"), &detail));
    }
    if list_type != "map" {
        return found;
    }
    let required = items.texts("required");
    let at_properties = at_items.name("properties");
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else { continue };
        let at = at_properties.key(key);
        if !required.contains(&key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            found.push(Cause::required(at.name("default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            found.push(Cause::forbidden(at.name("nullable"), detail));
        }
    }
    found
}

/// Checks of a rule that need no compilation.
fn rule_texts(rule: Props<'_>, schema: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let text = |key: &str| rule.text(key).unwrap_or_default();
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (text("rule").trim(), text("message"));
    if source.is_empty() {
        found.push(Cause::required(path.name("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        found.push(Cause::invalid(path.name("message"), message, "must be non-empty if specified"));
    } else if has_lines(message.trim()) {
        found.push(Cause::invalid(path.name("message"), message, "must not contain line breaks"));
    } else if has_lines(source) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        found.push(Cause::required(path.name("message"), detail));
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        found.push(Cause::required(path.name("messageExpression"), detail));
    }
    if let Some(reason) = rule.text("reason").filter(|reason| !REASONS.contains(reason)) {
        found.push(Cause::not_supported(path.name("reason"), reason, &REASONS));
    }
    let field = text("fieldPath");
    let at = path.name("fieldPath");
    if !field.is_empty() && field.trim().is_empty() {
        found.push(Cause::invalid(at, field, "must be non-empty if specified"));
    }
    if has_lines(field) {
        found.push(Cause::invalid(at, field, "must not contain line breaks"));
    }
    if !field.is_empty() && super::structural::unreadable(schema).is_none() && follow(field, schema, true).is_err() {
        found.push(Cause::invalid(at, field, "must be a valid path"));
    }
}

/// A rule as the original's memory has it.
fn rule_shown(rule: Props<'_>) -> ShownValue {
    let mut out = String::from("{");
    for (name, key) in
        [("Rule", "rule"), ("Message", "message"), ("MessageExpression", "messageExpression"), ("Reason", "reason")]
    {
        out.push_str(&format!("\"{name}\":"));
        match rule.text(key) {
            None if key == "reason" => out.push_str("null"),
            text => wording::write_json_text(text.unwrap_or_default(), &mut out),
        }
        out.push(',');
    }
    out.push_str("\"FieldPath\":");
    wording::write_json_text(rule.text("fieldPath").unwrap_or_default(), &mut out);
    out.push_str(",\"OptionalOldSelf\":");
    let optional = rule.get("optionalOldSelf").and_then(Value::as_bool);
    out.push_str(optional.map_or("null", |optional| if optional { "true" } else { "false" }));
    out.push('}');
    ShownValue::raw(out)
}

pub(super) fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// How many values a value holds at most; none when there is no bound.
fn max_elements(schema: Props<'_>) -> Option<u64> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64).map(|bound| u64::try_from(bound).unwrap_or(0));
    match schema.kind() {
        "object" if schema.additional().is_some() => bound("maxProperties"),
        "array" => bound("maxItems"),
        _ => Some(1),
    }
}
