//! OpenAPI paths of resources and their operations.

use serde_json::{Map, Value, json};

use super::{META, reference};

/// A resource of a group and version.
#[derive(Debug, Clone)]
pub struct ApiResource<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    /// The name in paths.
    pub plural: &'a str,
    pub kind: &'a str,
    /// Whether objects are in namespaces.
    pub is_namespaced: bool,
    /// What can be done, in the words of discovery: `get`, `list`, `create` …
    pub verbs: Vec<&'a str>,
    /// The name of the kind's schema.
    pub definition: String,
    /// The name of the schema of its list.
    pub list_definition: String,
    /// Whether it is a custom resource: those know no strategic merge patch.
    pub is_custom: bool,
    pub subresources: Vec<ApiSubresource<'a>>,
}

/// A subresource.
#[derive(Debug, Clone)]
pub struct ApiSubresource<'a> {
    /// The name in paths.
    pub name: &'a str,
    /// What can be done.
    pub verbs: Vec<&'a str>,
    /// Its kind: group, version and kind.
    pub kind: (&'a str, &'a str, &'a str),
    /// The name of its kind's schema.
    pub definition: String,
}

/// Parameters by name and type. Descriptions are short on purpose: they are the same for all.
const LIST: [(&str, &str, &str); 11] = [
    ("allowWatchBookmarks", "boolean", "Whether a watch may get bookmarks."),
    ("continue", "string", "Where an earlier list stopped."),
    ("fieldSelector", "string", "Only objects whose fields are like this."),
    ("labelSelector", "string", "Only objects whose labels are like this."),
    ("limit", "integer", "How many objects at most."),
    ("resourceVersion", "string", "The version to read at, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with what is there."),
    ("shardSelector", "string", "Only objects of this shard."),
    ("timeoutSeconds", "integer", "How long at most, in seconds."),
    ("watch", "boolean", "Whether to watch for changes."),
];
const GET: [(&str, &str, &str); 1] = [LIST[5]];
const WRITE: [(&str, &str, &str); 3] = [
    ("dryRun", "string", "All: do everything but store the result."),
    ("fieldManager", "string", "The name under which fields are owned."),
    ("fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."),
];
const PATCH: [(&str, &str, &str); 4] =
    [WRITE[0], WRITE[1], WRITE[2], ("force", "boolean", "Whether an apply takes fields from other owners.")];
const DELETE: [(&str, &str, &str); 5] = [
    WRITE[0],
    ("gracePeriodSeconds", "integer", "How long the object has to end, in seconds."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read is deleted all the same.",
    ),
    ("orphanDependents", "boolean", "Whether dependents stay; propagationPolicy says it better."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];
const PRETTY: (&str, &str, &str) = ("pretty", "string", "Whether the answer is indented.");

fn parameter((name, kind, description): (&str, &str, &str), place: &str) -> Value {
    let mut parameter =
        json!({"name": name, "in": place, "description": description, "schema": {"type": kind, "uniqueItems": true}});
    if place == "path" {
        parameter["required"] = json!(true);
    }
    parameter
}

fn parameters(all: &[(&str, &str, &str)]) -> Vec<Value> {
    all.iter().map(|one| parameter(*one, "query")).collect()
}

/// What is true of all operations of a resource.
struct Operations<'a> {
    resource: &'a ApiResource<'a>,
    /// `HarbourExampleComV1`.
    prefix: String,
    tag: String,
}

