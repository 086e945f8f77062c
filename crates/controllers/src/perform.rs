//! Carries out the changes that `plan` asks for.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::ObjectMeta;
use seaworthy_plan::change::{Change, Event};
use seaworthy_runtime::{Applier, Cache, Events, Gravity, WriteError};

use crate::caches::Caches;

/// How many nodes are written to at the same time.
const AT_ONCE: usize = 16;

/// Carries out changes of nodes, many at once, and tells of them. A change that fails keeps no other from being made; the
/// first failure is given back.
pub async fn perform(
    applier: &Applier,
    events: &Events,
    caches: &Caches,
    changes: Vec<Change>,
) -> Result<(), WriteError> {
    let mut told = Vec::new();
    let mut writes = Vec::new();
    for change in changes {
        match change {
            Change::Emit { event } => told.push(event),
            change => writes.push(change),
        }
    }
    let results: Vec<Result<(), WriteError>> =
        stream::iter(writes).map(|change| one(applier, caches, change)).buffer_unordered(AT_ONCE).collect().await;
    let failed = results.into_iter().find_map(Result::err);
    if failed.is_none() {
        for event in told {
            tell(events, caches, &event).await;
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn one(applier: &Applier, caches: &Caches, change: Change) -> Result<(), WriteError> {
    match change {
        Change::Patch { object, patch } if object.kind == "Node" => {
            // Written at the revision that was decided on, whatever the cache has learned since.
            let metadata = ObjectMeta {
                name: Some(object.name),
                resource_version: object.resource_version,
                ..ObjectMeta::default()
            };
            let seen = Node { metadata, ..Node::default() };
            written(&caches.nodes, applier.patch(&seen, patch).await)
        }
        Change::Evict { pod } => {
            let metadata =
                ObjectMeta { name: Some(pod.name), namespace: pod.namespace, uid: pod.uid, ..ObjectMeta::default() };
            applier.evict(&Pod { metadata, ..Pod::default() }).await
        }
        // Decisions about nodes ask for nothing else.
        change => {
            tracing::error!(?change, "this change is not one that nodes need");
            Ok(())
        }
    }
}

fn written(cache: &Arc<Cache<Node>>, result: Result<Node, WriteError>) -> Result<(), WriteError> {
    match result {
        Ok(node) => {
            cache.wrote(node);
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
    match event.about.kind {
        "Node" => {
            if let Some(node) = caches.nodes.named(name) {
                events.tell(&*node, gravity, event.reason, event.message.clone()).await;
            }
        }
        _ => {
            if let Some(pool) = caches.pools.named(name) {
                events.tell(&*pool, gravity, event.reason, event.message.clone()).await;
            }
        }
    }
}
