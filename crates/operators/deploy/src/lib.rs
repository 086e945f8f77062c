//! Deployment manifests: the definitions, rights, policies and workloads that Seaworthy needs in a cluster.
//!
//! - [`objects`] returns them in an order in which `kubectl apply` accepts them.
//! - Each component has a user of its own with the rights that its code uses ([`rights`]); the scenario tests of the
//!   controllers run with these and no others, and a test checks what must be refused.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentOptions {
    /// The namespace of all namespaced objects.
    pub namespace: String,
    pub image: String,
    /// The URL of the API server for new machines. Without it the Ignition endpoint is left out.
    pub apiserver_url: Option<String>,
    /// The path of the kubelet's kubeconfig on each node.
    pub node_kubeconfig: String,
    pub components: Vec<Component>,
}

impl DeploymentOptions {
    /// The components that can be deployed with these options: the server needs `apiserver_url`.
    pub fn deployed(&self) -> impl Iterator<Item = Component> {
        self.components.iter().copied().filter(|one| *one != Component::Server || self.apiserver_url.is_some())
    }
}

/// All manifests, in the order in which they can be applied.
pub fn objects(options: &DeploymentOptions, operators: &[OperatorManifest]) -> Vec<Value> {
    let mut objects = vec![namespace(options)];
    let definitions = operators.iter().flat_map(|operator| &operator.definitions);
    // A definition is made of strings, numbers and maps with string keys: it always has a JSON form.
    objects.extend(definitions.filter_map(|definition| serde_json::to_value(definition).ok()));
    for component in options.deployed() {
        objects.extend(rights::of(component, &options.namespace, operators));
    }
    for component in options.deployed() {
        match component {
            Component::Controllers => objects.extend(operators.iter().flat_map(|operator| operator.policies.clone())),
            Component::Daemon => objects.extend(policy::own_node::objects()),
            Component::Server => {}
        }
    }
    for component in options.deployed() {
        objects.extend(workload::of(component, options));
    }
    objects
}

/// The daemon acts on its machine and the endpoint uses the host network, which the namespace's pod security level must
/// allow; the controllers need neither.
fn namespace(options: &DeploymentOptions) -> Value {
    let is_on_machines = options.deployed().any(|component| component != Component::Controllers);
    let level = if is_on_machines { "privileged" } else { "restricted" };
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level},
        },
    })
}
