//! Validation of the `spec` of a definition.

use std::collections::HashSet;

use seaworthy_values::names::{dns_1035_label, dns_subdomain};
use serde_json::{Map, Value};

use super::default_values::DefaultValues;
use super::field_path::follow;
use super::keywords::{Keywords, SchemaContext};
use super::props::Props;
use super::rule_costs::RuleCosts;
use super::shared::Shared;
use super::{Requirements, conversion, structural};
use crate::cause::{Cause, ShownValue};
use crate::document::Document;
use crate::embedded::kind_mistake;
use crate::path::Path;
use crate::wording;

/// How many selectable fields a version may have.
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Keywords allowed at the root of a schema with a status subresource, by their names in the original's Go struct.
const AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// How schemas are judged.
#[derive(Clone, Copy)]
struct SchemaChecks<'r> {
    requires: &'r Requirements,
    is_structural: bool,
}

/// Whether a schema uses what only a structural one can have.
fn needs_structure(schema: Props<'_>) -> bool {
    let extensions = [
        "default",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    extensions.into_iter().any(|key| schema.get(key).is_some())
}

pub(super) fn mistakes(spec: Props<'_>, requires: &Requirements, found: &mut Vec<Cause>) {
    let shared = Shared::of(spec);
    let path = Path::ROOT.name("spec");
    group(spec.text("group").unwrap_or_default(), found);
    one_of(&path.name("scope"), spec.text("scope").unwrap_or_default(), &["Cluster", "Namespaced"], found);

    let is_open = spec.flag("preserveUnknownFields");
    let has_default = |version: Props<'_>| {
        Shared::schema_of(version).is_some_and(|schema| schema.any(&|schema| schema.get("default").is_some()))
    };
    if is_open && spec.alternatives("versions").into_iter().any(has_default) {
        let detail = "must be false in order to use defaults in the schema";
        found.push(Cause::invalid(path.name("preserveUnknownFields"), true, detail));
    }
    // Only a definition that keeps unknown fields, and was not structural before, need not be.
    let uses_structure =
        |version: Props<'_>| Shared::schema_of(version).is_some_and(|schema| schema.any(&needs_structure));
    let is_structural =
        !is_open || requires.structural || spec.alternatives("versions").into_iter().any(uses_structure);
    let checks = SchemaChecks { requires, is_structural };
    let at_versions = path.name("versions");
    let versions: Vec<Props<'_>> = shared.versions.iter().map(Props).collect();
    let has_shared_schema = shared.schema.and_then(|schema| schema.get("openAPIV3Schema")).is_some();
    if !has_shared_schema {
        for (index, version) in versions.iter().enumerate() {
            let is_needed = requires.schema || (version.flag("served") && !is_open);
            if is_needed && Shared::schema_of(*version).is_none() {
                let at = at_versions.index(index);
                let detail = if requires.schema { "" } else { "because otherwise all fields are pruned" };
                found.push(Cause::required(at.name("schema.openAPIV3Schema"), detail));
            }
        }
    }
    version_list(&versions, &shared, checks, &at_versions, found);

    let names_of = spec.get("names").and_then(Props::of);
    let at_names = path.name("names");
    for key in ["plural", "singular", "kind", "listKind"] {
        if names_of.and_then(|names| names.text(key)).unwrap_or_default().is_empty() {
            found.push(Cause::required(at_names.name(key), ""));
        }
    }
    if let Some(all) = names_of {
        names(all, &at_names, found);
    }
    let has_status =
        |part: Option<&Value>| part.and_then(|part| part.get("status")).is_some_and(|status| !status.is_null());
    let any_status =
        has_status(shared.subresources) || versions.iter().any(|version| has_status(version.get("subresources")));
    let first = versions.first().and_then(|version| version.text("name")).unwrap_or_default();
    let ignores_cost = requires.unchanged_schemas.contains(first);
    schema(shared.schema, any_status, checks, ignores_cost, &path.name("validation"), found);
    subresources(shared.subresources, &path.name("subresources"), found);
    columns(shared.columns, &path.name("additionalPrinterColumns"), found);
    if let Some(fields) = shared.fields {
        let nothing = Map::new();
        let at = path.name("selectableFields");
        match shared.schema.and_then(|schema| Props::of(schema.get("openAPIV3Schema")?)) {
            None => found.push(Cause::invalid(at, "", "may only be set when validations.schema is included")),
            Some(schema) => {
                let unreadable = structural::unreadable(schema);
                // What cannot be read has no fields.
                let schema = if unreadable.is_some() { Props(&nothing) } else { schema };
                found.extend(unreadable.map(|detail| Cause::invalid(path.name("schema.openAPIV3Schema"), "", &detail)));
                selectable(fields, schema, requires.many_fields.contains(first), &at, found);
            }
        }
    }
    conversion::mistakes(spec, requires, &path.name("conversion"), found);
}

