//! Provider object: an object of a kind that is known at run time only, as JSON.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use seaworthy_plan::machinepool::InfraMachine;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The object without `managedFields`, which can be most of it.
#[derive(Clone, Debug)]
pub struct ProviderObject {
    metadata: ObjectMeta,
    pub value: Value,
}

impl ProviderObject {
    /// The object as one machine of a provider, in the API group of its kind.
    pub fn infra_machine(&self, api_group: &str, kind: &str) -> InfraMachine {
        let provider_id = self.value.pointer("/spec/providerID").and_then(Value::as_str);
        InfraMachine {
            api_group: api_group.to_owned(),
            kind: kind.to_owned(),
            name: self.metadata.name.clone().unwrap_or_default(),
            provider_id: provider_id.filter(|id| !id.is_empty()).map(str::to_owned),
            is_deleting: self.metadata.deletion_timestamp.is_some(),
        }
    }
}

impl<'de> Deserialize<'de> for ProviderObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let metadata = value.get_mut("metadata").ok_or_else(|| D::Error::missing_field("metadata"))?;
        if let Value::Object(metadata) = metadata {
            metadata.remove("managedFields");
        }
        let metadata = ObjectMeta::deserialize(&*metadata).map_err(D::Error::custom)?;
        Ok(ProviderObject { metadata, value })
    }
}

impl Resource for ProviderObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
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
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_kept_without_managed_fields() {
        let object: ProviderObject = serde_json::from_value(json!({
            "metadata": {"name": "m", "managedFields": [{"manager": "a"}], "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"providerID": "x", "other": 1},
        }))
        .unwrap();
        assert_eq!(object.value["metadata"].get("managedFields"), None);
        assert_eq!(object.value["spec"]["other"], 1);
        let machine = object.infra_machine("g", "K");
        assert_eq!(
            (machine.name.as_str(), machine.provider_id.as_deref(), machine.is_deleting),
            ("m", Some("x"), true)
        );
    }
}
