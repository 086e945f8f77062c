//! Operator manifests: the definitions, rights and admission policies that one operator needs in a cluster.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The account that the controllers run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The namespace that Seaworthy is installed in.
    pub namespace: String,
    /// The user name that the API server knows it by.
    pub user: String,
}

/// What one operator needs in a cluster.
#[derive(Clone, Debug, Default)]
pub struct OperatorManifest {
    pub definitions: Vec<CustomResourceDefinition>,
    /// RBAC rules of its controllers for the whole cluster, as [`crate::rule`] makes them.
    pub cluster_rules: Vec<Value>,
    /// RBAC rules of its controllers for Seaworthy's own namespace.
    pub namespace_rules: Vec<Value>,
    /// RBAC rules of the Ignition endpoint for the whole cluster.
    pub server_rules: Vec<Value>,
    /// RBAC rules of every node for the whole cluster.
    pub daemon_rules: Vec<Value>,
    /// Admission policies and their bindings.
    pub policies: Vec<Value>,
}
