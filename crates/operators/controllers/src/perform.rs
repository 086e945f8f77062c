//! Carries out the changes that `plan` asks for.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource;
use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::{
    MachineConfig, MachineConfigNode, MachineConfigNodeStatus, MachineConfigPool,
};
use seaworthy_plan::change::{Change, Event, Reference};
use seaworthy_plan::pool::Telling;
use seaworthy_runtime::applier::Written;
use seaworthy_runtime::{Applier, Cache, Events, Gravity, WriteError};
use serde::Deserialize;

use crate::caches::Caches;
use crate::machine::Machine;

/// How many nodes are written to at the same time.
const AT_ONCE: usize = 16;

/// Carries out changes one after the other, up to the first that fails.
pub async fn perform_in_order(applier: &Applier, caches: &Caches, changes: Vec<Change>) -> Result<(), WriteError> {
    for change in changes {
        one(applier, caches, change).await?;
    }
    Ok(())
}

/// Brings MachineConfigNodes to what they should say, several at the same time. One that fails keeps no other from being
/// told; the first failure is given back.
pub fn tell_all<'a>(
    applier: &'a Applier,
    caches: &'a Caches,
    tellings: Vec<Telling<'a>>,
) -> BoxFuture<'a, Result<(), WriteError>> {
    let told = stream::iter(tellings).map(|telling| tell_one(applier, caches, telling)).buffer_unordered(AT_ONCE);
    // Boxed here, where the compiler still knows the lifetimes that it needs to see that it can be sent.
    first_failure(told).boxed()
}

async fn tell_one(applier: &Applier, caches: &Caches, telling: Telling<'_>) -> Result<(), WriteError> {
    perform_in_order(applier, caches, telling.changes()).await
}

async fn first_failure(results: impl Stream<Item = Result<(), WriteError>>) -> Result<(), WriteError> {
    results.fold(Ok(()), |first, result| async { first.and(result) }).await
}

/// What has become of changes.
pub struct Performed {
    /// The first failure.
    pub result: Result<(), WriteError>,
    /// Kind and name of the objects that could not be changed as they were to be.
    failed: BTreeSet<Object>,
}

/// Kind, and name with the namespace before it where it has one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: &'static str,
    name: String,
}

impl Performed {
    /// Of these nodes those that were changed as they were to be.
    pub fn changed<'a>(&self, nodes: &[&'a str]) -> Vec<&'a str> {
        let has_failed = |node: &str| self.failed.contains(&Object { kind: "Node", name: node.to_owned() });
        nodes.iter().copied().filter(|node| !has_failed(node)).collect()
    }
}

/// Carries out changes: those of one object in their order, different objects at the same time. A change that fails keeps
/// no other object from being changed, and nothing from being told.
pub async fn perform(applier: &Applier, events: &Events, caches: &Caches, changes: Vec<Change>) -> Performed {
    let mut told = Vec::new();
    let mut objects: BTreeMap<Object, Vec<Change>> = BTreeMap::new();
    for change in changes {
        let object = match &change {
            Change::Emit { .. } => None,
            Change::Apply { object } | Change::ApplyStatus { object } => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                Some(Object { kind: "MachineConfigNode", name })
            }
            Change::Patch { object, .. } | Change::Delete { object } | Change::Evict { pod: object } => {
                let name = match &object.namespace {
                    Some(namespace) => format!("{namespace}/{}", object.name),
                    None => object.name.clone(),
                };
                Some(Object { kind: object.kind, name })
            }
        };
        match (object, change) {
            (None, Change::Emit { event }) => told.push(event),
            (None, _) => {}
            // With room for one: nearly every object is changed once, and there may be thousands.
            (Some(object), change) => match objects.entry(object) {
                Entry::Vacant(entry) => drop(entry.insert(vec![change])),
                Entry::Occupied(mut entry) => entry.get_mut().push(change),
            },
        }
    }
    let mut performed = stream::iter(objects)
        .map(|(object, changes)| perform_on(applier, caches, object, changes))
        .buffer_unordered(AT_ONCE);
    let (mut result, mut failed) = (Ok(()), BTreeSet::new());
    while let Some((object, outcome)) = performed.next().await {
        if outcome.is_err() {
            failed.insert(object);
        }
        result = result.and(outcome);
    }
    for event in told {
        tell(events, caches, &event).await;
    }
    Performed { result, failed }
}

async fn perform_on(
    applier: &Applier,
    caches: &Caches,
    object: Object,
    changes: Vec<Change>,
) -> (Object, Result<(), WriteError>) {
    (object, perform_in_order(applier, caches, changes).await)
}

