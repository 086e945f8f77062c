//! Definitions generated from the types of the kinds: the source of the files in `definitions/`.
//!
//! Only tests call this: code that generates schemas would be a twentieth of the program, and what it generates is data.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation,
};
use kube::core::crd::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::json;

use crate::schema;

/// Every definition, ordered by group and then by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut definitions = crate::machineconfiguration::generated();
    definitions.extend(crate::operator::generated());
    definitions.extend(crate::compliance::generated());
    definitions.extend(crate::kmm::generated());
    definitions.extend(crate::cluster::generated());
    definitions.sort_by(|a, b| (&a.spec.group, &a.spec.names.plural).cmp(&(&b.spec.group, &b.spec.names.plural)));
    definitions
}

/// A definition under construction: what kube derives, then the few things its attributes cannot say.
pub(crate) struct Definition(CustomResourceDefinition);

impl Definition {
    /// The definition of `K` with one version.
    pub(crate) fn of<K: CustomResourceExt + JsonSchema>() -> Self {
        let mut crd = K::crd();
        crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
        for version in &mut crd.spec.versions {
            version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema::structural::<K>()) });
        }
        Self(crd)
    }

    /// `spec` may be absent; the spec's type says so with [`optional_spec!`](crate::optional_spec!).
    pub(crate) fn spec_optional(mut self) -> Self {
        for version in &mut self.0.spec.versions {
            let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
            if let Some(root) = root
                && let Some(required) = &mut root.required
            {
                required.retain(|name| name != "spec");
                if required.is_empty() {
                    root.required = None;
                }
            }
        }
        self
    }

    /// A label on the definition itself. (kube's `label` attribute would also put it on every object made with `new`.)
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// A status subresource although the kind has no `status` field, as one upstream has it.
    pub(crate) fn status_subresource(mut self) -> Self {
        for version in &mut self.0.spec.versions {
            let subresources = version.subresources.get_or_insert_with(CustomResourceSubresources::default);
            subresources.status = Some(CustomResourceSubresourceStatus(json!({})));
        }
        self
    }

    /// Adds the version(s) of `other` after ours; names and scope are ours.
    pub(crate) fn and_version(mut self, other: Self) -> Self {
        self.0.spec.versions.extend(other.0.spec.versions);
        self
    }

    /// `spec` and `status` keep fields that the schema does not have: for kinds that others define and we only take part in.
    pub(crate) fn keeps_unknown_fields(mut self) -> Self {
        for version in &mut self.0.spec.versions {
            let properties = version
                .schema
                .as_mut()
                .and_then(|schema| schema.open_api_v3_schema.as_mut())
                .and_then(|root| root.properties.as_mut());
            for (name, schema) in properties.into_iter().flatten() {
                if name == "spec" || name == "status" {
                    schema.x_kubernetes_preserve_unknown_fields = Some(true);
                }
            }
        }
        self
    }

    pub(crate) fn build(self) -> CustomResourceDefinition {
        self.0
    }
}
