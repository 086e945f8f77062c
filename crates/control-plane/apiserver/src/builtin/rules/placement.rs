//! Validation of pod placement: tolerations, affinity and topology spread.

use std::collections::HashSet;

use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::apps::workload::validate_selector;
use crate::builtin::rules::pod::{name_causes, one_of};
use crate::object::Object;
use crate::object::field_access::FieldAccess;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates a toleration.
pub fn validate_toleration(toleration: &Value, field: &str, causes: &mut Vec<Cause>) {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        causes.extend(name_causes(format!("{field}.key"), key, names::qualified_name));
    }
    let operator = toleration.text("operator");
    match operator {
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(format!("{field}.operator"), value, why));
        }
        "Exists" => {}
        _ if key.is_empty() => {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(format!("{field}.operator"), operator, why));
        }
        "" | "Equal" => causes.extend(name_causes(format!("{field}.operator"), value, names::label_value)),
        "Lt" | "Gt" => {
            // Numeric comparison is not enabled, but the message lists it.
            let known = ["Equal", "Exists", "Lt", "Gt"];
            causes.push(Cause::not_supported(format!("{field}.operator"), operator, &known));
        }
        other => causes.push(Cause::not_supported(format!("{field}.operator"), other, &["Equal", "Exists"])),
    }
    let effect = toleration.text("effect");
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(Cause::invalid(format!("{field}.effect"), effect, why));
    }
    if !effect.is_empty() {
        causes.extend(one_of(&format!("{field}.effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
    }
}

/// Validates `affinity`.
pub fn validate_affinity(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let Some(affinity) = spec.get("affinity") else { return };
    let field = format!("{at}.affinity");
    if let Some(nodes) = affinity.get("nodeAffinity") {
        let field = format!("{field}.nodeAffinity");
        if let Some(required) = nodes.get(REQUIRED) {
            let field = format!("{field}.{REQUIRED}.nodeSelectorTerms");
            if required.list("nodeSelectorTerms").is_empty() {
                causes.push(Cause::required(&field, "must have at least one node selector term"));
            }
            for (at, term) in required.list("nodeSelectorTerms").iter().enumerate() {
                validate_node_term(term, &format!("{field}[{at}]"), causes);
            }
        }
        for (at, preferred) in nodes.list(PREFERRED).iter().enumerate() {
            let field = format!("{field}.{PREFERRED}[{at}]");
            validate_weight(preferred, &field, causes);
            if let Some(term) = preferred.get("preference") {
                validate_node_term(term, &format!("{field}.preference"), causes);
            }
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        let field = format!("{field}.{kind}");
        for (at, term) in pods.list(REQUIRED).iter().enumerate() {
            validate_pod_term(term, &format!("{field}.{REQUIRED}[{at}]"), causes);
        }
        for (at, preferred) in pods.list(PREFERRED).iter().enumerate() {
            let field = format!("{field}.{PREFERRED}[{at}]");
            validate_weight(preferred, &field, causes);
            if let Some(term) = preferred.get("podAffinityTerm") {
                validate_pod_term(term, &format!("{field}.podAffinityTerm"), causes);
            }
        }
    }
}

fn validate_weight(preferred: &Value, field: &str, causes: &mut Vec<Cause>) {
    let weight = preferred.number("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(format!("{field}.weight"), weight, "must be in the range 1-100"));
    }
}

fn validate_node_term(term: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (at, wanted) in term.list("matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{at}]");
        let count = wanted.list("values").len();
        let values = format!("{field}.values");
        match wanted.text("operator") {
            "In" | "NotIn" if count == 0 => {
                causes.push(Cause::required(values, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(values, why));
            }
            "Gt" | "Lt" if count != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                causes.push(Cause::required(values, why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                causes.push(Cause::invalid(format!("{field}.operator"), other, "not a valid selector operator"));
            }
        }
        causes.extend(name_causes(format!("{field}.key"), wanted.text("key"), names::qualified_name));
    }
    for (at, wanted) in term.list("matchFields").iter().enumerate() {
        let field = format!("{field}.matchFields[{at}]");
        match wanted.text("operator") {
            "In" | "NotIn" if wanted.list("values").len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                causes.push(Cause::required(format!("{field}.values"), why));
            }
            "In" | "NotIn" => {}
            other => {
                causes.push(Cause::invalid(format!("{field}.operator"), other, "not a valid selector operator"));
            }
        }
        let key = wanted.text("key");
        if key != "metadata.name" {
            causes.push(Cause::invalid(format!("{field}.key"), key, "not a valid field selector key"));
        }
    }
}

fn validate_pod_term(term: &Value, field: &str, causes: &mut Vec<Cause>) {
    for key in ["labelSelector", "namespaceSelector"] {
        causes.extend(validate_selector(term.get(key), &format!("{field}.{key}")));
    }
    for name in term.list("namespaces").iter().filter_map(Value::as_str) {
        causes.extend(name_causes(format!("{field}.namespace"), name, names::dns_label));
    }
    let key = term.text("topologyKey");
    let at = format!("{field}.topologyKey");
    if key.is_empty() {
        causes.push(Cause::required(&at, "can not be empty"));
    }
    causes.extend(name_causes(at, key, names::qualified_name));
}

/// Validates `topologySpreadConstraints`.
pub fn validate_spread(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let all = spec.list("topologySpreadConstraints");
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (index, own) in all.iter().enumerate() {
        let field = format!("{at}.topologySpreadConstraints[{index}]");
        let skew = own.number("maxSkew").unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{field}.maxSkew"), skew, "must be greater than zero"));
        }
        let key = own.text("topologyKey");
        if key.is_empty() {
            causes.push(Cause::required(format!("{field}.topologyKey"), "can not be empty"));
        } else {
            causes.extend(name_causes(format!("{field}.topologyKey"), key, names::qualified_name));
        }
        let otherwise = own.text("whenUnsatisfiable");
        let known = ["DoNotSchedule", "ScheduleAnyway"];
        causes.extend(one_of(&format!("{field}.whenUnsatisfiable"), otherwise, &known));
        let is_repeated = all[index + 1..]
            .iter()
            .any(|other| (other.text("topologyKey"), other.text("whenUnsatisfiable")) == (key, otherwise));
        if is_repeated && seen.insert((key, otherwise)) {
            let shown = format!("{{{key}, {otherwise}}}");
            causes.push(Cause::duplicate(format!("{field}.{{topologyKey, whenUnsatisfiable}}"), shown.as_str()));
        }
        if let Some(least) = own.number("minDomains") {
            let at = format!("{field}.minDomains");
            if least <= 0 {
                causes.push(Cause::invalid(&at, least, "must be greater than zero"));
            }
            if otherwise != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}");
                causes.push(Cause::invalid(&at, least, &why));
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let word = own.text(key);
            if !word.is_empty() {
                causes.extend(one_of(&format!("{field}.{key}"), word, &["Honor", "Ignore"]));
            }
        }
        causes.extend(validate_selector(own.get("labelSelector"), &format!("{field}.labelSelector")));
    }
}
