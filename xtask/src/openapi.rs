//! `cargo xtask openapi`: trims Kubernetes' published API documents to the built-in kinds that we serve.
//!
//! - The result is data in `crates/control-plane/apiserver/data`, committed, so that a build needs nothing but the repository.
//! - Schemas lie in one file per group and version, one definition per line: a new release of Kubernetes is a readable
//!   diff. A definition that several groups use is in each of their files, as in the documents that clients ask for.
//! - What is reachable from a served kind is kept whole, with its descriptions, because `kubectl explain` shows them.
//!   Paths are not kept: they follow from the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::workspace::Workspace;

/// Where the data goes, from the root of the workspace.
pub const DATA: &str = "crates/control-plane/apiserver/data";
/// Where the documents are looked for, from the root of the workspace.
const SOURCE: &str = "../shared/data/kubernetes-openapi";

/// The resources that are served, by group and version.
pub const SERVED: [(&str, &str, &[&str]); 14] = [
    (
        "",
        "v1",
        &["configmaps", "endpoints", "events", "namespaces", "nodes", "pods", "secrets", "serviceaccounts", "services"],
    ),
    ("admissionregistration.k8s.io", "v1", &["validatingadmissionpolicies", "validatingadmissionpolicybindings"]),
    ("apiextensions.k8s.io", "v1", &["customresourcedefinitions"]),
    ("apps", "v1", &["daemonsets", "deployments"]),
    ("authentication.k8s.io", "v1", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        "v1",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
    ("batch", "v1", &["jobs"]),
    ("coordination.k8s.io", "v1", &["leases"]),
    ("discovery.k8s.io", "v1", &["endpointslices"]),
    ("events.k8s.io", "v1", &["events"]),
    ("node.k8s.io", "v1", &["runtimeclasses"]),
    ("policy", "v1", &["poddisruptionbudgets"]),
    ("rbac.authorization.k8s.io", "v1", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
    ("scheduling.k8s.io", "v1", &["priorityclasses"]),
];

/// Subresources that are served; the others stream, proxy or belong to controllers that we do not have.
const SUBRESOURCES: [&str; 6] = ["binding", "eviction", "finalize", "scale", "status", "token"];

/// Short names and categories of the core group. Its documents do not have them, and its discovery is not published.
const CORE_NAMES: [(&str, &[&str], &[&str]); 8] = [
    ("configmaps", &["cm"], &[]),
    ("endpoints", &["ep"], &[]),
    ("events", &["ev"], &[]),
    ("namespaces", &["ns"], &[]),
    ("nodes", &["no"], &[]),
    ("pods", &["po"], &["all"]),
    ("serviceaccounts", &["sa"], &[]),
    ("services", &["svc"], &["all"]),
];

/// Kinds that every group shares.
const SHARED_KINDS: [&str; 5] = ["APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// What `cargo xtask openapi` takes.
#[derive(Args)]
pub struct OpenapiArgs {
    /// The folder with the documents.
    #[arg(long)]
    source: Option<PathBuf>,
}

/// Writes the data again.
pub fn run(workspace: &Workspace, args: &OpenapiArgs) -> Result<bool> {
    let source = args.source.clone().unwrap_or_else(|| workspace.root.join(SOURCE));
    let data = workspace.root.join(DATA);
    fs::create_dir_all(&data).with_context(|| format!("cannot make the folder {}", data.display()))?;
    let files = trim(&source)?;
    for (name, text) in &files {
        let path = data.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{} files in {}", files.len(), data.display());
    Ok(true)
}

/// All files of the data, by their names below its folder.
fn trim(source: &Path) -> Result<BTreeMap<String, String>> {
    let aggregated = read(&source.join("aggregated_v2.json"))?;
    let mut files = BTreeMap::new();
    let mut groups = Vec::new();
    for (group, version, wanted) in SERVED {
        let is_core = group.is_empty();
        let name = if is_core { format!("api__{version}.json") } else { format!("apis__{group}__{version}.json") };
        let document = read(&source.join(name))?;
        let mut resources = if is_core {
            core_resources(&document, wanted)?
        } else {
            published_resources(&aggregated, group, version, wanted)?
        };
        resources.sort_by_key(|resource| resource["resource"].to_string());
        let kept = kept_schemas(&document, group, version, &resources)?;
        let lines = kept.iter().map(|(name, schema)| Ok(format!("{}:{}", json!(name), compact(schema)?)));
        let lines: Vec<String> = lines.collect::<Result<_>>()?;
        files.insert(document_name(group, version), format!("{{\n{}\n}}\n", lines.join(",\n")));
        groups.push(json!({"group": group, "version": version, "resources": resources}));
    }
    files.insert("discovery.json".to_owned(), discovery_text(&groups)?);
    Ok(files)
}

/// The file of a group's version below the folder of the data.
pub fn document_name(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api_{version}.json") } else { format!("apis_{group}_{version}.json") }
}

/// Reads a document.
pub fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// One line of JSON with sorted keys, whatever order the JSON library keeps.
pub fn compact(value: &Value) -> Result<String> {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let map: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, sorted(value))).collect();
                Value::Object(map.into_iter().map(|(key, value)| (key.clone(), value)).collect())
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    Ok(serde_json::to_string(&sorted(value))?)
}

fn discovery_text(groups: &[Value]) -> Result<String> {
    let mut out = String::from("[\n");
    for (index, group) in groups.iter().enumerate() {
        let resources = group["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines: Vec<String> = resources.iter().map(compact).collect::<Result<_>>()?;
        let (name, version) = (&group["group"], &group["version"]);
        out.push_str(&format!("{{\"group\":{name},\"version\":{version},\"resources\":[\n{}\n]}}", lines.join(",\n")));
        out.push_str(if index + 1 < groups.len() { ",\n" } else { "\n" });
    }
    out.push_str("]\n");
    Ok(out)
}

/// The resources of a group as its discovery has them.
fn published_resources(aggregated: &Value, group: &str, version: &str, wanted: &[&str]) -> Result<Vec<Value>> {
    let items = aggregated["items"].as_array().context("aggregated_v2.json has no items")?;
    let found = items.iter().find(|item| item["metadata"]["name"] == group);
    let versions = found.and_then(|item| item["versions"].as_array());
    let found = versions.and_then(|versions| versions.iter().find(|found| found["version"] == version));
    let resources = found.and_then(|version| version["resources"].as_array());
    let resources = resources.with_context(|| format!("aggregated_v2.json has no {group}/{version}"))?;
    wanted
        .iter()
        .map(|name| {
            let resource = resources.iter().find(|resource| resource["resource"] == *name);
            let mut resource = resource.with_context(|| format!("{group}/{version} has no {name}"))?.clone();
            if let Some(subresources) = resource.get_mut("subresources").and_then(Value::as_array_mut) {
                let is_served = |subresource: &Value| {
                    subresource["subresource"].as_str().is_some_and(|name| SUBRESOURCES.contains(&name))
                };
                subresources.retain(is_served);
            }
            Ok(resource)
        })
        .collect()
}

/// The resources of the core group, from its paths.
fn core_resources(document: &Value, wanted: &[&str]) -> Result<Vec<Value>> {
    let paths = document["paths"].as_object().context("api__v1.json has no paths")?;
    wanted.iter().map(|name| core_resource(paths, name)).collect()
}

fn core_resource(paths: &Map<String, Value>, name: &str) -> Result<Value> {
    let namespaced = format!("/api/v1/namespaces/{{namespace}}/{name}");
    let is_namespaced = paths.contains_key(&namespaced);
    let collection = if is_namespaced { namespaced } else { format!("/api/v1/{name}") };
    let item = format!("{collection}/{{name}}");
    let kind = |path: &str| -> Option<&Value> {
        let operations = paths.get(path)?.as_object()?;
        operations.values().find_map(|operation| operation.get("x-kubernetes-group-version-kind"))
    };
    let has = |path: &str, method: &str| paths.get(path).is_some_and(|path| path.get(method).is_some());
    let Some(own) = kind(&item).and_then(|kind| kind["kind"].as_str()) else {
        bail!("api__v1.json has no {item}: has {name} become something else?");
    };
    let verbs = |pairs: &[(&str, &str, &str)]| -> Vec<String> {
        let verbs = pairs.iter().filter(|(path, method, _)| has(path, method));
        verbs.map(|(_, _, verb)| (*verb).to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let mut subresources = Vec::new();
    for subresource in SUBRESOURCES {
        let path = format!("{item}/{subresource}");
        if !paths.contains_key(&path) {
            continue;
        }
        let response = kind(&path).cloned().unwrap_or_else(|| json!({"group": "", "kind": own, "version": "v1"}));
        // A kind of the group itself is written without group and version.
        let response = if response["group"] == "" {
            json!({"group": "", "kind": response["kind"], "version": ""})
        } else {
            response
        };
        let verbs = verbs(&[
            (&path, "get", "get"),
            (&path, "patch", "patch"),
            (&path, "put", "update"),
            (&path, "post", "create"),
        ]);
        subresources.push(json!({"subresource": subresource, "responseKind": response, "verbs": verbs}));
    }
    let mut resource = json!({
        "resource": name,
        "responseKind": {"group": "", "kind": own, "version": ""},
        "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": own.to_lowercase(),
        "verbs": verbs(&[
            (&collection, "post", "create"),
            (&item, "delete", "delete"),
            (&collection, "delete", "deletecollection"),
            (&item, "get", "get"),
            (&collection, "get", "list"),
            (&item, "patch", "patch"),
            (&item, "put", "update"),
            (&collection, "get", "watch"),
        ]),
    });
    if let Some((_, short, categories)) = CORE_NAMES.iter().find(|(resource, _, _)| *resource == name) {
        resource["shortNames"] = json!(short);
        if !categories.is_empty() {
            resource["categories"] = json!(categories);
        }
    }
    if !subresources.is_empty() {
        resource["subresources"] = Value::Array(subresources);
    }
    Ok(resource)
}

/// The schemas of the served kinds, of their lists and subresources, and of all they refer to.
fn kept_schemas<'d>(
    document: &'d Value,
    group: &str,
    version: &str,
    resources: &[Value],
) -> Result<BTreeMap<&'d str, &'d Value>> {
    let schemas = document["components"]["schemas"].as_object().context("a document has no schemas")?;
    let mut wanted: BTreeSet<(String, String, String)> = BTreeSet::new();
    for resource in resources {
        let subresources = resource["subresources"].as_array().map(Vec::as_slice).unwrap_or_default();
        for response in std::iter::once(resource).chain(subresources).map(|part| &part["responseKind"]) {
            let text = |key: &str| response[key].as_str().unwrap_or_default().to_owned();
            let is_own = text("version").is_empty();
            let (group, version) =
                if is_own { (group.to_owned(), version.to_owned()) } else { (text("group"), text("version")) };
            wanted.insert((group.clone(), version.clone(), format!("{}List", text("kind"))));
            wanted.insert((group, version, text("kind")));
        }
    }
    let is_wanted = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [only] = kinds else { return false };
        let text = |key: &str| only[key].as_str().unwrap_or_default().to_owned();
        wanted.contains(&(text("group"), text("version"), text("kind")))
    };
    let shared: Vec<String> = SHARED_KINDS.iter().map(|kind| format!("{META}.{kind}")).collect();
    let roots = schemas.iter().filter(|(name, schema)| is_wanted(schema) || shared.contains(name));
    let mut to_see: Vec<&str> = roots.map(|(name, _)| name.as_str()).collect();
    let mut kept = BTreeMap::new();
    while let Some(name) = to_see.pop() {
        if kept.contains_key(name) {
            continue;
        }
        let schema = schemas.get(name);
        let schema = schema.with_context(|| format!("{group}/{version} refers to {name}, which is not there"))?;
        kept.insert(name, schema);
        references(schema, &mut to_see);
    }
    Ok(kept)
}

fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
            found.extend(reference);
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn data_is_what_the_documents_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = root.join(SOURCE);
        if !source.is_dir() {
            eprintln!("skipped: {} is not there", source.display());
            return;
        }
        let files = trim(&source).unwrap();
        for (name, text) in &files {
            let committed = fs::read_to_string(root.join(DATA).join(name)).unwrap_or_default();
            assert!(committed == *text, "{name} is not what `cargo xtask openapi` makes");
        }
        let there = fs::read_dir(root.join(DATA)).unwrap().filter_map(Result::ok);
        let there = there.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"));
        let there = there.filter(|entry| entry.file_name() != crate::enums::FILE);
        assert_eq!(there.count(), files.len(), "a data file that no document gives");
    }
}
