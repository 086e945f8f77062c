//! Endpoints and EndpointSlice: the addresses behind a Service.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::rules::pod::{name_causes, one_of, port};
use crate::builtin::rules::service::reachable;
use crate::object::field_access::{FieldAccess, each_mut, fill};
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, GenerationPolicy, KindBehaviour, ObjectPart, TableColumn};
use crate::response::table::{self, NONE};

/// How many addresses a cell shows.
const MAX_SHOWN_ADDRESSES: usize = 3;

/// The deprecated kind: all addresses in one object.
pub static ENDPOINTS: BuiltInKind = BuiltInKind {
    plural: "endpoints",
    singular: "endpoints",
    kind: "Endpoints",
    short_names: &["ep"],
    definition: "io.k8s.api.core.v1.Endpoints",
    behaviour: KindBehaviour { creates_on_update: true, ..KindBehaviour::PLAIN },
    defaults: |object| {
        for subset in each_mut(object, "subsets") {
            each_mut(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    },
    deprecation_warning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    validate: validate_endpoints,
    columns: &[TableColumn::NAME, TableColumn::text("Endpoints", "The addresses that are ready."), TableColumn::AGE],
    cells: |object, now| {
        let mut shown = Vec::new();
        for subset in object.list("subsets") {
            for address in subset.list("addresses") {
                let ip = address.text("ip");
                let ports = subset.list("ports");
                shown.extend(ports.iter().map(|port| format!("{ip}:{}", port.number("port").unwrap_or(0))));
                if ports.is_empty() {
                    shown.push(ip.to_owned());
                }
            }
        }
        vec![object.name().into(), summary(&shown).into(), table::age(object, now)]
    },
    ..BuiltInKind::BASE
};

/// The newer kind: some of the addresses in each object.
pub static ENDPOINT_SLICE: BuiltInKind = BuiltInKind {
    group: "discovery.k8s.io",
    plural: "endpointslices",
    singular: "endpointslice",
    kind: "EndpointSlice",
    definition: "io.k8s.api.discovery.v1.EndpointSlice",
    behaviour: KindBehaviour { generation: GenerationPolicy::SpecAndLabelChanges, ..KindBehaviour::PLAIN },
    defaults: |object| {
        for port in each_mut(object, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    validate: validate_slice,
    columns: &[
        TableColumn::NAME,
        TableColumn::text("AddressType", "What its addresses are."),
        TableColumn::text("Ports", "The ports of each address."),
        TableColumn::text("Endpoints", "The addresses."),
        TableColumn::AGE,
    ],
    cells: slice_cells,
    ..BuiltInKind::BASE
};

fn validate_endpoints(object: &Object, _: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (at, subset) in object.list("subsets").iter().enumerate() {
        let field = format!("subsets[{at}]");
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            causes.push(Cause::required(&field, "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in subset.list(list).iter().enumerate() {
                let (at, text) = (format!("{field}.{list}[{index}]"), address.text("ip"));
                causes.extend(crate::builtin::rules::pod::address(format!("{at}.ip"), text));
                causes.extend(reachable(format!("{at}.ip"), text));
                if !address.text("hostname").is_empty() {
                    causes.extend(name_causes(format!("{at}.hostname"), address.text("hostname"), names::dns_label));
                }
                if !address.text("nodeName").is_empty() {
                    causes.extend(name_causes(
                        format!("{at}.nodeName"),
                        address.text("nodeName"),
                        names::dns_subdomain,
                    ));
                }
            }
        }
        for (index, own) in subset.list("ports").iter().enumerate() {
            let field = format!("{field}.ports[{index}]");
            if own.text("name").is_empty() && subset.list("ports").len() > 1 {
                causes.push(Cause::required(format!("{field}.name"), ""));
            }
            causes.extend(port(&format!("{field}.port"), own.number("port").unwrap_or(0)));
            causes.extend(one_of(&format!("{field}.protocol"), own.text("protocol"), &["SCTP", "TCP", "UDP"]));
        }
    }
    causes
}

fn validate_slice(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let kind = object.text("addressType");
    if old.is_some_and(|old| old.text("addressType") != kind) {
        return vec![Cause::invalid("addressType", &Value::Null, "field is immutable")];
    }
    let mut causes: Vec<Cause> = one_of("addressType", kind, &["FQDN", "IPv4", "IPv6"]).into_iter().collect();
    for (at, endpoint) in object.list("endpoints").iter().enumerate() {
        let addresses = endpoint.list("addresses");
        let field = format!("endpoints[{at}].addresses");
        if addresses.is_empty() {
            causes.push(Cause::required(&field, ""));
        }
        if !endpoint.text("nodeName").is_empty() {
            let field = format!("endpoints[{at}].nodeName");
            causes.extend(name_causes(field, endpoint.text("nodeName"), names::dns_subdomain));
        }
        if !endpoint.text("hostname").is_empty() {
            let field = format!("endpoints[{at}].hostname");
            causes.extend(name_causes(field, endpoint.text("hostname"), names::dns_label));
        }
        for (index, address) in addresses.iter().enumerate() {
            let text = address.as_str().unwrap_or_default();
            let is_right = match kind {
                "IPv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => true,
            };
            if !is_right {
                let why = format!("must be an {kind} address");
                causes.push(Cause::invalid(&field, text, &why));
            }
            if kind != "FQDN" {
                causes.extend(reachable(format!("{field}[{index}]"), text));
            }
        }
    }
    for (at, own) in object.list("ports").iter().enumerate() {
        if !own.text("name").is_empty() {
            causes.extend(name_causes(format!("ports[{at}].name"), own.text("name"), names::dns_label));
        }
        causes.extend(one_of(&format!("ports[{at}].protocol"), own.text("protocol"), &["SCTP", "TCP", "UDP"]));
        if object.list("ports")[..at].iter().any(|other| other.text("name") == own.text("name")) {
            causes.push(Cause::duplicate(format!("ports[{at}].name"), own.text("name")));
        }
    }
    causes
}

fn slice_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let ports = object.list("ports");
    let numbers: Vec<String> =
        ports.iter().map(|port| port.number("port").map_or("*".to_owned(), |number| number.to_string())).collect();
    let ports = match ports.is_empty() {
        true => "<unset>".to_owned(),
        false => summary(&numbers),
    };
    let addresses = object.list("endpoints").iter().flat_map(|endpoint| endpoint.list("addresses"));
    let addresses: Vec<String> = addresses.filter_map(|address| address.as_str().map(str::to_owned)).collect();
    let addresses = if addresses.is_empty() { "<unset>".to_owned() } else { summary(&addresses) };
    vec![
        object.name().into(),
        object.text("addressType").into(),
        ports.into(),
        addresses.into(),
        table::age(object, now),
    ]
}

/// The first of many, and how many more there are.
fn summary(texts: &[String]) -> String {
    match texts.len() {
        0 => NONE.to_owned(),
        count if count > MAX_SHOWN_ADDRESSES => {
            format!("{} + {} more...", texts[..MAX_SHOWN_ADDRESSES].join(","), count - MAX_SHOWN_ADDRESSES)
        }
        _ => texts.join(","),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}), &[])]
    #[case(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}, {}]}), &["endpoints[0].addresses", "endpoints[1].addresses"])]
    #[case(json!({}), &["addressType"])]
    fn slice_holds_addresses_of_its_type(#[case] slice: Value, #[case] fields: &[&str]) {
        let causes = validate_slice(slice.as_object().unwrap(), None, ObjectPart::Main);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn cell_shows_three_addresses_and_counts_the_rest() {
        let texts: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(summary(&texts), "a,b,c + 2 more...");
        assert_eq!(summary(&texts[..2]), "a,b");
    }
}
