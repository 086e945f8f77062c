//! ServiceAccount: who a program in a pod is.

use crate::kind::{Deed, Kind, Subresource, Ways};
use crate::request::Verb;

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
    ..Kind::BASE
};
