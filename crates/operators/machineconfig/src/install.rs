//! What a cluster needs before the plane can run: definitions, a namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::{machineconfiguration, operator};

/// How long a definition may take to come into force.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a cluster is not ready.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Something could not be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// What.
        what: String,
        /// Why not.
        source: kube::Error,
    },
    /// A definition does not come into force.
    #[error("CustomResourceDefinition {name} does not come into force; see its conditions")]
    NotEstablished {
        /// The definition.
        name: String,
    },
}

/// Brings about that the cluster has the plane's definitions and its namespace.
///
/// # Errors
///
/// If they cannot be written, or do not come into force.
pub async fn install(client: &Client, namespace: &str) -> Result<(), InstallError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("seaworthy-install").force();
    let wanted: Vec<CustomResourceDefinition> =
        machineconfiguration::definitions().into_iter().chain(operator::definitions()).collect();
    for definition in &wanted {
        let name = definition.name_any();
        let written = definitions.patch(&name, &params, &Patch::Apply(definition)).await;
        written.map_err(|source| InstallError::Write { what: format!("CustomResourceDefinition {name}"), source })?;
    }
    for definition in &wanted {
        let name = definition.name_any();
        let established = await_condition(definitions.clone(), &name, conditions::is_crd_established());
        let is_established = tokio::time::timeout(PATIENCE, established).await.is_ok_and(|waited| waited.is_ok());
        if !is_established {
            return Err(InstallError::NotEstablished { name });
        }
    }
    self::namespace(client, namespace).await
}

/// Brings about that there is a namespace for what the plane itself keeps.
///
/// # Errors
///
/// If it is not there and cannot be made.
pub async fn namespace(client: &Client, name: &str) -> Result<(), InstallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let object = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let failed = |source| InstallError::Write { what: format!("Namespace {name}"), source };
    if api.get_opt(name).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(failed),
    }
}