fn group(group: &str, found: &mut Vec<Cause>) {
    let broken = dns_subdomain(group);
    if group.is_empty() {
        found.push(Cause::required("spec.group", ""));
    } else if !broken.is_empty() {
        found.push(Cause::invalid("spec.group", group, &broken.join(",")));
    } else if !group.contains('.') {
        found.push(Cause::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

pub(super) fn one_of(path: &Path<'_>, value: &str, accepted: &[&str], found: &mut Vec<Cause>) {
    if value.is_empty() {
        found.push(Cause::required(path, ""));
    } else if !accepted.contains(&value) {
        found.push(Cause::not_supported(path, value, accepted));
    }
}

fn version_list(
    versions: &[Props<'_>],
    shared: &Shared<'_>,
    checks: SchemaChecks<'_>,
    path: &Path<'_>,
    found: &mut Vec<Cause>,
) {
    let requires = checks.requires;
    let mut names = HashSet::new();
    let mut is_unique = true;
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        let name = version.text("name").unwrap_or_default();
        is_unique &= names.insert(name);
        let broken = dns_1035_label(name);
        if !broken.is_empty() {
            found.push(Cause::invalid(at.name("name"), name, &broken.join(",")));
        }
        deprecation(*version, &at, found);
        let part = version.get("subresources").or(shared.subresources);
        let has_status = part.and_then(|part| part.get("status")).is_some_and(|status| !status.is_null());
        let ignores_cost = requires.unchanged_schemas.contains(name);
        schema(version.get("schema"), has_status, checks, ignores_cost, &at.name("schema"), found);
        subresources(version.get("subresources"), &at.name("subresources"), found);
        columns(version.get("additionalPrinterColumns"), &at.name("additionalPrinterColumns"), found);
        if let Some(fields) = version.get("selectableFields") {
            let nothing = Map::new();
            let at_schema = at.name("schema.openAPIV3Schema");
            let at = at.name("selectableFields");
            // A version's own schema: one that all share does not count here.
            match Shared::schema_of(*version) {
                None => {
                    let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                    found.push(Cause::invalid(at, "", detail));
                }
                Some(schema) => {
                    let unreadable = structural::unreadable(schema);
                    // What cannot be read has no fields.
                    let schema = if unreadable.is_some() { Props(&nothing) } else { schema };
                    found.extend(unreadable.map(|detail| Cause::invalid(at_schema, "", &detail)));
                    selectable(fields, schema, requires.many_fields.contains(name), &at, found);
                }
            }
        }
    }
    if !is_unique {
        found.push(Cause::invalid(path, versions_shown(versions), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.flag("storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        found.push(Cause::invalid(path, versions_shown(versions), detail));
    }
    // Before there were several versions there was one, and its name is still checked.
    if let Some(first) = versions.first().and_then(|version| version.text("name")).filter(|name| !name.is_empty()) {
        let broken = dns_1035_label(first);
        if !broken.is_empty() {
            found.push(Cause::invalid("spec.version", first, &broken.join(",")));
        }
    }
}

/// Versions as the original's memory has them. Differs: parts that versions do not share are shown as they were
/// written, because their form in memory is of no use to a reader.
fn versions_shown(versions: &[Props<'_>]) -> ShownValue {
    let null = Value::Null;
    let all: Vec<String> = versions
        .iter()
        .map(|version| {
            let part = |key: &str| wording::json(version.get(key).unwrap_or(&null));
            let mut name = String::new();
            wording::write_json_text(version.text("name").unwrap_or_default(), &mut name);
            format!(
                "{{\"Name\":{name},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\
                 \"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                version.flag("served"),
                version.flag("storage"),
                version.flag("deprecated"),
                part("deprecationWarning"),
                part("schema"),
                part("subresources"),
                part("additionalPrinterColumns"),
                part("selectableFields"),
            )
        })
        .collect();
    ShownValue::raw(if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) })
}

fn deprecation(version: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let Some(warning) = version.text("deprecationWarning") else { return };
    let shown = || ShownValue::raw(wording::json(&Value::from(warning)));
    let mut refuse = |detail: &str| found.push(Cause::invalid(path.name("deprecationWarning"), shown(), detail));
    if !version.flag("deprecated") {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !wording::is_printable(*c)) {
        refuse(&format!("must only contain printable UTF-8 characters; non-printable character found at index {at}"));
    }
}

/// One schema and all inside it.
fn schema(
    part: Option<&Value>,
    has_status: bool,
    checks: SchemaChecks<'_>,
    ignores_cost: bool,
    path: &Path<'_>,
    found: &mut Vec<Cause>,
) {
    let Some(json) = part.and_then(|part| part.get("openAPIV3Schema")) else { return };
    let Some(schema) = Props::of(json) else { return };
    let path = path.name("openAPIV3Schema");
    let before = found.len();
    if has_status {
        root_with_status(schema, &path, found);
    }
    if schema.flag("nullable") {
        found.push(Cause::forbidden(path.name("nullable"), "nullable cannot be true at the root"));
    }
    let SchemaChecks { requires, is_structural } = checks;
    let unreadable = structural::unreadable(schema).filter(|_| is_structural);
    let (document, root) = Document::of_custom_resource(json);
    let mut node = None;
    if is_structural && unreadable.is_none() {
        let mistakes = structural::mistakes(schema, &path);
        if mistakes.is_empty() {
            let mut defaults = DefaultValues::new(requires.pruned_defaults);
            defaults.check(document.at(root), &path);
            if defaults.found.is_empty() {
                node = Some(document.at(root));
            }
            found.extend(defaults.found);
        } else {
            found.extend(mistakes);
        }
    }
    let mut keywords = Keywords { requires, ignores_cost, costs: RuleCosts::default() };
    let around = SchemaContext {
        no_defaults: None,
        is_inside_metadata: false,
        no_old_self: None,
        is_root: true,
        cardinality: Some(1),
    };
    let mistakes = keywords.check(schema, node, &path, around);
    found.extend(mistakes.schema);
    found.extend(mistakes.rules);
    if let Some(sentence) = unreadable.filter(|_| found.len() == before) {
        found.push(Cause::invalid(path, "", &sentence));
    }
    found.extend(keywords.costs.mistakes(&path));
}

/// With a status apart, the root of a schema can say little.
fn root_with_status(schema: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let kind = schema.kind();
    if !kind.is_empty() && kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        found.push(Cause::invalid(path.name("type"), kind, detail));
        return;
    }
    let is_empty = |value: &Value| structural::is_nothing(value) && !value.is_object();
    let is_foreign = |key: &str| !AT_ROOT.iter().any(|(_, known)| *known == key);
    if schema.0.iter().any(|(key, value)| is_foreign(key) && !is_empty(value)) {
        let names: Vec<&str> = AT_ROOT.iter().map(|(name, _)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        found.push(Cause::invalid(path, &Value::Object(schema.0.clone()), &detail));
    }
}

pub(super) fn names(names: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    for key in ["plural", "singular"] {
        if let Some(name) = names.text(key).filter(|name| !name.is_empty()) {
            let broken = dns_1035_label(name);
            if !broken.is_empty() {
                found.push(Cause::invalid(path.name(key), name, &broken.join(",")));
            }
        }
    }
    for key in ["kind", "listKind"] {
        if let Some(name) = names.text(key).filter(|name| !name.is_empty())
            && let Some(detail) = kind_mistake(name)
        {
            found.push(Cause::invalid(path.name(key), name, &detail));
        }
    }
    for key in ["shortNames", "categories"] {
        let at = path.name(key);
        for (index, name) in names.texts(key).into_iter().enumerate() {
            let broken = dns_1035_label(name);
            if !broken.is_empty() {
                found.push(Cause::invalid(at.index(index), name, &broken.join(",")));
            }
        }
    }
    if let (Some(kind), Some(list)) = (names.text("kind"), names.text("listKind"))
        && !kind.is_empty()
        && kind == list
    {
        found.push(Cause::invalid(path.name("listKind"), list, "kind and listKind may not be the same"));
    }
}

fn simple_path(source: &str, path: &Path<'_>) -> Option<Cause> {
    (!source.starts_with('.')).then(|| Cause::invalid(path, source, "must be a simple json path starting with ."))
}

fn subresources(part: Option<&Value>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let Some(scale) = part.and_then(|part| Props::of(part.get("scale")?)) else { return };
    let at_scale = path.name("scale");
    for (key, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let at = at_scale.name(key);
        match scale.text(key).unwrap_or_default() {
            "" => found.push(Cause::required(at, "")),
            source => match simple_path(source, &at) {
                Some(mistake) => found.push(mistake),
                None if !source.starts_with(&format!("{under}.")) => {
                    found.push(Cause::invalid(at, source, &format!("should be a json path under {under}")));
                }
                None => {}
            },
        }
    }
    if let Some(source) = scale.text("labelSelectorPath").filter(|source| !source.is_empty()) {
        let at = at_scale.name("labelSelectorPath");
        if let Some(mistake) = simple_path(source, &at) {
            found.push(mistake);
        } else if ![".spec.", ".status."].iter().any(|start| source.starts_with(start)) {
            found.push(Cause::invalid(at, source, "should be a json path under either .spec or .status"));
        }
    }
}

fn columns(part: Option<&Value>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let columns = part.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, column) in columns.iter().filter_map(Props::of).enumerate() {
        let at = path.index(index);
        let text = |key: &str| column.text(key).unwrap_or_default();
        if text("name").is_empty() {
            found.push(Cause::required(at.name("name"), ""));
        }
        let kind = text("type");
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.is_empty() {
            found.push(Cause::required(at.name("type"), &types));
        } else if !COLUMN_TYPES.contains(&kind) {
            found.push(Cause::invalid(at.name("type"), kind, &types));
        }
        let format = text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            found.push(Cause::invalid(at.name("format"), format, &detail));
        }
        // The field is called jsonPath; the original writes it as it was called before.
        let at = at.name("JSONPath");
        match text("jsonPath") {
            "" => found.push(Cause::required(at, "")),
            source => found.extend(simple_path(source, &at)),
        }
    }
}

fn selectable(fields: &Value, schema: Props<'_>, may_be_many: bool, path: &Path<'_>, found: &mut Vec<Cause>) {
    let fields = fields.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index);
        let at = at.name("jsonPath");
        let source = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if source.is_empty() {
            found.push(Cause::required(at, ""));
            continue;
        }
        let place = match follow(source, schema, false) {
            Ok(place) => place,
            Err(mistake) => {
                found.push(Cause::invalid(at, source, &format!("is an invalid path: {mistake}")));
                continue;
            }
        };
        if place.root == "metadata" {
            found.push(Cause::invalid(at, source, "must not point to fields in metadata"));
        }
        if !matches!(place.schema.kind(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";
            found.push(Cause::invalid(at, source, detail));
        }
        if !seen.insert(place.text) {
            found.push(Cause::duplicate(at, source));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !may_be_many {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        found.push(Cause::too_many(path, count(seen.len()), count(MAX_SELECTABLE_FIELDS)));
    }
}
