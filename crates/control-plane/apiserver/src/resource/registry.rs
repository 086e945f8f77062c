//! Registry of served resources, by group, version and plural name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::builtin::{self, KINDS};
use crate::discovery::openapi;
use crate::object::Object;
use crate::resource::version_set::VersionSet;
use crate::resource::{Origin, Resource};

/// All served resources. Immutable: a changed definition creates a new registry, and running requests keep theirs.
#[derive(Default)]
pub struct Registry {
    by_resource: HashMap<GroupVersionResource, Arc<Resource>>,
    /// By `apiVersion`, then by kind, as owner references name them.
    by_kind: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Resource>>>,
    /// All resources with the same storage, the preferred version first.
    by_storage: HashMap<Arc<str>, Vec<Arc<Resource>>>,
    groups: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The index of OpenAPI documents. It has a hash of each, so building it means building all of them.
    openapi_index: OnceLock<Bytes>,
}

#[derive(PartialEq, Eq, Hash)]
struct GroupVersionResource {
    group: Arc<str>,
    version: Arc<str>,
    plural: Arc<str>,
}

impl Registry {
    /// The built-in kinds and these custom ones, but for those that take the place of a built-in kind.
    pub fn with(custom: impl IntoIterator<Item = Arc<Resource>>) -> Registry {
        let mut registry = Registry::default();
        let built_in = KINDS.iter().map(|kind| Arc::new(Resource::built_in(kind)));
        // The built-in kinds come first, so that each custom one is compared with all of them.
        for resource in built_in.chain(custom) {
            if !registry.takes_built_in_place(&resource) {
                registry.add(resource);
            }
        }
        for versions in registry.groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
        }
        registry
    }

    /// Whether a custom resource would be served in place of a built-in kind, or on its objects.
    ///
    /// Its writes would skip the validation and the admission of the built-in kind, such as the check for privilege
    /// escalation. New definitions of this form are never established, but a data folder of an older version of this
    /// program may have one that is, and `status` can be written by clients.
    fn takes_built_in_place(&self, resource: &Resource) -> bool {
        resource.is_custom()
            && (self.is_built_in_storage(&resource.storage) || builtin::is_built_in(&resource.group, &resource.plural))
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let versions = self.groups.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
        let key = GroupVersionResource {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
        };
        let versions = self.by_storage.entry(resource.storage.clone()).or_default();
        let order = version_order(&resource.version);
        let at = versions.iter().position(|other| version_order(&other.version) < order).unwrap_or(versions.len());
        versions.insert(at, resource.clone());
        let kinds = self.by_kind.entry(resource.api_version.clone()).or_default();
        kinds.entry(resource.kind.clone()).or_insert_with(|| resource.clone());
        self.by_resource.insert(key, resource);
    }

    /// The resource of a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = GroupVersionResource { group: group.into(), version: version.into(), plural: plural.into() };
        self.by_resource.get(&key)
    }

    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.by_kind.get(api_version)?.get(kind)
    }

    /// `/openapi/v3`, built once: it takes every document, and each start of kubectl requests it.
    pub fn openapi_index(&self) -> Bytes {
        self.openapi_index.get_or_init(|| openapi::index(self).to_string().into()).clone()
    }

    /// The groups and their versions, best first.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.groups.iter().map(|(group, versions)| (&**group, versions.as_slice()))
    }

    /// The versions of a group, best first; none if there is no such group.
    pub fn versions(&self, group: &str) -> Option<&[Arc<str>]> {
        self.groups.get(group).map(Vec::as_slice)
    }

    /// The resources of one version of a group, by plural.
    pub fn resources(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        let all = self.by_resource.values();
        let mut found: Vec<_> =
            all.filter(|resource| *resource.group == *group && *resource.version == *version).collect();
        found.sort_by(|a, b| a.plural.cmp(&b.plural));
        found
    }

    /// The resource of a storage, in its preferred version.
    pub fn of_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        self.versions_in_storage(storage).first()
    }

    /// All resources of a storage: the versions of a kind.
    pub fn versions_in_storage(&self, storage: &str) -> &[Arc<Resource>] {
        self.by_storage.get(storage).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the storage has the objects of a built-in kind.
    pub fn is_built_in_storage(&self, storage: &str) -> bool {
        self.versions_in_storage(storage).iter().any(|resource| !resource.is_custom())
    }

    /// The selectable fields of a storage, in any version.
    pub fn selectable(&self, storage: &str) -> BTreeSet<&str> {
        self.versions_in_storage(storage).iter().flat_map(|resource| resource.selectable_labels()).collect()
    }

    /// Whether the group has built-in kinds.
    pub fn has_built_in(&self, group: &str) -> bool {
        self.by_resource.values().any(|resource| *resource.group == *group && !resource.is_custom())
    }

    /// The present versions of a definition; none if it is not served.
    pub fn version_set(&self, definition: &Object) -> Option<&VersionSet> {
        let spec = definition.get("spec")?;
        let storage = format!("{}/{}", spec.get("group")?.as_str()?, spec.pointer("/names/plural")?.as_str()?);
        match &self.of_storage(&storage)?.origin {
            Origin::Custom(custom) => Some(&custom.versions),
            Origin::BuiltIn(_) => None,
        }
    }

    /// All resources, each in its preferred version.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_storage.values().filter_map(|versions| versions.first())
    }
}

