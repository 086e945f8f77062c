//! Kind: whether an object or a reference is of the kind of a Rust type, whatever the version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use seaworthy_values::api_version::group_and_version;
use serde_json::Value;

/// Whether an object in JSON is of this kind.
pub fn is_object<K: Resource<DynamicType = ()>>(object: &Value) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    is_kind::<K>(text("apiVersion"), text("kind"))
}

/// Whether an owner is of this kind.
pub fn is_owner<K: Resource<DynamicType = ()>>(owner: &OwnerReference) -> bool {
    is_kind::<K>(&owner.api_version, &owner.kind)
}

/// Whether an apiVersion and a kind are those of this kind, in any version.
pub fn is_kind<K: Resource<DynamicType = ()>>(api_version: &str, kind: &str) -> bool {
    kind == K::kind(&()) && group_and_version(api_version).0 == K::group(&())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::machineconfiguration::MachineConfigPool;

    #[test]
    fn kind_is_known_by_group_and_name_in_any_version() {
        let pool = json!({"apiVersion": "machineconfiguration.openshift.io/v9", "kind": "MachineConfigPool"});
        assert!(is_object::<MachineConfigPool>(&pool) && !is_object::<Node>(&pool));
        assert!(!is_object::<MachineConfigPool>(&json!({"apiVersion": "v1", "kind": "MachineConfigPool"})));
        assert!(is_object::<Node>(&json!({"apiVersion": "v1", "kind": "Node"})));
        assert!(!is_object::<Node>(&json!({})));
        let owner = OwnerReference {
            api_version: "machineconfiguration.openshift.io/v1".to_owned(),
            kind: "MachineConfigPool".to_owned(),
            ..OwnerReference::default()
        };
        assert!(is_owner::<MachineConfigPool>(&owner) && !is_owner::<Node>(&owner));
    }
}
