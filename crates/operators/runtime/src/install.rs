//! Installation of CustomResourceDefinitions, and of the namespace that operators store objects in.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};

/// How long a definition may take to be established.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// A label of definitions that Cluster API's own installer keeps current, with the conversion webhooks that belong to them. They are
/// left as they are: replacing them would break that installation.
const KEPT_BY_CLUSTER_API: &str = "cluster.x-k8s.io/provider";

/// Why an installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot read {what}: {source}")]
    Read { what: String, source: kube::Error },
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: kube::Error },
    #[error("CustomResourceDefinition {name} is not established; for its conditions, run: kubectl describe crd {name}")]
    NotEstablished { name: String },
}

/// Applies definitions, except those that Cluster API's installer keeps, waits until they are established, and creates the namespace.
///
/// # Errors
///
/// If they cannot be written, or are not established in time.
pub async fn install(
    client: &Client,
    wanted: &[CustomResourceDefinition],
    namespace: &str,
) -> Result<(), InstallError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("seaworthy-install").force();
    for definition in wanted {
        let name = definition.name_any();
        let what = format!("CustomResourceDefinition {name}");
        let found = definitions.get_metadata_opt(&name).await;
        let found = found.map_err(|source| InstallError::Read { what: what.clone(), source })?;
        if found.is_some_and(|found| found.labels().contains_key(KEPT_BY_CLUSTER_API)) {
            tracing::info!(name, "definition is kept by Cluster API's installer; not applied");
            continue;
        }
        let written = definitions.patch(&name, &params, &Patch::Apply(definition)).await;
        written.map_err(|source| InstallError::Write { what, source })?;
    }
    for definition in wanted {
        let name = definition.name_any();
        let established = await_condition(definitions.clone(), &name, conditions::is_crd_established());
        let is_established =
            tokio::time::timeout(ESTABLISH_TIMEOUT, established).await.is_ok_and(|waited| waited.is_ok());
        if !is_established {
            return Err(InstallError::NotEstablished { name });
        }
    }
    self::namespace(client, namespace).await
}

/// Creates the namespace, unless it exists.
///
/// # Errors
///
/// If it does not exist and cannot be created.
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
