//! Definitions: which CustomResourceDefinitions the API serves, followed by one watch for all operators.
//!
//! A definition counts as served when it is established, serves the version that is asked for and is not being deleted.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Deserialize;
use tokio::sync::watch;

use crate::cache::Cache;

/// A definition that an operator needs, and the version that it reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredDefinition {
    pub name: String,
    pub version: String,
    /// Whether it is the operator's own, not another operator's whose objects it reads.
    pub is_own: bool,
}

impl RequiredDefinition {
    /// The definitions that an operator reads, of which these are its own.
    pub fn all(read: &[CustomResourceDefinition], own: &[CustomResourceDefinition]) -> Vec<RequiredDefinition> {
        let is_own = |name: &str| own.iter().any(|definition| definition.name_any() == name);
        let required = read.iter().map(RequiredDefinition::of);
        required.map(|required| RequiredDefinition { is_own: is_own(&required.name), ..required }).collect()
    }

    /// The storage version of a definition, which is the one its operator works with.
    fn of(definition: &CustomResourceDefinition) -> RequiredDefinition {
        let version = definition.spec.versions.iter().find(|version| version.storage);
        RequiredDefinition {
            name: definition.name_any(),
            version: version.map(|version| version.name.clone()).unwrap_or_default(),
            is_own: true,
        }
    }
}

/// A definition that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingDefinition {
    pub name: String,
    pub reason: MissingReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReason {
    NotFound,
    Terminating,
    NotEstablished,
    VersionNotServed(String),
}

impl fmt::Display for MissingDefinition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CustomResourceDefinition {} ", self.name)?;
        match &self.reason {
            MissingReason::NotFound => out.write_str("not found"),
            MissingReason::Terminating => out.write_str("is being deleted"),
            MissingReason::NotEstablished => out.write_str("is not established"),
            MissingReason::VersionNotServed(version) => write!(out, "does not serve version {version}"),
        }
    }
}

/// Whether none of the operator's own definitions is installed, or about to be removed. Then the cluster does not use the
/// operator; otherwise it has those of another release, or not yet all of this one.
pub fn are_absent(required: &[RequiredDefinition], missing: &[MissingDefinition]) -> bool {
    let is_absent = |required: &RequiredDefinition| {
        let found = missing.iter().find(|missing| missing.name == required.name);
        found.is_some_and(|found| matches!(found.reason, MissingReason::NotFound | MissingReason::Terminating))
    };
    required.iter().any(|required| required.is_own) && required.iter().filter(|required| required.is_own).all(is_absent)
}

/// A CustomResourceDefinition without its schemas, which can be megabytes.
#[derive(Clone, Debug, Deserialize)]
struct ServedDefinition {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ServedSpec,
    #[serde(default)]
    status: ServedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ServedSpec {
    #[serde(default)]
    versions: Vec<ServedVersion>,
}

#[derive(Clone, Debug, Deserialize)]
struct ServedVersion {
    name: String,
    #[serde(default)]
    served: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ServedStatus {
    #[serde(default)]
    conditions: Vec<ServedCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct ServedCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Resource for ServedDefinition {
    type DynamicType = ();
    type Scope = <CustomResourceDefinition as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The definitions of a cluster. Cloning shares them.
#[derive(Clone)]
pub struct Definitions {
    cache: Arc<Cache<ServedDefinition>>,
    /// Notified at every change.
    changes: watch::Receiver<()>,
}

impl Default for Definitions {
    fn default() -> Self {
        // An applied definition carries itself once more in an annotation.
        let cache = Arc::new(Cache::with_transform(|found: &mut ServedDefinition| found.metadata.annotations = None));
        let (sender, changes) = watch::channel(());
        cache.listen(move |_| sender.send_replace(()));
        Definitions { cache, changes }
    }
}

impl Definitions {
    /// Keeps them current for as long as it is polled.
    pub async fn run(&self, client: &Client) {
        Arc::clone(&self.cache).run(Api::all(client.clone()), watcher::Config::default()).await;
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        self.cache.synced().await;
    }

    /// Those of the required definitions that are not served.
    pub fn missing(&self, required: &[RequiredDefinition]) -> Vec<MissingDefinition> {
        let missing = |required: &RequiredDefinition| {
            let reason = self.missing_reason(required)?;
            Some(MissingDefinition { name: required.name.clone(), reason })
        };
        required.iter().filter_map(missing).collect()
    }

    /// Waits until what is missing differs from `known`, and returns it.
    pub async fn missing_changed(
        &self,
        required: &[RequiredDefinition],
        known: Option<&[MissingDefinition]>,
    ) -> Vec<MissingDefinition> {
        self.synced().await;
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            let missing = self.missing(required);
            if known != Some(missing.as_slice()) {
                return missing;
            }
            if changes.changed().await.is_err() {
                // The sender lives as long as the cache, which this value holds.
                return std::future::pending().await;
            }
        }
    }

    fn missing_reason(&self, required: &RequiredDefinition) -> Option<MissingReason> {
        let Some(found) = self.cache.named(&required.name) else { return Some(MissingReason::NotFound) };
        if found.metadata.deletion_timestamp.is_some() {
            return Some(MissingReason::Terminating);
        }
        if !found.status.conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
            return Some(MissingReason::NotEstablished);
        }
        let is_served = found.spec.versions.iter().any(|version| version.served && version.name == required.version);
        (!is_served).then(|| MissingReason::VersionNotServed(required.version.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use watcher::Event;

    use super::*;

    fn definition(name: &str, revision: u64, established: &str) -> ServedDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": revision.to_string()},
            "spec": {"group": "example.com", "versions": [{"name": "v1", "served": true, "schema": {}}]},
            "status": {"conditions": [{"type": "Established", "status": established}]},
        }))
        .unwrap()
    }

