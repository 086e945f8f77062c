//! Validation of the addresses and traffic settings of Services.

use std::net::IpAddr;

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::rules::pod::{address, name_causes, one_of};
use crate::object::Object;
use crate::object::field_access::FieldAccess;

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// Whether a text is a CIDR.
pub fn is_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    length.parse::<u8>().is_ok_and(|length| length <= if address.is_ipv4() { 32 } else { 128 })
}

/// Validates that an address is not unspecified, loopback, link-local or multicast.
pub fn reachable(field: impl std::fmt::Display, text: &str) -> Option<Cause> {
    let why = match text.parse::<IpAddr>().ok()? {
        address if address.is_unspecified() => format!("may not be unspecified ({address})"),
        address if address.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        IpAddr::V4(address) if address.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        IpAddr::V4(address) if address.octets()[..3] == [224, 0, 0] => {
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()
        }
        _ => return None,
    };
    Some(Cause::invalid(field, text, &why))
}

/// Validates addresses, ports and traffic settings of a service.
pub fn validate_addressing(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = object.text("spec.type");
    let is_balanced = kind == "LoadBalancer";
    validate_addresses(object, kind, &mut causes);
    for (at, own) in object.list("spec.ports").iter().enumerate() {
        let field = |key: &str| format!("spec.ports[{at}].{key}");
        if let Some(word) = own.get("appProtocol").and_then(Value::as_str) {
            causes.extend(name_causes(field("appProtocol"), word, names::qualified_name));
        }
        let port = own.number("nodePort").unwrap_or(0);
        if port != 0 && matches!(kind, "NodePort" | "LoadBalancer") && !NODE_PORTS.contains(&port) {
            let why = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            );
            causes.push(Cause::invalid(field("nodePort"), port, &why));
        }
    }
    if object.text("spec.sessionAffinity") == "ClientIP" {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        if let Some(seconds) = object.number(field).filter(|seconds| !(1..=86400).contains(seconds)) {
            causes.push(Cause::invalid(field, seconds, "must be greater than 0 and less than 86400"));
        }
    }
    for (at, own) in object.list("spec.externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.externalIPs[{at}]");
        causes.extend(address(&field, own));
        causes.extend(reachable(&field, own));
    }
    let outside = object.text("spec.externalTrafficPolicy");
    if !outside.is_empty() {
        let is_outside = matches!(kind, "NodePort" | "LoadBalancer") || !object.list("spec.externalIPs").is_empty();
        if !is_outside {
            let why = "may only be set for externally-accessible services";
            causes.push(Cause::invalid("spec.externalTrafficPolicy", outside, why));
        } else {
            causes.extend(one_of("spec.externalTrafficPolicy", outside, &["Cluster", "Local"]));
        }
    }
    let inside = object.text("spec.internalTrafficPolicy");
    if !inside.is_empty() {
        causes.extend(one_of("spec.internalTrafficPolicy", inside, &["Cluster", "Local"]));
    }
    let check = object.number("spec.healthCheckNodePort").unwrap_or(0);
    if check != 0 && !(is_balanced && outside == "Local") {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(Cause::invalid("spec.healthCheckNodePort", check, why));
    }
    let only_balanced = "may only be used when `type` is 'LoadBalancer'";
    let ranges = object.list("spec.loadBalancerSourceRanges");
    if !ranges.is_empty() && !is_balanced {
        causes.push(Cause::forbidden("spec.LoadBalancerSourceRanges", only_balanced));
    }
    for (at, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        if !is_range(range.trim()) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.LoadBalancerSourceRanges[{at}]"), range, why));
        }
    }
    if object.at("spec.allocateLoadBalancerNodePorts").is_some() && !is_balanced {
        causes.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", only_balanced));
    }
    if let Some(class) = object.at("spec.loadBalancerClass").and_then(Value::as_str) {
        match is_balanced {
            true => causes.extend(name_causes("spec.loadBalancerClass", class, names::qualified_name)),
            false => causes.push(Cause::forbidden("spec.loadBalancerClass", only_balanced)),
        }
    }
    let nearness = object.text("spec.trafficDistribution");
    if !nearness.is_empty() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        causes.extend(one_of("spec.trafficDistribution", nearness, &known));
    }
    causes
}

fn validate_addresses(object: &Object, kind: &str, causes: &mut Vec<Cause>) {
    let own = object.text("spec.clusterIP");
    let all = object.list("spec.clusterIPs");
    let shown = object.at("spec.clusterIPs").unwrap_or(&Value::Null);
    if kind == "ExternalName" {
        if !own.is_empty() || !all.is_empty() {
            causes.push(Cause::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
        }
        return;
    }
    if let Some(first) = all.first().and_then(Value::as_str) {
        if own.is_empty() {
            causes.push(Cause::invalid("spec.clusterIPs", shown, "must be empty when `clusterIP` is not specified"));
        } else if first != own {
            causes.push(Cause::invalid("spec.clusterIPs", shown, "first value must match `clusterIP`"));
        }
    }
    let (mut fours, mut sixes) = (0, 0);
    for (at, text) in all.iter().filter_map(Value::as_str).enumerate().filter(|(_, text)| *text != "None") {
        causes.extend(address(format!("spec.clusterIPs[{at}]"), text));
        if text.contains(':') { sixes += 1 } else { fours += 1 }
    }
    if fours > 1 || sixes > 1 {
        let why = "may specify no more than one IP for each IP family";
        causes.push(Cause::invalid("spec.clusterIPs", shown, why));
    }
    for (at, family) in object.list("spec.ipFamilies").iter().filter_map(Value::as_str).enumerate() {
        causes.extend(one_of(&format!("spec.ipFamilies[{at}]"), family, &["IPv4", "IPv6"]));
    }
    let policy = object.text("spec.ipFamilyPolicy");
    if !policy.is_empty() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        causes.extend(one_of("spec.ipFamilyPolicy", policy, &known));
    }
}

/// Validates the load balancer status.
pub fn validate_balancer(object: &Object) -> Vec<Cause> {
    let all = object.list("status.loadBalancer.ingress");
    if !all.is_empty() && object.text("spec.type") != "LoadBalancer" {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return vec![Cause::forbidden("status.loadBalancer.ingress", why)];
    }
    let mut causes = Vec::new();
    for (at, own) in all.iter().enumerate() {
        let text = own.text("ip");
        if !text.is_empty() {
            causes.extend(address(format!("status.loadBalancer.ingress[{at}].ip"), text));
        }
        let name = own.text("hostname");
        if !name.is_empty() {
            causes.extend(name_causes(
                format!("status.loadBalancer.ingress[{at}].hostname"),
                name,
                names::dns_subdomain,
            ));
        }
    }
    causes
}
