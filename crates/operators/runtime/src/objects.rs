//! Objects: applies, creates and deletes manifests of any kind and patches objects, for commands. Controllers write with the
//! applier only.

use k8s_openapi::ClusterResourceScope;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::{ClusterError, call_error};

const FIELD_MANAGER: &str = "seaworthy";

/// Applies a manifest, and takes over its fields from other field managers.
///
/// # Errors
///
/// If it is no manifest, or the cluster refuses it.
pub async fn apply(client: &Client, manifest: &Value) -> Result<(), ClusterError> {
    let (api, name, what) = api_of(client, manifest)?;
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &params, &Patch::Apply(manifest)).await;
    applied.map(drop).map_err(|error| call_error(&format!("apply {what}"), &error))
}

/// Creates the object of a manifest, unless it exists in any form.
///
/// # Errors
///
/// If it is no manifest, or the cluster refuses it.
pub async fn create(client: &Client, manifest: &Value) -> Result<(), ClusterError> {
    let (api, _, what) = api_of(client, manifest)?;
    let object: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(|error| ClusterError(format!("{what}: {error}")))?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(|error| call_error(&format!("create {what}"), &error)),
    }
}

/// Deletes the object of a manifest, if it exists.
///
/// # Errors
///
/// If it is no manifest, or the cluster refuses it.
pub async fn delete(client: &Client, manifest: &Value) -> Result<(), ClusterError> {
    let (api, name, what) = api_of(client, manifest)?;
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        gone => gone.map(drop).map_err(|error| call_error(&format!("delete {what}"), &error)),
    }
}

/// Applies a merge patch to an object of the whole cluster.
///
/// # Errors
///
/// If the cluster refuses it.
pub async fn patch<K>(client: &Client, name: &str, patch: &Value) -> Result<K, ClusterError>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let patched = Api::<K>::all(client.clone()).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| call_error(&format!("patch {} {name}", K::kind(&())), &error))
}

/// The API of an object, its name, and its kind and name for messages.
fn api_of(client: &Client, manifest: &Value) -> Result<(Api<DynamicObject>, String, String), ClusterError> {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text("/apiVersion"), kind: text("/kind") };
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let what = format!("{} {name}", types.kind);
    let kind = GroupVersionKind::try_from(&types).map_err(|error| ClusterError(format!("{what}: {error}")))?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    Ok((api, name, what))
}
