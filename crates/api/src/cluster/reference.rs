//! ContractReference and NodeReference: names of objects without the version they are read in.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pattern::{DNS_SUBDOMAIN, KIND};
use crate::unknown::Unknown;

/// Names an object of a provider; the version follows from the provider's contract.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// Group of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub api_group: String,

    /// Kind of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// Name of the object, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl ContractReference {
    /// Whether the reference names anything: one member is enough.
    pub fn is_defined(&self) -> bool {
        [&self.api_group, &self.kind, &self.name].into_iter().any(|member| !member.is_empty())
    }
}

/// Names a node of the workload cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReference {
    /// Name of the node.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_defines_a_reference() {
        assert!(!ContractReference::default().is_defined());
        let reference = ContractReference { kind: "KubeadmConfig".into(), ..ContractReference::default() };
        assert!(reference.is_defined());
    }
}