    fn listed(objects: Vec<ServedDefinition>) -> Definitions {
        let definitions = Definitions::default();
        definitions.cache.apply_event(Event::Init);
        objects.into_iter().for_each(|object| definitions.cache.apply_event(Event::InitApply(object)));
        definitions.cache.apply_event(Event::InitDone);
        definitions
    }

    fn required(name: &str, version: &str) -> RequiredDefinition {
        RequiredDefinition { name: name.to_owned(), version: version.to_owned(), is_own: true }
    }

    #[test]
    fn definition_that_is_absent_not_established_of_another_version_or_being_deleted_is_missing() {
        let mut ending = definition("d", 4, "True");
        ending.metadata.deletion_timestamp = serde_json::from_value(Value::from("2026-01-01T00:00:00Z")).unwrap();
        let definitions = listed(vec![definition("a", 1, "True"), definition("b", 2, "False"), ending]);
        let required = ["a", "b", "c", "d"].map(|name| required(name, "v1"));
        let missing: Vec<String> = definitions.missing(&required).iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "CustomResourceDefinition b is not established",
                "CustomResourceDefinition c not found",
                "CustomResourceDefinition d is being deleted",
            ]
        );
        let missing = definitions.missing(&[self::required("a", "v2")]);
        assert_eq!(missing[0].to_string(), "CustomResourceDefinition a does not serve version v2");
    }

    #[test]
    fn definitions_are_absent_if_none_is_installed() {
        let definitions = listed(vec![definition("a", 1, "True"), definition("b", 2, "False")]);
        let are_absent = |names: &[&str], version: &str| {
            let required: Vec<RequiredDefinition> = names.iter().map(|name| required(name, version)).collect();
            super::are_absent(&required, &definitions.missing(&required))
        };
        assert!(are_absent(&["c", "d"], "v1"));
        assert!(!are_absent(&["a", "c"], "v1"), "one more definition is needed than the cluster has");
        assert!(!are_absent(&["a"], "v2"), "another version is needed");
        assert!(!are_absent(&["b", "c"], "v1"), "not established yet");
        let others = |name: &str| RequiredDefinition { is_own: false, ..self::required(name, "v1") };
        let absent = |required: &[RequiredDefinition]| super::are_absent(required, &definitions.missing(required));
        assert!(absent(&[required("c", "v1"), others("a")]), "another operator is installed");
        assert!(!absent(&[required("a", "v1"), others("c")]), "the other operator is missing");
    }

    #[tokio::test]
    async fn change_of_what_is_missing_is_reported_once() {
        let definitions = listed(vec![]);
        let required = [required("a", "v1")];
        let missing = definitions.missing_changed(&required, None).await;
        assert_eq!(missing.len(), 1);
        let next = definitions.missing_changed(&required, Some(&missing));
        let mut next = std::pin::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        definitions.cache.apply_event(Event::Apply(definition("b", 1, "True")));
        assert!(futures::poll!(&mut next).is_pending(), "another definition");
        definitions.cache.apply_event(Event::Apply(definition("a", 2, "True")));
        assert_eq!(next.await, []);
    }
}
