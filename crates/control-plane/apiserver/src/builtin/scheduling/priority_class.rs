//! PriorityClass: who goes first when there is not room for all.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::builtin::core::pod_admission::check_global;
use crate::builtin::rules::pod::one_of;
use crate::object::reach::{Reach, fill};
use crate::object::{Metadata, Object};
use crate::resource::kind::{Column, Generation, Kind, Part, Ways};
use crate::response::table;

/// Values above are the server's own.
const HIGHEST: i64 = 1_000_000_000;
/// Names that begin so are the server's own.
pub const SYSTEM: &str = "system-";

/// The kind.
pub static PRIORITY_CLASS: Kind = Kind {
    group: "scheduling.k8s.io",
    plural: "priorityclasses",
    singular: "priorityclass",
    kind: "PriorityClass",
    is_namespaced: false,
    short_names: &["pc"],
    definition: "io.k8s.api.scheduling.v1.PriorityClass",
    ways: Ways { generation: Generation::One, ..Ways::PLAIN },
    defaults: |object| fill(object, "preemptionPolicy", "PreemptLowerPriority"),
    complete: check_global,
    validate,
    columns: &[
        Column::NAME,
        Column::count("Value", "The higher, the earlier."),
        Column { kind: "boolean", ..Column::shown("Global-Default", "Whether it is for pods that name none.") },
        Column::AGE,
        Column::shown("PreemptionPolicy", "Whether its pods push others away."),
    ],
    cells,
    ..Kind::BASE
};

fn validate(object: &Object, old: Option<&Object>, _: Part) -> Vec<Cause> {
    let mut causes = Vec::new();
    let value = object.number("value").unwrap_or(0);
    if object.name().starts_with(SYSTEM) && old.is_none() {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known \
             system priority class",
            object.name()
        );
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if value > HIGHEST && !object.name().starts_with(SYSTEM) {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        causes.push(Cause::forbidden("value", &why));
    }
    causes.extend(one_of("preemptionPolicy", object.text("preemptionPolicy"), &["PreemptLowerPriority", "Never"]));
    if let Some(old) = old {
        if old.number("value").unwrap_or(0) != value {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        if old.get("preemptionPolicy") != object.get("preemptionPolicy") {
            causes.push(Cause::invalid("preemptionPolicy", object.text("preemptionPolicy"), "field is immutable"));
        }
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        object.number("value").unwrap_or(0).into(),
        object.flag("globalDefault").into(),
        table::age(object, now),
        object.text("preemptionPolicy").into(),
    ]
}