impl Operations<'_> {
    fn content(&self, types: &[&str], definition: &str) -> Value {
        let schema = json!({ "schema": reference(definition) });
        Value::Object(types.iter().map(|name| ((*name).to_owned(), schema.clone())).collect())
    }

    fn operation(&self, action: &str, id: String, query: &[(&str, &str, &str)], answer: &str, codes: &[&str]) -> Value {
        let resource = self.resource;
        let mut responses = Map::new();
        for code in codes {
            let meaning = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let content = self.content(&["application/json", "application/yaml"], answer);
            responses.insert((*code).to_owned(), json!({"description": meaning, "content": content}));
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "tags": [self.tag],
            "operationId": id,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind":
                {"group": resource.group, "version": resource.version, "kind": resource.kind},
        });
        if !query.is_empty() {
            operation["parameters"] = Value::Array(parameters(query));
        }
        operation
    }

    fn with_body(&self, mut operation: Value, types: &[&str], definition: &str, is_required: bool) -> Value {
        operation["requestBody"] = json!({ "content": self.content(types, definition) });
        if is_required {
            operation["requestBody"]["required"] = json!(true);
        }
        operation
    }

    /// `readHarbourExampleComV1NamespacedCraneStatus`.
    fn id(&self, verb: &str, infix: &str, suffix: &str) -> String {
        let scope = if self.resource.is_namespaced { "Namespaced" } else { "" };
        format!("{verb}{}{infix}{scope}{}{suffix}", self.prefix, self.resource.kind)
    }

    fn collection(&self) -> Map<String, Value> {
        let resource = self.resource;
        let has = |verb: &str| resource.verbs.contains(&verb);
        let both = ["application/json", "application/yaml"];
        let mut path = Map::new();
        if has("list") {
            let list = self.operation("list", self.id("list", "", ""), &LIST, &resource.list_definition, &["200"]);
            path.insert("get".to_owned(), list);
        }
        if has("create") {
            let codes = ["200", "201", "202"];
            let create = self.operation("post", self.id("create", "", ""), &WRITE, &resource.definition, &codes);
            path.insert("post".to_owned(), self.with_body(create, &both, &resource.definition, true));
        }
        if has("deletecollection") {
            let id = self.id("delete", "Collection", "");
            let status = format!("{META}.Status");
            path.insert("delete".to_owned(), self.operation("deletecollection", id, &LIST, &status, &["200"]));
        }
        path
    }

    fn item(
        &self,
        verbs: &[&str],
        definition: &str,
        suffix: &str,
        kind: Option<(&str, &str, &str)>,
    ) -> Map<String, Value> {
        let has = |verb: &str| verbs.contains(&verb);
        let both = ["application/json", "application/yaml"];
        let mut path = Map::new();
        if has("get") {
            let get = self.operation("get", self.id("read", "", suffix), &GET, definition, &["200"]);
            path.insert("get".to_owned(), get);
        }
        if has("update") {
            let update = self.operation("put", self.id("replace", "", suffix), &WRITE, definition, &["200", "201"]);
            path.insert("put".to_owned(), self.with_body(update, &both, definition, true));
        }
        if has("create") {
            let codes = ["200", "201", "202"];
            let create = self.operation("post", self.id("create", "", suffix), &WRITE, definition, &codes);
            path.insert("post".to_owned(), self.with_body(create, &both, definition, true));
        }
        if has("delete") {
            let status = format!("{META}.Status");
            let delete = self.operation("delete", self.id("delete", "", suffix), &DELETE, &status, &["200", "202"]);
            path.insert("delete".to_owned(), self.with_body(delete, &both, &format!("{META}.DeleteOptions"), false));
        }
        if has("patch") {
            let patch = self.operation("patch", self.id("patch", "", suffix), &PATCH, definition, &["200"]);
            let mut types =
                vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
            if !self.resource.is_custom {
                types.push("application/strategic-merge-patch+json");
            }
            path.insert("patch".to_owned(), self.with_body(patch, &types, &format!("{META}.Patch"), true));
        }
        if let Some((group, version, kind)) = kind {
            for operation in path.values_mut() {
                operation["x-kubernetes-group-version-kind"] =
                    json!({"group": group, "version": version, "kind": kind});
            }
        }
        path
    }
}

/// The paths of resources.
pub fn paths(resources: &[ApiResource<'_>]) -> Map<String, Value> {
    let mut all = Map::new();
    for resource in resources {
        let (group, version) = (resource.group, resource.version);
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        // The group of built-in kinds is called by its first name, that of custom resources by all of them.
        let words: String = match group {
            "" => "Core".to_owned(),
            group if resource.is_custom => group.split(['.', '-']).map(capital).collect(),
            group => capital(group.split('.').next().unwrap_or_default()),
        };
        let tag = words[..1].to_lowercase() + &words[1..];
        let operations =
            Operations { resource, prefix: format!("{words}{}", capital(version)), tag: format!("{tag}_{version}") };
        let place = |name: &str, what: &str| parameter((name, "string", what), "path");
        let namespace = || place("namespace", "The namespace of the object.");
        let name = || place("name", "The name of the object.");
        let pretty = parameter(PRETTY, "query");
        let scope = |with_name: bool| {
            let mut all = Vec::new();
            all.extend(with_name.then(name));
            all.extend(resource.is_namespaced.then(namespace));
            all.push(pretty.clone());
            all
        };
        let mut add = |path: String, mut methods: Map<String, Value>, parameters: Vec<Value>| {
            if !methods.is_empty() {
                methods.insert("parameters".to_owned(), Value::Array(parameters));
                all.insert(path, methods.into());
            }
        };
        let plural = resource.plural;
        let collection = if resource.is_namespaced {
            format!("{root}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        let item = format!("{collection}/{{name}}");
        add(collection, operations.collection(), scope(false));
        if resource.is_namespaced && resource.verbs.contains(&"list") {
            let id = format!("list{}{}ForAllNamespaces", operations.prefix, resource.kind);
            let list = operations.operation("list", id, &[], &resource.list_definition, &["200"]);
            let mut parameters = parameters(&LIST);
            parameters.insert(5, pretty.clone());
            add(format!("{root}/{plural}"), Map::from_iter([("get".to_owned(), list)]), parameters);
        }
        let on_item: Vec<&str> = resource.verbs.iter().copied().filter(|verb| *verb != "create").collect();
        add(item.clone(), operations.item(&on_item, &resource.definition, "", None), scope(true));
        for subresource in &resource.subresources {
            // The scale of a custom resource goes by the kind of the resource.
            let kind = (!resource.is_custom).then_some(subresource.kind);
            let methods =
                operations.item(&subresource.verbs, &subresource.definition, &capital(subresource.name), kind);
            add(format!("{item}/{}", subresource.name), methods, scope(true));
        }
    }
    all
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}