/// Order of versions: stable before beta before alpha, higher numbers first, others last and in alphabetical order.
pub fn version_order(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let parsed = (|| {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse::<u32>().ok()?;
        match &rest[end..] {
            "" => Some((3, major, 0)),
            tail => {
                let (rank, number) = tail
                    .strip_prefix("beta")
                    .map(|number| (2, number))
                    .or_else(|| tail.strip_prefix("alpha").map(|number| (1, number)))?;
                Some((rank, major, number.parse().ok()?))
            }
        }
    })();
    match parsed {
        Some((rank, major, minor)) => (rank, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::resource::custom;

    #[test]
    fn versions_are_ordered_by_how_stable_and_how_new_they_are() {
        let mut versions =
            ["v1alpha1", "foo10", "v11beta2", "v10", "v2", "v3beta1", "v1", "foo1", "v10beta3", "v12alpha1"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn built_in_kinds_are_found_by_place_and_by_kind() {
        let registry = Registry::with([]);
        assert_eq!(&*registry.find("", "v1", "configmaps").unwrap().kind, "ConfigMap");
        assert_eq!(&*registry.of_kind("v1", "Secret").unwrap().plural, "secrets");
        assert!(registry.find("", "v2", "configmaps").is_none());
    }

    #[rstest]
    #[case::version_of_a_built_in_kind("rbac.authorization.k8s.io", "clusterroles", "v1")]
    #[case::other_version("rbac.authorization.k8s.io", "clusterroles", "v9")]
    #[case::kind_that_is_stored_as_another("events.k8s.io", "events", "v9")]
    #[case::storage_of_the_core_group("core", "secrets", "v1")]
    fn custom_kind_takes_no_place_of_a_built_in_one(#[case] group: &str, #[case] plural: &str, #[case] version: &str) {
        let registry = Registry::with(definition(group, plural, version));
        assert!(registry.stored().all(|resource| !resource.is_custom()));
        assert!(registry.find(group, version, plural).is_none_or(|resource| !resource.is_custom()));
        assert!(registry.versions(group).unwrap_or_default().iter().all(|known| &**known == "v1"));
    }

    #[test]
    fn custom_kind_with_a_name_of_its_own_is_served_in_a_built_in_group() {
        let registry = Registry::with(definition("rbac.authorization.k8s.io", "grants", "v1"));
        assert!(registry.find("rbac.authorization.k8s.io", "v1", "grants").unwrap().is_custom());
    }

    fn definition(group: &str, plural: &str, version: &str) -> Vec<Arc<Resource>> {
        let versions = json!([{"name": version, "served": true, "storage": true}]);
        let definition = json!({"spec": {"group": group, "names": {"plural": plural, "kind": "Sneak"},
            "versions": versions}});
        custom::resources(definition.as_object().unwrap(), 1, 1, None)
    }
}
