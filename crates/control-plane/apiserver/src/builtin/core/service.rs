//! Service: one address for many pods. Stored and served; nothing of ours routes to it.

use std::collections::HashSet;

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::{Value, json};

use crate::builtin::rules::container::port_or_name;
use crate::builtin::rules::pod::{one_of, port};
use crate::builtin::rules::service::{validate_addressing, validate_balancer};
use crate::object::field_access::{FieldAccess, each_mut, fill, map_mut};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{
    BuiltInKind, KindBehaviour, ObjectPart, STATUS, SelectableField, TableColumn, isolate_status_from_creation,
};
use crate::response::table::{self, NONE};

pub static SERVICE: BuiltInKind = BuiltInKind {
    plural: "services",
    singular: "service",
    kind: "Service",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[STATUS],
    definition: "io.k8s.api.core.v1.Service",
    name_rule: names::dns_label,
    behaviour: KindBehaviour { creates_on_update: true, answers_deleted: true, ..KindBehaviour::PLAIN },
    selectable: &[SelectableField::text("spec.clusterIP"), SelectableField::text("spec.type")],
    defaults,
    prepare,
    validate,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("Type", "From where it is reached."),
        TableColumn::text("Cluster-IP", "Its address inside."),
        TableColumn::text("External-IP", "Its addresses outside."),
        TableColumn::text("Port(s)", "Its ports."),
        TableColumn::AGE,
        TableColumn::wide("Selector", "The pods behind it."),
    ],
    cells,
    ..BuiltInKind::BASE
};

/// Differs: the real server allocates an address and node ports, because it has networks to allocate from.
fn defaults(object: &mut Object) {
    if let Some(balancer) = map_mut(object, "status.loadBalancer") {
        for address in each_mut(balancer, "ingress").filter(|address| !address.text("ip").is_empty()) {
            fill(address, "ipMode", "VIP");
        }
    }
    let Some(spec) = map_mut(object, "spec") else { return };
    for (key, value) in [("type", "ClusterIP"), ("sessionAffinity", "None")] {
        if spec.text(key).is_empty() {
            spec.insert(key.to_owned(), value.into());
        }
    }
    if spec.text("sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    }
    if spec.text("sessionAffinity") == "ClientIP" {
        fill(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
    let kind = spec.text("type").to_owned();
    for port in each_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        let own = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_none_or(|target| target.is_null() || *target == 0 || *target == "") {
            port.insert("targetPort".to_owned(), own);
        }
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind == "ExternalName" {
        return;
    }
    fill(spec, "internalTrafficPolicy", "Cluster");
}

/// Removes unchanged external-traffic fields when a service becomes internal.
fn drop_external_fields(spec: &mut Object, old: &Object) {
    let is_outside = |spec: &Object| matches!(spec.text("type"), "NodePort" | "LoadBalancer");
    if is_outside(spec) || !is_outside(old) {
        return;
    }
    for key in ["externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"] {
        if spec.get(key) == old.get(key) {
            spec.remove(key);
        }
    }
    let taken: Vec<Value> = old.list("ports").iter().filter_map(|port| port.get("nodePort").cloned()).collect();
    for port in each_mut(spec, "ports") {
        if port.get("nodePort").is_some_and(|own| taken.contains(own)) {
            port.remove("nodePort");
        }
    }
}

/// Keeps `clusterIP` and `clusterIPs` in sync when only one is changed, and removes the address fields when a service
/// becomes an ExternalName.
fn sync_cluster_ips(spec: &mut Object, old: &Object) {
    if spec.text("type") == "ExternalName" && old.text("type") != "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if spec.get(key) == old.get(key) {
                spec.remove(key);
            }
        }
        return;
    }
    let (is_same_first, is_same_list) =
        (spec.text("clusterIP") == old.text("clusterIP"), spec.get("clusterIPs") == old.get("clusterIPs"));
    match spec.text("clusterIP").to_owned() {
        first if !is_same_first && is_same_list && !first.is_empty() => {
            spec.insert("clusterIPs".to_owned(), json!([first]));
        }
        first if first.is_empty() && !old.text("clusterIP").is_empty() => {
            // Clearing it has no effect.
            for key in ["clusterIP", "clusterIPs"] {
                if let Some(value) = old.get(key) {
                    spec.insert(key.to_owned(), value.clone());
                }
            }
        }
        _ => {}
    }
}

/// Sets the address fields.
fn prepare(object: &mut Object, old: Option<&Object>, part: ObjectPart) {
    isolate_status_from_creation(object, old, part);
    let Some(spec) = map_mut(object, "spec") else { return };
    if let Some(old) = old.and_then(|old| old.map("spec")) {
        drop_external_fields(spec, old);
    }
    if let Some(old) = old.and_then(|old| old.map("spec")) {
        sync_cluster_ips(spec, old);
    }
    if spec.text("type") == "ExternalName" {
        return;
    }
    let address = spec.text("clusterIP").to_owned();
    if !address.is_empty() {
        fill(spec, "clusterIPs", json!([address]));
    }
    // A headless service without a selector may have endpoints of any family.
    let is_open = address == "None" && spec.map("selector").is_none();
    let (families, policy) = match is_open {
        true => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        false if address.contains(':') => (json!(["IPv6"]), "SingleStack"),
        false => (json!(["IPv4"]), "SingleStack"),
    };
    if let (Some(old), false) = (old.and_then(|old| old.map("spec")), spec.contains_key("ipFamilies")) {
        // An update without address fields keeps them.
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(value) = old.get(key) {
                fill(spec, key, value.clone());
            }
        }
    }
    fill(spec, "ipFamilies", families);
    fill(spec, "ipFamilyPolicy", policy);
}

