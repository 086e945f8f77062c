//! Every CustomResourceDefinition of the crate, ready to be applied.
//!
//! The definitions are data, generated from the types by a test: `UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api crds` writes them.

pub mod generated;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The definitions of each group, ordered by name; the groups are ordered too.
const DEFINITIONS: [(&str, &str); 5] = [
    ("cluster.x-k8s.io", include_str!("../definitions/cluster.x-k8s.io.json")),
    ("compliance.openshift.io", include_str!("../definitions/compliance.openshift.io.json")),
    ("kmm.sigs.x-k8s.io", include_str!("../definitions/kmm.sigs.x-k8s.io.json")),
    ("machineconfiguration.openshift.io", include_str!("../definitions/machineconfiguration.openshift.io.json")),
    ("operator.openshift.io", include_str!("../definitions/operator.openshift.io.json")),
];

/// Every definition, ordered by group and then by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    DEFINITIONS.iter().flat_map(|(_, definitions)| read(definitions)).collect()
}

/// The definitions of one API group; empty for a group that the crate does not know.
pub fn for_group(group: &str) -> Vec<CustomResourceDefinition> {
    let found = DEFINITIONS.iter().find(|(known, _)| *known == group);
    found.map(|(_, definitions)| read(definitions)).unwrap_or_default()
}

fn read(definitions: &str) -> Vec<CustomResourceDefinition> {
    // A part of the program, which a test compares with what the types say.
    serde_json::from_str(definitions).expect("the embedded definitions are valid")
}
