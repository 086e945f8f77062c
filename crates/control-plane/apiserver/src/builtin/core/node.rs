//! Node: a machine that pods run on.

use std::collections::HashSet;

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::builtin::core::pod_admission::taint_new_node;
use crate::builtin::core::pod_defaults::fill_condition_times;
use crate::builtin::rules::container::is_extended;
use crate::builtin::rules::pod::one_of;
use crate::builtin::rules::service::is_range;
use crate::object::field_access::{FieldAccess, map_mut};
use crate::object::quantity::Quantity;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, KindBehaviour, ObjectPart, STATUS, SelectableField, TableColumn, isolate_status,
};
use crate::response::table::{self, NONE};

/// Prefix of the labels with the roles of a node.
const ROLE: &str = "node-role.kubernetes.io/";

pub static NODE: BuiltInKind = BuiltInKind {
    plural: "nodes",
    singular: "node",
    kind: "Node",
    is_namespaced: false,
    short_names: &["no"],
    subresources: &[STATUS],
    definition: "io.k8s.api.core.v1.Node",
    behaviour: KindBehaviour { selects_namespace: false, ..KindBehaviour::PLAIN },
    selectable: &[SelectableField { label: "spec.unschedulable", path: "spec.unschedulable", default: "false" }],
    defaults,
    prepare,
    mutate: taint_new_node,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Status", "Whether it is ready, and whether new pods may come."),
        TableColumn::text("Roles", "What it is for."),
        TableColumn::AGE,
        TableColumn::text("Version", "The version of its kubelet."),
        TableColumn::wide("Internal-IP", "Its address inside."),
        TableColumn::wide("External-IP", "Its address outside."),
        TableColumn::wide("OS-Image", "Its operating system."),
        TableColumn::wide("Kernel-Version", "Its kernel."),
        TableColumn::wide("Container-Runtime", "What runs its containers."),
    ],
    cells,
    ..BuiltInKind::BASE
};

fn defaults(object: &mut Object) {
    if let Some(spec) = map_mut(object, "spec") {
        // The pod CIDR has a deprecated and a new field.
        let (old, new) = (spec.text("podCIDR").to_owned(), spec.list("podCIDRs").to_vec());
        match (old.as_str(), new.as_slice()) {
            ("", [first, ..]) => {
                spec.insert("podCIDR".to_owned(), first.clone());
            }
            ("", []) => {}
            (old, [] | [_]) => {
                spec.insert("podCIDRs".to_owned(), json!([old]));
            }
            _ => {}
        }
    }
    // `allocatable` defaults to `capacity`.
    if let Some(status) = map_mut(object, "status")
        && let Some(capacity) = status.get("capacity").cloned()
        && status.map("allocatable").is_none_or(Object::is_empty)
    {
        status.insert("allocatable".to_owned(), capacity);
    }
    fill_condition_times(object, &["lastHeartbeatTime", "lastTransitionTime"]);
}

fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    isolate_status(object, old, part);
    if let Some(spec) = map_mut(object, "spec") {
        // Dynamic kubelet configuration is removed: only a stored value may stay.
        if old.is_none_or(|old| old.at("spec.configSource").is_none()) {
            spec.remove("configSource");
        }
    }
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    for list in ["status.capacity", "status.allocatable"] {
        for (name, amount) in object.map(list).into_iter().flatten() {
            let quantity = amount.as_str().and_then(Quantity::parse);
            if quantity.is_some_and(Quantity::is_negative) {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(format!("{list}.{name}"), amount, why));
            }
            if is_extended(name) && quantity.is_some_and(|quantity| !quantity.is_whole()) {
                causes.push(Cause::invalid(format!("{list}.{name}"), amount, "must be an integer"));
            }
        }
    }
    if old.is_some() {
        let addresses = object.list("status.addresses");
        for (at, address) in addresses.iter().enumerate() {
            if addresses[..at].contains(address) {
                let shown = json!({"Type": address.text("type"), "Address": address.text("address")});
                causes.push(Cause::duplicate(format!("status.addresses[{at}]"), &shown));
            }
        }
    }
    if part == ObjectPart::Main && old.is_some_and(|old| old.at("spec.externalID") != object.at("spec.externalID")) {
        causes.push(Cause::forbidden("spec.externalID", "may not be updated"));
    }
    if part == ObjectPart::Status {
        return causes;
    }
    let mut taken = HashSet::new();
    for (at, taint) in object.list("spec.taints").iter().enumerate() {
        // kube-apiserver names the field as if taints were in the metadata.
        let field = format!("metadata.taints[{at}]");
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid(format!("{field}.key"), key, why)));
        let values = names::label_value(value);
        causes.extend(values.iter().map(|why| Cause::invalid(format!("{field}.value"), value, why)));
        causes.extend(one_of(&format!("{field}.effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        if !taken.insert((key, effect)) {
            let mut cause = Cause::duplicate(field, taint);
            cause.message.push_str(": taints must be unique by key and effect pair");
            causes.push(cause);
        }
    }
    let ranges = object.list("spec.podCIDRs");
    for (at, range) in ranges.iter().enumerate() {
        if !is_range(range.as_str().unwrap_or_default()) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.podCIDRs[{at}]"), range, why));
        }
    }
    let sixes = ranges.iter().filter(|range| range.as_str().is_some_and(|range| range.contains(':'))).count();
    if causes.is_empty() && (sixes > 1 || ranges.len() - sixes > 1) {
        let why = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid("spec.podCIDRs", &Value::from(ranges), why));
    }
    if let Some(old) = old {
        let had = old.list("spec.podCIDRs");
        if !had.is_empty() && had != ranges {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            causes.push(Cause::forbidden("spec.podCIDRs", why));
        }
        let had = old.text("spec.providerID");
        if !had.is_empty() && had != object.text("spec.providerID") {
            let word = if object.text("spec.providerID").is_empty() { "cleared" } else { "modified" };
            let why = format!("field cannot be {word} once set");
            causes.push(Cause::invalid("spec.providerID", &Value::Null, &why));
        }
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    // The last one counts.
    let ready = object.list("status.conditions").iter().rfind(|condition| condition.text("type") == "Ready");
    let mut state = match ready.map(|condition| condition.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.flag("spec.unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let labels = object.metadata().map("labels").into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix(ROLE),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let mut addresses = object.list("status.addresses").iter();
        addresses.find(|address| address.text("type") == kind).map_or(NONE, |address| address.text("address"))
    };
    let information = |key: &str| match object.text(&format!("status.nodeInfo.{key}")) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let kernel = match object.text("status.nodeInfo.architecture") {
        "" => information("kernelVersion"),
        architecture => format!("{} ({architecture})", information("kernelVersion")),
    };
    vec![
        object.name().into(),
        state.into(),
        table::or_none(&roles.join(",")),
        table::age(object, now),
        object.text("status.nodeInfo.kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        information("osImage").into(),
        kernel.into(),
        information("containerRuntimeVersion").into(),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(spec: Value) -> Object {
        json!({"metadata": {"name": "n"}, "spec": spec}).as_object().unwrap().clone()
    }

    #[rstest]
    #[case(json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}), &[])]
    #[case(json!({"taints": [{"key": "a", "effect": "Sometimes"}]}), &["metadata.taints[0].effect"])]
    #[case(
        json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}),
        &["metadata.taints[1]"]
    )]
    #[case(json!({"podCIDRs": ["10.0.0.0/40"]}), &["spec.podCIDRs[0]"])]
    #[case(json!({"podCIDRs": ["10.0.0.0/24", "2001:db8::/64"]}), &[])]
    #[case(json!({"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}), &["spec.podCIDRs"])]
    fn mistakes_are_named_by_field(#[case] spec: Value, #[case] fields: &[&str]) {
        let causes = validate(&node(spec), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[rstest]
    #[case(json!({}), json!({"podCIDRs": ["10.0.0.0/24"], "providerID": "p"}), &[])]
    #[case(json!({"podCIDRs": ["10.0.0.0/24"]}), json!({"podCIDRs": ["10.1.0.0/24"]}), &["spec.podCIDRs"])]
    #[case(json!({"providerID": "p"}), json!({"providerID": "q"}), &["spec.providerID"])]
    fn pod_cidrs_and_provider_id_are_immutable_once_set(
        #[case] old: Value,
        #[case] new: Value,
        #[case] fields: &[&str],
    ) {
        let causes = validate(&node(new), Some(&node(old)), ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn range_is_known_by_both_its_names() {
        let mut node = node(json!({"podCIDR": "10.0.0.0/24"}));
        defaults(&mut node);
        assert_eq!(node["spec"], json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}));
    }

    #[test]
    fn row_has_the_roles_and_the_status_of_the_node() {
        let mut node = node(json!({"unschedulable": true}));
        node.set_meta("labels", json!({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/pilot": ""}));
        node.insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        let cells = cells(&node, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1], "Ready,SchedulingDisabled");
        assert_eq!(cells[2], "pilot,worker");
        assert_eq!(cells[5], NONE);
    }
}