async fn one(applier: &Applier, caches: &Caches, change: Change) -> Result<(), WriteError> {
    match change {
        // Written at the revision that was decided on, whatever the caches have learned since.
        Change::Patch { object, patch } if object.kind == "Node" => {
            let seen = Machine::referred(metadata(object));
            let patched = applier.patch(&seen, patch).await;
            written(&caches.nodes, or_anew(applier, &caches.nodes, &seen, patched).await)
        }
        Change::Patch { object, patch } if object.kind == "MachineConfigPool" => {
            let seen = MachineConfigPool { metadata: metadata(object), ..MachineConfigPool::default() };
            let patched = applier.patch(&seen, patch).await;
            written(&caches.pools, or_anew(applier, &caches.pools, &seen, patched).await)
        }
        Change::Evict { pod } => applier.evict(&Pod { metadata: metadata(pod), ..Pod::default() }).await,
        Change::Apply { object } => match serde_json::from_value::<MachineConfigNode>(object) {
            Ok(object) => written(&caches.machine_config_nodes, applier.apply(&object).await),
            Err(error) => unexpected(&error),
        },
        Change::ApplyStatus { object } => match serde_json::from_value::<Reported>(object) {
            Ok(Reported { metadata, status }) => {
                let object = MachineConfigNode { metadata, status: Some(status), ..MachineConfigNode::default() };
                written(&caches.machine_config_nodes, applier.apply_status(&object).await)
            }
            Err(error) => unexpected(&error),
        },
        Change::Delete { object } if object.kind == "MachineConfigNode" => {
            applier.delete(&MachineConfigNode { metadata: metadata(object), ..MachineConfigNode::default() }).await
        }
        // Decisions about pools and nodes ask for nothing else.
        change => unexpected(&format!("{change:?}")),
    }
}

/// A MachineConfigNode's status without the rest.
#[derive(Deserialize)]
struct Reported {
    metadata: ObjectMeta,
    status: MachineConfigNodeStatus,
}

fn metadata(object: Reference) -> ObjectMeta {
    ObjectMeta {
        name: Some(object.name),
        namespace: object.namespace,
        uid: object.uid,
        resource_version: object.resource_version,
        ..ObjectMeta::default()
    }
}

fn unexpected(what: &dyn std::fmt::Display) -> Result<(), WriteError> {
    tracing::error!(%what, "this change is not one that a pool needs");
    Ok(())
}

/// Reads an object anew that was written at an old revision. Whoever is overtaken sees less than others do; deciding on the
/// same again would be refused again, and meanwhile everything else that comes of it is written against theirs.
pub async fn or_anew<K: Written>(
    applier: &Applier,
    cache: &Cache<K>,
    object: &K,
    result: Result<K, WriteError>,
) -> Result<K, WriteError> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    if result.as_ref().is_err_and(WriteError::is_conflict)
        && let Ok(Some(found)) = applier.read::<K>(name).await
    {
        cache.wrote(found);
    }
    result
}

fn written<K: Resource>(cache: &Cache<K>, result: Result<K, WriteError>) -> Result<(), WriteError> {
    match result {
        Ok(object) => {
            cache.wrote(object);
            Ok(())
        }
        // It left meanwhile.
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Tells an event about a pool or a node.
pub async fn tell(events: &Events, caches: &Caches, event: &Event) {
    let gravity = if event.is_warning { Gravity::Warning } else { Gravity::Normal };
    let name = &event.about.name;
    let with = event.config.as_deref().map(rendered);
    match event.about.kind {
        "Node" => {
            if let Some(node) = caches.nodes.named(name) {
                events.tell_of(&*node, gravity, event.reason, with, event.message.clone()).await;
            }
        }
        _ => {
            if let Some(pool) = caches.pools.named(name) {
                events.tell_of(&*pool, gravity, event.reason, with, event.message.clone()).await;
            }
        }
    }
}

/// A rendered MachineConfig as an event refers to it.
pub fn rendered(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(MachineConfig::api_version(&()).into_owned()),
        kind: Some(MachineConfig::kind(&()).into_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use kube::api::PostParams;
    use seaworthy_testkit::Embedded;
    use serde_json::json;

    use super::*;
    use crate::context::Context;

    #[tokio::test(start_paused = true)]
    async fn conflict_of_one_node_keeps_no_other_from_its_order_nor_from_being_told() {
        let cluster = Embedded::start().await;
        let context = Context::new(cluster.client());
        let nodes: Api<Node> = Api::all(cluster.client());
        let mut changes = Vec::new();
        for name in ["w0", "w1"] {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let made = nodes.create(&PostParams::default(), &node).await.unwrap();
            let revision = made.metadata.resource_version.unwrap();
            let revision = if name == "w0" { "1".to_owned() } else { revision };
            let object = Reference {
                kind: "Node",
                name: name.to_owned(),
                uid: made.metadata.uid,
                resource_version: Some(revision),
                ..Reference::default()
            };
            let patch = json!({"metadata": {"annotations": {"seaworthy.dev/test": "ordered"}}});
            changes.push(Change::Patch { object, patch });
        }
        let performed = perform(&context.applier("test"), &context.events("test"), &context.caches, changes).await;
        assert!(performed.result.unwrap_err().is_conflict());
        let performed = Performed { result: Ok(()), ..performed };
        assert_eq!(performed.changed(&["w0", "w1"]), ["w1"]);
        let ordered = nodes.get("w1").await.unwrap().metadata.annotations.unwrap_or_default();
        assert_eq!(ordered["seaworthy.dev/test"], "ordered");
    }
}
