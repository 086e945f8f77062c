//! ServiceAccount: who a program in a pod is.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::{Metadata, Object};
use crate::request::Verb;
use crate::resource::kind::{Column, Deed, Kind, Subresource, Ways};
use crate::response::table;

/// The kind.
pub static SERVICE_ACCOUNT: Kind = Kind {
    plural: "serviceaccounts",
    singular: "serviceaccount",
    kind: "ServiceAccount",
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        kind: ("authentication.k8s.io", "v1", "TokenRequest"),
        verbs: &[Verb::Create],
        deed: Deed::Token,
    }],
    definition: "io.k8s.api.core.v1.ServiceAccount",
    ways: Ways { answers_deleted: true, ..Ways::PLAIN },
    columns: &[Column::NAME, Column::AGE],
    cells,
    ..Kind::BASE
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), table::age(object, now)]
}
