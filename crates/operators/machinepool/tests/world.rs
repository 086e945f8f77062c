//! World: a management cluster with the operator, and a workload cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use seaworthy_deploy::rule::rule;
use seaworthy_deploy::{Component, controllers_account};
use seaworthy_machinepool::MachinePoolOperator;
use seaworthy_runtime::operator::supervise;
use seaworthy_runtime::{
    Availability, Definitions, EnabledControllers, Leadership, Metrics, NAMESPACE, Operator, OperatorContext, install,
};
use seaworthy_testkit::Cluster;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::api::Api;

/// How long anything may take before a test gives up. Nothing waits for it to pass.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub struct World {
    pub management: Api,
    pub workload: Api,
    pub management_cluster: Cluster,
    pub workload_cluster: Cluster,
    pub metrics: Arc<Metrics>,
    operator: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

impl World {
    /// Two clusters with the definitions of Cluster API and of made-up providers, and the operator with the rights that it has in
    /// production.
    pub async fn start() -> World {
        let (management_cluster, workload_cluster) =
            tokio::join!(Cluster::start_listening(), Cluster::start_listening());
        let client = management_cluster.client();
        let management = Api::new(client.clone());
        let workload = Api::new(workload_cluster.client());
        let mut definitions = seaworthy_api::cluster::definitions();
        definitions.extend(provider_definitions());
        install::install(&client, &definitions, NAMESPACE).await.unwrap();
        grant(&management).await;
        let metrics = Arc::<Metrics>::default();
        let operator = run(acting(&management_cluster), &metrics);
        World { management, workload, management_cluster, workload_cluster, metrics, operator }
    }

    /// Stops the operator and starts it with an empty state.
    pub async fn restart(&mut self) {
        self.operator.abort();
        let _ = std::mem::replace(&mut self.operator, tokio::spawn(async {})).await;
        self.operator = run(acting(&self.management_cluster), &self.metrics);
    }

    /// What leads the operator to the workload cluster, as a Secret has it.
    pub fn kubeconfig(&self) -> String {
        encoded(self.workload_cluster.kubeconfig())
    }

    /// Waits until the object is as `is` says.
    pub async fn until(&self, reference: &Value, is: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        until(&self.management, reference, is).await
    }
}

/// Waits until the object on a server is as `is` says.
pub async fn until(api: &Api, reference: &Value, is: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
    let mut last = None;
    let met = async {
        loop {
            last = match api.get(reference).await {
                Ok(found) => Some(found),
                Err(refusal) if refusal.code == 404 => None,
                Err(refusal) => panic!("{refusal}"),
            };
            if is(last.as_ref()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_met = tokio::time::timeout(TEST_TIMEOUT, met).await.is_ok();
    assert!(is_met, "not as expected: {}", last.map_or_else(|| format!("no {reference}"), |last| format!("{last:#}")));
    last
}

/// Bytes as the data of a Secret.
pub fn encoded(kubeconfig: &Value) -> String {
    BASE64_STANDARD.encode(kubeconfig.to_string())
}

/// The folder of the recorded scenarios.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("golden")
}

fn provider_definitions() -> Vec<CustomResourceDefinition> {
    let text = std::fs::read_to_string(golden().join("crds.yaml")).unwrap();
    // Documents of JSON, the first one a comment.
    let documents = text.split("\n---\n").skip(1);
    documents.map(|document| serde_json::from_str(document).unwrap()).collect()
}

/// The rights of the controllers' account.
async fn grant(api: &Api) {
    let account = controllers_account(NAMESPACE);
    let mut rules = MachinePoolOperator.manifest(&account).cluster_rules;
    rules.push(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "watch"]));
    let name = Component::Controllers.name();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    });
    for object in [role, binding] {
        api.create(&object).await.unwrap();
    }
}

/// The controllers' own client.
pub fn acting(cluster: &Cluster) -> Client {
    let user = Component::Controllers.user(NAMESPACE).unwrap();
    cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}

fn run(client: Client, metrics: &Arc<Metrics>) -> JoinHandle<()> {
    let context = OperatorContext {
        client: client.clone(),
        leadership: Leadership::always(),
        metrics: Arc::clone(metrics),
        clock: Arc::new(Timestamp::now),
        build: "test".into(),
        namespace: NAMESPACE.into(),
    };
    let availability = Availability::new(["machinepool"], Arc::clone(metrics));
    let operator: Arc<dyn Operator> = Arc::new(MachinePoolOperator);
    tokio::spawn(async move {
        let definitions = Definitions::default();
        let supervised = supervise(&operator, &EnabledControllers::All, &context, &definitions, &availability);
        tokio::join!(definitions.run(&client), supervised);
    })
}
