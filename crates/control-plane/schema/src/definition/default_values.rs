//! Validation of the defaults in a schema.

use serde_json::{Value, json};

use super::props::Props;
use crate::cause::{Cause, summary};
use crate::document::Schema;
use crate::embedded::embedded_at;
use crate::path::Path;
use crate::prune::Pruning;
use crate::rules::{self, RuleBudget};
use crate::validation::validate_default;

/// A step from an embedded resource into its metadata.
#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Element,
}

/// Judges all defaults. Keys of maps have none that could be judged.
pub(super) struct DefaultValues<'a> {
    pub(super) needs_pruned: bool,
    pub(super) budget: RuleBudget,
    pub(super) found: Vec<Cause>,
    /// The way from the resource around, inside its metadata.
    steps: Vec<Step<'a>>,
}

impl<'a> DefaultValues<'a> {
    pub(super) fn new(needs_pruned: bool) -> DefaultValues<'a> {
        DefaultValues { needs_pruned, budget: RuleBudget::full(), found: Vec::new(), steps: Vec::new() }
    }

    pub(super) fn check(&mut self, root: Schema<'a>, path: &Path<'_>) {
        self.walk(root, root, path, false, true);
    }

    fn walk(&mut self, schema: Schema<'a>, resource: Schema<'a>, path: &Path<'_>, in_metadata: bool, is_root: bool) {
        let (mut resource, mut in_metadata) = (resource, in_metadata);
        let is_resource = is_root || schema.is_embedded;
        let steps = if is_resource { std::mem::take(&mut self.steps) } else { Vec::new() };
        if is_resource {
            (resource, in_metadata) = (schema, false);
        }
        if let Some(default) = &schema.node().default {
            if in_metadata {
                self.in_metadata(schema, default, resource, &path.name("default"));
            } else {
                self.default(schema, default, &path.name("default"), is_resource);
            }
        }
        if let Some(items) = schema.items() {
            self.steps.push(Step::Element);
            self.walk(items, resource, &path.name("items"), in_metadata, false);
            self.steps.pop();
        }
        let at = path.name("properties");
        for (name, property) in schema.properties() {
            let is_head = is_resource && matches!(name, "metadata" | "apiVersion" | "kind");
            self.steps.push(Step::Field(name));
            self.walk(property, resource, &at.key(name), in_metadata || is_head, false);
            self.steps.pop();
        }
        if is_resource {
            self.steps = steps;
        }
    }

    fn in_metadata(&mut self, schema: Schema<'_>, default: &Value, resource: Schema<'_>, path: &Path<'_>) {
        let mistakes = embedded_at(resource, &self.surrounded(default), &Path::ROOT, true);
        if mistakes.is_empty() {
            self.by_schema(schema, default, path);
        } else {
            let detail = format!("must result in valid metadata: {}", summary(&mistakes));
            self.found.push(Cause::invalid(path, default, &detail));
        }
    }

    fn default(&mut self, schema: Schema<'_>, default: &Value, path: &Path<'_>, is_resource: bool) {
        if self.needs_pruned && !is_pruned(schema, default, is_resource) {
            self.found.push(Cause::invalid(path, default, "must not have unknown fields"));
        }
        let mistakes = embedded_at(schema, default, path, is_resource);
        if mistakes.is_empty() {
            self.by_schema(schema, default, path);
        } else {
            self.found.extend(mistakes);
        }
    }

    fn by_schema(&mut self, schema: Schema<'_>, default: &Value, path: &Path<'_>) {
        let mistakes = validate_default(schema, default, &path.to_string());
        if !mistakes.is_empty() {
            self.found.extend(mistakes);
            return;
        }
        // A default may take the place of itself, and of nothing.
        for old in [Some(default), None] {
            let mistakes = rules::check(schema, default, old, path, &mut self.budget);
            if !mistakes.is_empty() {
                self.found.extend(mistakes);
                break;
            }
        }
    }

    /// The least resource that has the default in its metadata.
    fn surrounded(&self, default: &Value) -> Value {
        let mut value = default.clone();
        for step in self.steps.iter().rev() {
            value = match step {
                Step::Field(name) => json!({*name: value}),
                Step::Element => json!([value]),
            };
        }
        if let Some(object) = value.as_object_mut() {
            object.entry("apiVersion").or_insert_with(|| json!("validation/v1"));
            object.entry("kind").or_insert_with(|| json!("Validation"));
        }
        value
    }
}

fn is_pruned(schema: Schema<'_>, default: &Value, is_resource: bool) -> bool {
    let mut pruned = default.clone();
    let pruning = Pruning::default();
    let dropped = if is_resource { pruning.object(schema, &mut pruned) } else { pruning.value(schema, &mut pruned) };
    dropped.is_empty()
}

/// Whether no default of a schema has unknown fields.
pub(super) fn are_pruned(schema: Props<'_>) -> bool {
    let (document, root) = crate::document::Document::of_custom_resource(&Value::Object(schema.0.clone()));
    let mut to_see = vec![document.at(root)];
    while let Some(schema) = to_see.pop() {
        if schema.node().default.as_ref().is_some_and(|default| !is_pruned(schema, default, schema.is_embedded)) {
            return false;
        }
        to_see.extend(schema.items());
        to_see.extend(schema.properties().map(|(_, property)| property));
        to_see.extend(schema.additional());
    }
    true
}
