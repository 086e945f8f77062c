//! What has to be in a cluster for Seaworthy to run there, as manifests: definitions, rights, policies, workloads.
//!
//! - [`objects`] gives them in an order in which `kubectl apply` can take them.
//! - Each component has a user of its own with the rights that its code uses ([`rights`]); the scenarios of the controllers
//!   run with these and no others, and a test tries what must be refused.
//! - Nodes act as themselves, with the kubelet's credentials; [`policy`] keeps each to its own objects.

pub mod component;
mod operator_manifest;
pub mod policy;
pub mod rights;
pub mod rule;
pub mod workload;

use serde_json::{Value, json};

pub use component::Component;
pub use operator_manifest::{Account, OperatorManifest};

/// The account of the controllers in a namespace.
pub fn controllers_account(namespace: &str) -> Account {
    let user = Component::Controllers.user(namespace).unwrap_or_default();
    Account { namespace: namespace.to_owned(), user }
}

/// How Seaworthy is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of everything that is in one.
    pub namespace: String,
    /// The image with the program.
    pub image: String,
    /// Where new machines find the API server. Without it the endpoint cannot be deployed.
    pub apiserver_url: Option<String>,
    /// Where the kubelet's credentials are on each node.
    pub node_kubeconfig: String,
    /// What is deployed.
    pub components: Vec<Component>,
}

impl Settings {
    /// The components that can be deployed with these settings.
    pub fn deployed(&self) -> impl Iterator<Item = Component> {
        self.components.iter().copied().filter(|one| *one != Component::Server || self.apiserver_url.is_some())
    }
}

/// All manifests, in the order in which they can be applied.
pub fn objects(settings: &Settings, operators: &[OperatorManifest]) -> Vec<Value> {
    let mut objects = vec![namespace(settings)];
    let definitions = operators.iter().flat_map(|operator| &operator.definitions);
    // A definition is made of strings, numbers and maps with string keys: it always has a JSON form.
    objects.extend(definitions.filter_map(|definition| serde_json::to_value(definition).ok()));
    for component in settings.deployed() {
        objects.extend(rights::of(component, &settings.namespace, operators));
    }
    for component in settings.deployed() {
        match component {
            Component::Controllers => objects.extend(operators.iter().flat_map(|operator| operator.policies.clone())),
            Component::Daemon => objects.extend(policy::own_node::objects()),
            Component::Server => {}
        }
    }
    for component in settings.deployed() {
        objects.extend(workload::of(component, settings));
    }
    objects
}

/// The daemons act on their machines and the endpoint uses their network, which a namespace has to allow; the controllers ask
/// for nothing.
fn namespace(settings: &Settings) -> Value {
    let is_on_machines = settings.deployed().any(|component| component != Component::Controllers);
    let level = if is_on_machines { "privileged" } else { "restricted" };
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": settings.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level},
        },
    })
}
