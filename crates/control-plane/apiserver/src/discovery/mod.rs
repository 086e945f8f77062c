//! Discovery documents: the groups, versions and resources that are served.

mod endpoints;
pub mod openapi;
mod swagger;
mod version;

pub use endpoints::{not_found_page, serve};

use serde_json::{Value, json};

use crate::request::Verb;
use crate::resource::registry::Registry;
use crate::resource::{Resource, ServedSubresource, api_version};

/// The content type of aggregated discovery, exactly as clients compare it.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`: the versions of the core group.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// `/apis`: all named groups.
pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, _)| name.to_owned())
        .filter_map(|name| group_entry(registry, &name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: one group.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut entry = group_entry(registry, name)?;
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn group_entry(registry: &Registry, name: &str) -> Option<Value> {
    let versions = registry.versions(name)?;
    let entry = |version: &str| json!({"groupVersion": api_version(name, version), "version": version});
    let versions: Vec<Value> = versions.iter().map(|version| entry(version)).collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

/// `/api/v1` and `/apis/GROUP/VERSION`: the resources of one version.
pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let known = registry.versions(group)?.iter().any(|known| **known == *version);
    if !known {
        return None;
    }
    let mut list = Vec::new();
    for resource in registry.resources(group, version) {
        list.push(entry(resource));
        let mut subresources = resource.subresources();
        subresources.sort_by_key(|subresource| subresource.name);
        list.extend(subresources.iter().map(|subresource| subresource_entry(resource, subresource)));
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version), "resources": list,
    }))
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": *resource.plural, "singularName": *resource.singular, "namespaced": resource.is_namespaced,
        "kind": *resource.kind, "verbs": verbs(resource.verbs),
    });
    add_names(&mut entry, resource);
    entry
}

fn subresource_entry(resource: &Resource, subresource: &ServedSubresource) -> Value {
    let (group, version, kind) = &subresource.kind;
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
        "namespaced": resource.is_namespaced, "kind": **kind, "verbs": verbs(subresource.verbs),
    });
    if subresource.is_foreign {
        entry["group"] = (**group).into();
        entry["version"] = (**version).into();
    }
    entry
}

fn add_names(entry: &mut Value, resource: &Resource) {
    for (key, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            entry[key] = names.iter().map(|name| Value::from(&**name)).collect();
        }
    }
}

fn verbs(verbs: &[Verb]) -> Vec<&'static str> {
    let mut words: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    words.sort_unstable();
    words
}

/// Aggregated discovery of everything below `/api` or `/apis`.
pub fn aggregated(registry: &Registry, is_core: bool) -> Value {
    let groups = registry.groups().filter(|(name, _)| name.is_empty() == is_core);
    let items: Vec<Value> = groups
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = registry.resources(name, version);
                    let resources: Vec<Value> = resources.into_iter().map(|one| aggregated_resource(one)).collect();
                    json!({"version": **version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if is_core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource) -> Value {
    // For its own kinds the real server leaves group and version of the answer out: they are those of the path.
    let own = |group: &str, version: &str| match resource.is_custom() {
        true => (group.to_owned(), version.to_owned()),
        false => (String::new(), String::new()),
    };
    let (group, version) = own(&resource.group, &resource.version);
    let mut entry = json!({
        "resource": *resource.plural,
        "responseKind": {"group": group, "version": version, "kind": *resource.kind},
        "scope": if resource.is_namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": *resource.singular, "verbs": verbs(resource.verbs),
    });
    add_names(&mut entry, resource);
    let mut subresources = resource.subresources();
    subresources.sort_by_key(|subresource| subresource.name);
    if !subresources.is_empty() {
        let each = subresources.iter().map(|subresource| {
            let (group, version, kind) = &subresource.kind;
            let (group, version) = match subresource.is_foreign {
                true => (group.to_string(), version.to_string()),
                false => own(group, version),
            };
            json!({
                "subresource": subresource.name, "verbs": verbs(subresource.verbs),
                "responseKind": {"group": group, "version": version, "kind": **kind},
            })
        });
        entry["subresources"] = each.collect();
    }
    entry
}