fn validate(object: &Object, old: Option<&Object>, part: ObjectPart) -> Vec<Cause> {
    if part == ObjectPart::Status {
        return validate_balancer(object);
    }
    let mut causes = Vec::new();
    let kind = object.text("spec.type");
    let ports = object.list("spec.ports");
    let is_headless = object.text("spec.clusterIP") == "None";
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let (mut named, mut numbered) = (HashSet::new(), HashSet::new());
    for (at, own) in ports.iter().enumerate() {
        let field = |key: &str| format!("spec.ports[{at}].{key}");
        let name = own.text("name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(field("name"), ""));
        } else if !name.is_empty() {
            causes.extend(names::dns_label(name).iter().map(|why| Cause::invalid(field("name"), name, why)));
            if !named.insert(name) {
                causes.push(Cause::duplicate(field("name"), name));
            }
        }
        let number = own.number("port").unwrap_or(0);
        causes.extend(port(&field("port"), number));
        causes.extend(one_of(&field("protocol"), own.text("protocol"), &["SCTP", "TCP", "UDP"]));
        causes.extend(port_or_name(&field("targetPort"), own.get("targetPort")));
        if !numbered.insert((number, own.text("protocol"))) {
            causes.push(Cause::duplicate(format!("spec.ports[{at}]"), own));
        }
        if own.number("nodePort").unwrap_or(0) != 0 && matches!(kind, "ClusterIP" | "ExternalName") {
            causes.push(Cause::forbidden(field("nodePort"), &format!("may not be used when `type` is '{kind}'")));
        }
    }
    for (key, value) in object.map("spec.selector").into_iter().flatten() {
        causes.extend(names::qualified_name(key).iter().map(|why| Cause::invalid("spec.selector", key, why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).iter().map(|why| Cause::invalid("spec.selector", value, why)));
    }
    causes.extend(one_of("spec.sessionAffinity", object.text("spec.sessionAffinity"), &["ClientIP", "None"]));
    causes.extend(one_of("spec.type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    if kind == "ExternalName" {
        let name = object.text("spec.externalName").trim_end_matches('.');
        if name.is_empty() {
            causes.push(Cause::required("spec.externalName", ""));
        } else {
            let problems = names::dns_subdomain(name);
            causes.extend(problems.iter().map(|why| Cause::invalid("spec.externalName", name, why)));
        }
    }
    causes.extend(validate_addressing(object));
    if let Some(old) = old {
        let (had, has) = (old.text("spec.clusterIP"), object.text("spec.clusterIP"));
        let keeps = kind != "ExternalName" && old.text("spec.type") != "ExternalName";
        if keeps && !had.is_empty() && had != has {
            let shown = object.at("spec.clusterIPs").unwrap_or(&Value::Null);
            causes.push(Cause::invalid("spec.clusterIPs[0]", shown, "may not change once set"));
        }
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let addresses = |values: &[Value], key: &str| -> Vec<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            value => [value.text(key), value.text("hostname")]
                .into_iter()
                .find(|t| !t.is_empty())
                .unwrap_or_default()
                .to_owned(),
        };
        values.iter().map(text).collect()
    };
    let mut outside = addresses(object.list("status.loadBalancer.ingress"), "ip");
    outside.extend(addresses(object.list("spec.externalIPs"), ""));
    let outside = match (object.text("spec.type"), outside.is_empty()) {
        ("ExternalName", _) => object.text("spec.externalName").to_owned(),
        ("LoadBalancer", true) => "<pending>".to_owned(),
        (_, true) => NONE.to_owned(),
        (_, false) => outside.join(","),
    };
    let ports: Vec<String> = object
        .list("spec.ports")
        .iter()
        .map(|port| match port.number("nodePort").unwrap_or(0) {
            0 => format!("{}/{}", port.number("port").unwrap_or(0), port.text("protocol")),
            node => format!("{}:{node}/{}", port.number("port").unwrap_or(0), port.text("protocol")),
        })
        .collect();
    vec![
        object.name().into(),
        object.text("spec.type").into(),
        table::or_none(object.text("spec.clusterIP")),
        outside.into(),
        table::or_none(&ports.join(",")),
        table::age(object, now),
        table::labels(object.map("spec.selector")),
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn filled(spec: Value) -> Object {
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec}).as_object().unwrap().clone();
        defaults(&mut object);
        object
    }

    #[rstest]
    #[case(json!({"ports": [{"port": 80}]}), &[])]
    #[case(json!({}), &["spec.ports"])]
    #[case(json!({"clusterIP": "None"}), &[])]
    #[case(json!({"type": "ExternalName"}), &["spec.externalName"])]
    #[case(json!({"ports": [{"port": 80}, {"port": 81}]}), &["spec.ports[0].name", "spec.ports[1].name"])]
    #[case(json!({"ports": [{"port": 0}]}), &["spec.ports[0].port", "spec.ports[0].targetPort"])]
    #[case(json!({"ports": [{"port": 80, "nodePort": 30000}]}), &["spec.ports[0].nodePort"])]
    #[case(json!({"ports": [{"port": 80}], "type": "Odd"}), &["spec.type"])]
    fn mistakes_are_named_by_field(#[case] spec: Value, #[case] fields: &[&str]) {
        let causes = validate(&filled(spec), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn port_leads_to_the_same_port_unless_it_says_otherwise() {
        let object = filled(json!({"ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}));
        let targets: Vec<&Value> = object.list("spec.ports").iter().map(|port| &port["targetPort"]).collect();
        assert_eq!(targets, [&json!(80), &json!("web")]);
    }
}
