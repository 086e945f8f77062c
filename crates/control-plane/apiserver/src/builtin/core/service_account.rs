//! ServiceAccount: the identity of a program in a pod.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::{Metadata, Object};
use crate::request::Verb;
use crate::resource::built_in_kind::{BuiltInKind, KindBehaviour, Subresource, SubresourceAction, TableColumn};
use crate::response::table;

pub static SERVICE_ACCOUNT: BuiltInKind = BuiltInKind {
    plural: "serviceaccounts",
    singular: "serviceaccount",
    kind: "ServiceAccount",
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        kind: ("authentication.k8s.io", "v1", "TokenRequest"),
        verbs: &[Verb::Create],
        action: SubresourceAction::CreateToken,
    }],
    definition: "io.k8s.api.core.v1.ServiceAccount",
    behaviour: KindBehaviour { answers_deleted: true, ..KindBehaviour::PLAIN },
    columns: &[TableColumn::NAME, TableColumn::AGE],
    cells,
    ..BuiltInKind::BASE
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), table::age(object, now)]
}
