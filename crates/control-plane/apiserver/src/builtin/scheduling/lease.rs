//! Lease: leader election and heartbeats.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::builtin::rules::pod::not_negative;
use crate::object::field_access::{FieldAccess, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, KindBehaviour, ObjectPart, TableColumn};
use crate::response::table;

pub static LEASE: BuiltInKind = BuiltInKind {
    group: "coordination.k8s.io",
    plural: "leases",
    singular: "lease",
    kind: "Lease",
    definition: "io.k8s.api.coordination.v1.Lease",
    behaviour: KindBehaviour { updates_unconditionally: false, creates_on_update: true, ..KindBehaviour::PLAIN },
    prepare,
    validate,
    columns: &[TableColumn::NAME, TableColumn::text("Holder", "Who has it."), TableColumn::AGE],
    cells,
    ..BuiltInKind::BASE
};

/// Drops the fields of coordinated leader election, which is disabled by default in kube-apiserver.
fn prepare(object: &mut Object, old: Option<&Object>, _: ObjectPart) {
    let Some(spec) = map_mut(object, "spec") else { return };
    for key in ["strategy", "preferredHolder"] {
        if old.is_none_or(|old| old.at(&format!("spec.{key}")).is_none()) {
            spec.remove(key);
        }
    }
}

fn validate(object: &Object, _: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(seconds) = object.number("spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        causes.push(Cause::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    causes.extend(not_negative("spec.leaseTransitions", object.number("spec.leaseTransitions")));
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), object.text("spec.holderIdentity").into(), table::age(object, now)]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"leaseDurationSeconds": 15, "leaseTransitions": 0}), &[])]
    #[case(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}), &["spec.leaseDurationSeconds", "spec.leaseTransitions"])]
    fn times_and_counts_make_sense(#[case] spec: Value, #[case] fields: &[&str]) {
        let object = json!({"spec": spec}).as_object().unwrap().clone();
        let causes = validate(&object, None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
