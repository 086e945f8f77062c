//! Objects of any kind, as manifests have them: what commands write on a user's behalf.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use serde_json::Value;

use crate::cluster::{Blocked, blocked};

/// Who applies, for the server.
const MANAGER: &str = "seaworthy";

/// Applies a manifest, whoever had its fields before.
///
/// # Errors
///
/// If it is none, or the cluster refuses it.
pub async fn apply(client: &Client, manifest: &Value) -> Result<(), Blocked> {
    let (api, name, what) = place(client, manifest)?;
    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch(&name, &params, &Patch::Apply(manifest)).await;
    applied.map(drop).map_err(|error| blocked(&format!("apply {what}"), &error))
}

/// Creates what a manifest describes, unless it is there already, however it looks.
///
/// # Errors
///
/// If it is none, or the cluster refuses it.
pub async fn create(client: &Client, manifest: &Value) -> Result<(), Blocked> {
    let (api, _, what) = place(client, manifest)?;
    let object: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(|error| Blocked(format!("{what}: {error}")))?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(|error| blocked(&format!("create {what}"), &error)),
    }
}

/// Deletes what a manifest describes; what is gone already is fine.
///
/// # Errors
///
/// If it is none, or the cluster refuses it.
pub async fn delete(client: &Client, manifest: &Value) -> Result<(), Blocked> {
    let (api, name, what) = place(client, manifest)?;
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        gone => gone.map(drop).map_err(|error| blocked(&format!("delete {what}"), &error)),
    }
}

/// Where an object is, its name, and what it is called in messages.
fn place(client: &Client, manifest: &Value) -> Result<(Api<DynamicObject>, String, String), Blocked> {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text("/apiVersion"), kind: text("/kind") };
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let what = format!("{} {name}", types.kind);
    let kind = GroupVersionKind::try_from(&types).map_err(|error| Blocked(format!("{what}: {error}")))?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    Ok((api, name, what))
}
