//! Owner: the pool belongs to its Cluster, and the objects that it refers to belong to the pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::cluster::label;
use seaworthy_change::{Change, ObjectRef};
use serde_json::{Map, Value, json};

use super::inputs::FoundObject;

/// The owners that a pool should have; `None` if it has them.
///
/// Differs: the reference to the Cluster is refreshed in its two fields, because upstream replaces it as a whole and so takes
/// from it what others have set.
pub fn pool_owners(pool: &MachinePool, cluster: &Cluster) -> Option<Vec<OwnerReference>> {
    let owners = pool.metadata.owner_references.clone().unwrap_or_default();
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let is_cluster = |owner: &OwnerReference| is_owner::<Cluster>(owner) && owner.name == name;
    let new = OwnerReference {
        api_version: Cluster::api_version(&()).into_owned(),
        kind: Cluster::kind(&()).into_owned(),
        name: name.clone(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let desired = refreshed(&owners, is_cluster, new, |_| {});
    (desired != owners).then_some(desired)
}

/// Who controls an object of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The pool, or it can.
    Pool,
    /// Another object, by kind and name.
    Another(String),
}

/// Who controls an object of a provider.
pub fn control(pool: &MachinePool, found: FoundObject<'_>) -> Control {
    let controller = owners(found.object).into_iter().find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) if !is_pool(pool, &owner) => Control::Another(format!("{} {}", owner.kind, owner.name)),
        _ => Control::Pool,
    }
}

/// The change that gives an object of a provider its owner and its label; `None` if it has them.
pub fn take(pool: &MachinePool, cluster_name: &str, found: FoundObject<'_>) -> Option<Change> {
    let current = owners(found.object);
    let new = OwnerReference { block_owner_deletion: Some(true), controller: Some(true), ..pool_reference(pool) };
    let controls = |owner: &mut OwnerReference| {
        owner.controller = Some(true);
        owner.block_owner_deletion = Some(true);
    };
    let desired = refreshed(&current, |owner| is_pool(pool, owner), new, controls);
    let mut metadata = Map::new();
    if desired != current {
        metadata.insert("ownerReferences".to_owned(), json!(desired));
    }
    let value = found.object.pointer("/metadata/labels").and_then(|labels| labels.get(label::CLUSTER_NAME.as_str()));
    if value.and_then(Value::as_str) != Some(cluster_name) {
        metadata.insert("labels".to_owned(), json!({ label::CLUSTER_NAME.as_str(): cluster_name }));
    }
    (!metadata.is_empty()).then(|| Change::patch(object_ref(found), json!({ "metadata": metadata })))
}

/// A reference to the pool, without control.
pub fn pool_reference(pool: &MachinePool) -> OwnerReference {
    OwnerReference {
        api_version: MachinePool::api_version(&()).into_owned(),
        kind: MachinePool::kind(&()).into_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

/// Whether an owner is this pool, or one of its name that was deleted since.
pub fn is_pool(pool: &MachinePool, owner: &OwnerReference) -> bool {
    is_owner::<MachinePool>(owner) && Some(&owner.name) == pool.metadata.name.as_ref()
}

/// An object of a provider in the state that it was seen in.
pub fn object_ref(found: FoundObject<'_>) -> ObjectRef {
    let text = |key: &str| {
        let value = found.object.get("metadata").and_then(|metadata| metadata.get(key));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    ObjectRef {
        resource: found.resource.clone(),
        namespace: text("namespace").filter(|_| found.resource.is_namespaced),
        name: text("name").unwrap_or_default(),
        uid: text("uid").filter(|uid| !uid.is_empty()),
        resource_version: text("resourceVersion"),
    }
}

/// Whether an object of a provider is being deleted.
pub fn is_deleting(found: FoundObject<'_>) -> bool {
    found.object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// The owners of an object of a provider. The API server has checked their form.
fn owners(object: &Value) -> Vec<OwnerReference> {
    let owners = object.pointer("/metadata/ownerReferences").cloned();
    owners.and_then(|owners| serde_json::from_value(owners).ok()).unwrap_or_default()
}

/// The owners with exactly one of an identity: the one that is there with version and uid as they are now, or a new one.
fn refreshed(
    owners: &[OwnerReference],
    is_it: impl Fn(&OwnerReference) -> bool,
    new: OwnerReference,
    amend: impl Fn(&mut OwnerReference),
) -> Vec<OwnerReference> {
    let mut desired: Vec<OwnerReference> = Vec::with_capacity(owners.len() + 1);
    let mut is_found = false;
    for owner in owners {
        if !is_it(owner) {
            desired.push(owner.clone());
        } else if !is_found {
            is_found = true;
            let mut kept =
                OwnerReference { api_version: new.api_version.clone(), uid: new.uid.clone(), ..owner.clone() };
            amend(&mut kept);
            desired.push(kept);
        }
    }
    if !is_found {
        desired.push(new);
    }
    desired
}
