//! Provider definition: a CustomResourceDefinition without its schemas, which can be megabytes.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use seaworthy_change::{ResourceNames, ResourceType};
use seaworthy_plan::machinepool::provider_contract::{self, ContractVersion};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct ProviderDefinition {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    group: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    names: Names,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Names {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    plural: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

/// How the objects of a definition are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAs {
    pub resource: ResourceType,
    pub contract: ContractVersion,
}

impl ProviderDefinition {
    pub fn group(&self) -> &str {
        &self.spec.group
    }

    pub fn kind(&self) -> &str {
        &self.spec.names.kind
    }

    /// Whether its objects can be read: it is established, and not being deleted.
    pub fn is_installed(&self) -> bool {
        let is_established = |condition: &Condition| condition.type_ == "Established" && condition.status == "True";
        self.metadata.deletion_timestamp.is_none() && self.status.conditions.iter().any(is_established)
    }

    /// How its objects are read. The error says what is wrong with it.
    pub fn read_as(&self) -> Result<ReadAs, String> {
        let contract = provider_contract::resolve(&self.stub()).map_err(|error| error.to_string())?;
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let is_served = |version: &Version| version.served && version.name == contract.version;
        if !self.spec.versions.iter().any(is_served) {
            let served: Vec<&str> =
                self.spec.versions.iter().filter(|version| version.served).map(|version| &*version.name).collect();
            return Err(format!(
                "CustomResourceDefinition {name}: its contract names version {}, which it does not serve; expected one of {}; \
                 install the provider again",
                contract.version,
                served.join(", ")
            ));
        }
        if self.spec.scope != "Namespaced" {
            return Err(format!(
                "CustomResourceDefinition {name}: its objects belong to no namespace; expected the scope Namespaced; refer to a \
                 kind whose objects are in the pool's namespace"
            ));
        }
        let resource = ResourceType::new(ResourceNames {
            group: self.spec.group.clone().into(),
            version: contract.version.clone().into(),
            kind: self.spec.names.kind.clone().into(),
            plural: self.spec.names.plural.clone().into(),
            is_namespaced: true,
        });
        Ok(ReadAs { resource, contract })
    }

    /// What the contract is found in.
    fn stub(&self) -> CustomResourceDefinition {
        let versions = self.spec.versions.iter().map(|version| CustomResourceDefinitionVersion {
            name: version.name.clone(),
            served: version.served,
            storage: version.storage,
            ..CustomResourceDefinitionVersion::default()
        });
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: self.metadata.name.clone(),
                labels: self.metadata.labels.clone(),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                versions: versions.collect(),
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}

impl Resource for ProviderDefinition {
    type DynamicType = ();
    type Scope = <CustomResourceDefinition as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        CustomResourceDefinition::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use seaworthy_api::vocabulary::cluster::Contract;
    use serde_json::{Value, json};

    use super::*;

    fn definition(labels: Value, scope: &str) -> ProviderDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "pools.g", "labels": labels},
            "spec": {"group": "g", "scope": scope, "names": {"kind": "Pool", "plural": "pools"}, "versions": [
                {"name": "v1alpha3", "served": false, "schema": {"openAPIV3Schema": {}}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}}},
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }))
        .unwrap()
    }

    #[test]
    fn objects_are_read_in_the_version_of_the_contract() {
        let found = definition(json!({"cluster.x-k8s.io/v1beta2": "v1"}), "Namespaced");
        let read = found.read_as().unwrap();
        assert_eq!(read.resource.path(Some("a")), "/apis/g/v1/namespaces/a/pools");
        assert_eq!(read.contract.contract, Some(Contract::V1Beta2));
        assert!(found.is_installed());
        let read = definition(json!({}), "Namespaced").read_as().unwrap();
        assert_eq!((read.resource.version.as_ref(), read.contract.contract), ("v1", None));
    }

    #[test]
    fn version_that_is_not_served_and_objects_without_namespace_are_errors() {
        let error = definition(json!({"cluster.x-k8s.io/v1beta2": "v1alpha3"}), "Namespaced").read_as().unwrap_err();
        assert!(error.contains("version v1alpha3") && error.contains("one of v1;"), "{error}");
        let error = definition(json!({}), "Cluster").read_as().unwrap_err();
        assert!(error.contains("scope Namespaced"), "{error}");
    }
}
