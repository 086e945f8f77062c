//! Resource types: how objects of a kind are addressed in the API.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use seaworthy_values::api_version::group_and_version;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The type of an object. Cloning is cheap: a decision may name thousands of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType(Arc<ResourceNames>);

/// Group, version, kind and plural of a kind, and whether its objects live in namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceNames {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    /// The kind, such as `Node`.
    pub kind: Cow<'static, str>,
    /// The plural in paths, such as `nodes`.
    pub plural: Cow<'static, str>,
    /// Whether objects belong to a namespace.
    pub is_namespaced: bool,
}

/// The scope of a kind, as a type knows it.
pub trait Scope {
    /// Whether objects belong to a namespace.
    const IS_NAMESPACED: bool;
}

impl Scope for ClusterResourceScope {
    const IS_NAMESPACED: bool = false;
}

impl Scope for NamespaceResourceScope {
    const IS_NAMESPACED: bool = true;
}

impl ResourceType {
    /// The resource type of a Rust type.
    pub fn of<K>() -> ResourceType
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        ResourceType::new(ResourceNames {
            group: K::group(&()),
            version: K::version(&()),
            kind: K::kind(&()),
            plural: K::plural(&()),
            is_namespaced: <K::Scope as Scope>::IS_NAMESPACED,
        })
    }

    /// The resource type with these names, for kinds that are known at run time only.
    pub fn new(names: ResourceNames) -> ResourceType {
        ResourceType(Arc::new(names))
    }

    /// Group and version as objects have them in `apiVersion`.
    pub fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            Cow::Borrowed(&self.version)
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }

    /// The path of the collection, in this namespace if the kind has one.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/{}/namespaces/{namespace}/{}", self.version, self.plural),
            None => format!("{root}/{}/{}", self.version, self.plural),
        }
    }
}

/// The group and the kind of an object in JSON, in any version; empty where it has none.
pub fn group_and_kind(object: &Value) -> (&str, &str) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    (group_and_version(text("apiVersion")).0, text("kind"))
}

impl Deref for ResourceType {
    type Target = ResourceNames;

    fn deref(&self) -> &ResourceNames {
        &self.0
    }
}

impl Serialize for ResourceType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.kind)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use seaworthy_api::machineconfiguration::MachineConfigPool;
    use serde_json::json;

    use super::*;

    #[test]
    fn group_and_kind_are_those_that_an_object_names() {
        let of = |api_version: &str| group_and_kind(&json!({"apiVersion": api_version, "kind": "Node"})).0.to_owned();
        assert_eq!((of("v1").as_str(), of("policy/v1").as_str()), ("", "policy"));
        assert_eq!(group_and_kind(&json!({"kind": 5})), ("", ""));
    }

    #[test]
    fn types_are_addressed_as_the_api_server_does() {
        assert_eq!(ResourceType::of::<Node>().path(None), "/api/v1/nodes");
        assert_eq!(ResourceType::of::<Pod>().path(Some("shop")), "/api/v1/namespaces/shop/pods");
        let pools = ResourceType::of::<MachineConfigPool>();
        assert_eq!(pools.path(Some("ignored")), "/apis/machineconfiguration.openshift.io/v1/machineconfigpools");
        assert_eq!(pools.api_version(), "machineconfiguration.openshift.io/v1");
    }
}
