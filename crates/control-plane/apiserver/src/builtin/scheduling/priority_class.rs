//! PriorityClass: the scheduling priority of pods.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::builtin::core::pod_admission::check_global;
use crate::builtin::rules::pod::one_of;
use crate::object::field_access::{FieldAccess, fill};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, TableColumn};
use crate::response::table;

/// Higher values are reserved for system classes.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;
/// The prefix of system classes.
pub const SYSTEM_PREFIX: &str = "system-";

pub static PRIORITY_CLASS: BuiltInKind = BuiltInKind {
    group: "scheduling.k8s.io",
    plural: "priorityclasses",
    singular: "priorityclass",
    kind: "PriorityClass",
    is_namespaced: false,
    short_names: &["pc"],
    definition: "io.k8s.api.scheduling.v1.PriorityClass",
    behaviour: KindBehaviour { generation: GenerationPolicy::AlwaysOne, ..KindBehaviour::PLAIN },
    defaults: |object| fill(object, "preemptionPolicy", "PreemptLowerPriority"),
    mutate: check_global,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::count("Value", "The higher, the earlier."),
        TableColumn {
            kind: "boolean",
            ..TableColumn::text("Global-Default", "Whether it is for pods that name none.")
        },
        TableColumn::AGE,
        TableColumn::text("PreemptionPolicy", "Whether its pods push others away."),
    ],
    cells,
    ..BuiltInKind::BASE
};

fn validate(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    let value = object.number("value").unwrap_or(0);
    if object.name().starts_with(SYSTEM_PREFIX) && old.is_none() {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known \
             system priority class",
            object.name()
        );
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if value > MAX_USER_PRIORITY && !object.name().starts_with(SYSTEM_PREFIX) {
        let why = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
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
