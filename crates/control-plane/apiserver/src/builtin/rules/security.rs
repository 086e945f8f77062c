//! Validation of security contexts of pods and containers.

use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::builtin::rules::pod::one_of;
use crate::object::Object;
use crate::object::field_access::FieldAccess;

/// Validates a pod's `securityContext` and the host namespaces.
pub fn validate_pod_security(spec: &Object, at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.securityContext");
    let nothing = Value::Null;
    let own = spec.get("securityContext").unwrap_or(&nothing);
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        causes.extend(id(&format!("{field}.{key}"), own.number(key)));
    }
    for (at, group) in own.list("supplementalGroups").iter().enumerate() {
        causes.extend(id(&format!("{field}.supplementalGroups[{at}]"), group.as_i64()));
    }
    if spec.flag("hostPID") && spec.flag("shareProcessNamespace") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(Cause::invalid(format!("{at}.shareProcessNamespace"), true, why));
    }
    if spec.get("hostUsers") == Some(&json!(false)) {
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            if spec.flag(key) {
                causes.push(Cause::forbidden(format!("{at}.{key}"), "when `hostUsers` is false"));
            }
        }
    }
    for (at, setting) in own.list("sysctls").iter().enumerate() {
        let name = setting.text("name");
        let field = format!("{field}.sysctls[{at}].name");
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_setting_part) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.push(Cause::invalid(field, name, why));
        }
    }
    let when = own.text("fsGroupChangePolicy");
    if !when.is_empty() {
        causes.extend(one_of(&format!("{field}.fsGroupChangePolicy"), when, &["Always", "OnRootMismatch"]));
    }
    validate_profiles(own, &field, causes);
}

/// Validates a container's `securityContext`.
///
/// Differs: privileged containers are allowed, because every distribution allows them and only the bare defaults of
/// the real server do not.
pub fn validate_container_security(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    let Some(own) = container.get("securityContext") else { return };
    for key in ["runAsUser", "runAsGroup"] {
        causes.extend(id(&format!("{field}.{key}"), own.number(key)));
    }
    let mount = own.text("procMount");
    if !mount.is_empty() {
        causes.extend(one_of(&format!("{field}.procMount"), mount, &["Default", "Unmasked"]));
    }
    validate_profiles(own, field, causes);
    if own.get("allowPrivilegeEscalation") == Some(&json!(false)) {
        if own.flag("privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            causes.push(Cause::invalid(field, own, why));
        }
        if own.list("capabilities.add").iter().any(|name| name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            causes.push(Cause::invalid(field, own, why));
        }
    }
}

fn validate_profiles(own: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (key, word) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let Some(profile) = own.get(key).filter(|profile| !profile.is_null()) else { continue };
        let field = format!("{field}.{key}");
        let at = format!("{field}.localhostProfile");
        let has_path = profile.get("localhostProfile").is_some_and(|path| !path.is_null());
        match profile.text("type") {
            "" => causes.push(Cause::required(format!("{field}.type"), &format!("type is required when {key} is set"))),
            "Localhost" if !has_path => {
                causes.push(Cause::required(at, &format!("must be set when {word} type is Localhost")));
            }
            "Localhost" => {}
            "RuntimeDefault" | "Unconfined" => {
                if has_path {
                    let why = format!("can only be set when {word} type is Localhost");
                    causes.push(Cause::invalid(at, profile, &why));
                }
            }
            other => {
                let known = ["Localhost", "RuntimeDefault", "Unconfined"];
                causes.push(Cause::not_supported(format!("{field}.type"), other, &known));
            }
        }
    }
}

fn id(field: &str, number: Option<i64>) -> Option<Cause> {
    let number = number.filter(|number| !(0..=i64::from(i32::MAX)).contains(number))?;
    Some(Cause::invalid(field, number, "must be between 0 and 2147483647, inclusive"))
}

fn is_setting_part(part: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = part.as_bytes();
    let is_inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inside)
}
