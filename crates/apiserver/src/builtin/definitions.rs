//! The schemas of the built-in kinds, read from the OpenAPI data when a kind is first used.

use std::sync::OnceLock;

use seaworthy_schema::{Document, Schema};
use serde_json::{Map, Value};

use crate::kind::Kind;

/// The definitions of one version of a group.
struct Source {
    group: &'static str,
    version: &'static str,
    text: &'static [u8],
    document: OnceLock<Document>,
}

macro_rules! source {
    ($group:literal, $version:literal, $file:literal) => {
        Source {
            group: $group,
            version: $version,
            text: include_bytes!(concat!("../../data/", $file)),
            document: OnceLock::new(),
        }
    };
}

static SOURCES: [Source; 14] = [
    source!("", "v1", "api_v1.json"),
    source!("admissionregistration.k8s.io", "v1", "apis_admissionregistration.k8s.io_v1.json"),
    source!("apiextensions.k8s.io", "v1", "apis_apiextensions.k8s.io_v1.json"),
    source!("apps", "v1", "apis_apps_v1.json"),
    source!("authentication.k8s.io", "v1", "apis_authentication.k8s.io_v1.json"),
    source!("authorization.k8s.io", "v1", "apis_authorization.k8s.io_v1.json"),
    source!("batch", "v1", "apis_batch_v1.json"),
    source!("coordination.k8s.io", "v1", "apis_coordination.k8s.io_v1.json"),
    source!("discovery.k8s.io", "v1", "apis_discovery.k8s.io_v1.json"),
    source!("events.k8s.io", "v1", "apis_events.k8s.io_v1.json"),
    source!("node.k8s.io", "v1", "apis_node.k8s.io_v1.json"),
    source!("policy", "v1", "apis_policy_v1.json"),
    source!("rbac.authorization.k8s.io", "v1", "apis_rbac.authorization.k8s.io_v1.json"),
    source!("scheduling.k8s.io", "v1", "apis_scheduling.k8s.io_v1.json"),
];

/// The schema of a kind; none if the data has none.
pub fn of(kind: &Kind) -> Option<Schema<'static>> {
    document(kind.group, kind.version)?.named(kind.definition)
}

/// The schema of the metadata that all objects have.
pub fn object_meta() -> Option<Schema<'static>> {
    document("", "v1")?.named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

/// The definitions of one version of a group, as they were published.
pub fn text(group: &str, version: &str) -> Option<&'static [u8]> {
    SOURCES.iter().find(|source| source.group == group && source.version == version).map(|source| source.text)
}

fn document(group: &str, version: &str) -> Option<&'static Document> {
    let source = SOURCES.iter().find(|source| source.group == group && source.version == version)?;
    Some(source.document.get_or_init(|| {
        // The data is part of the program, and a test reads all of it.
        let schemas: Map<String, Value> = serde_json::from_slice(source.text).unwrap_or_default();
        Document::of_definitions(&schemas)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::KINDS;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for kind in KINDS {
            assert!(of(kind).is_some(), "{} {}", kind.group, kind.definition);
        }
        assert!(object_meta().is_some());
    }
}
