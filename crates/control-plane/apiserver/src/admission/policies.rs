//! Admission policies with their bindings, evaluated on a write.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Object;
use crate::request::Call;
use crate::resource::Resource;
use crate::response::status::{Cause, Failure};

use super::admission_request::AdmissionRequest;
use super::binding::{PolicyBinding, param_resource};
use super::environment::{EvaluationInput, RbacAuthorizer, question};
use super::policy::{AdmissionPolicy, Violation};
use super::redaction::SecretRedactor;

/// The API group of the policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// All policies with their bindings, by name.
#[derive(Debug, Default)]
pub struct AdmissionPolicies(Vec<Bound>);

#[derive(Debug)]
struct Bound {
    policy: Arc<AdmissionPolicy>,
    bindings: Vec<PolicyBinding>,
}

impl AdmissionPolicies {
    /// Reads policies and bindings. Unchanged policies keep their compiled expressions.
    pub fn read(policies: &[Object], bindings: &[Object], before: &AdmissionPolicies) -> AdmissionPolicies {
        let mut bindings: Vec<PolicyBinding> = bindings.iter().map(PolicyBinding::read).collect();
        bindings.sort_by(|a, b| a.name.cmp(&b.name));
        let compiled = |object: &Object| {
            use crate::object::Metadata as _;
            let known = before.0.iter().map(|bound| &bound.policy);
            let mut known = known.filter(|policy| policy.state == (object.uid().to_owned(), object.generation()));
            known.next().cloned().unwrap_or_else(|| Arc::new(AdmissionPolicy::compile(object)))
        };
        let mut all: Vec<Bound> = Vec::new();
        for policy in policies.iter().map(compiled) {
            let own = bindings.extract_if(.., |binding| binding.policy == policy.name).collect();
            all.push(Bound { policy, bindings: own });
        }
        all.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        AdmissionPolicies(all)
    }

    /// Evaluates every policy that matches the write. Returns warnings for the client, or the first denial.
    pub fn validate<'a>(
        &self,
        call: &Call,
        write: impl FnOnce() -> AdmissionRequest<'a>,
    ) -> Result<Vec<String>, Failure> {
        // Policies do not apply to policies: otherwise one could make its own removal impossible.
        if self.0.iter().all(|bound| bound.bindings.is_empty()) || *call.resource.group == *GROUP {
            return Ok(Vec::new());
        }
        let write = &write();
        let registry = &call.registry;
        let own = write.resource;
        let others = registry.versions_in_storage(&own.storage).iter().map(|resource| &**resource);
        let others = others.filter(|other| other.api_version != own.api_version);
        let equivalents: Vec<&Resource> = std::iter::once(own).chain(others).collect();
        let mut verdict = Verdict::default();
        // Not the registry of the request, which is from before its body was read: a slow client could keep a write from
        // the parameters of a kind that was defined since, or have them read by a definition that was changed since.
        let present = call.server.registry();
        let access = call.server.policy();
        let authorizer = RbacAuthorizer { access: &access, identity: &call.identity };
        for Bound { policy, bindings } in self.0.iter().filter(|bound| !bound.bindings.is_empty()) {
            let Some(matched) = policy.constraints.matched(write, &equivalents) else { continue };
            let params = match param_resource(&present, policy) {
                Ok(params) => params,
                Err(why) => {
                    let why = format!("failed to configure policy: {why}");
                    verdict.refuse(policy, None, policy.failed(why));
                    continue;
                }
            };
            let request = write.request(matched);
            let namespace = write.namespace_object().cloned().map(Value::Object);
            let converted = |object: Option<&Object>| object.map(|object| converted(own, matched, object));
            let (object, old) = (converted(write.object), converted(write.old));
            for binding in bindings {
                let is_meant =
                    |constraints: &super::matching::Constraints| constraints.matched(write, &equivalents).is_some();
                if !binding.constraints.as_ref().is_none_or(is_meant) {
                    continue;
                }
                let params = match binding.params(&call.server, policy, params, write.namespace) {
                    Ok(params) => params,
                    Err(why) => {
                        let why = format!("failed to configure binding: {why}");
                        verdict.refuse(policy, Some(binding), policy.failed(why));
                        continue;
                    }
                };
                for params in &params {
                    let scene = EvaluationInput {
                        object: object.as_ref(),
                        old: old.as_ref(),
                        request: &request,
                        params: params.as_ref(),
                        namespace: namespace.as_ref(),
                        authorizer: &authorizer,
                        question: question(write),
                    };
                    let seen = [object.as_ref(), old.as_ref(), params.as_ref()];
                    let redactor = SecretRedactor::about(seen);
                    let violations = policy.violations(&scene).into_iter().map(|one| redactor.apply(one));
                    verdict.add(policy, binding, violations.collect());
                }
            }
        }
        verdict.into_result(call, write)
    }
}

#[derive(Default)]
struct Verdict {
    refusal: Option<Violation>,
    warnings: Vec<String>,
}

impl Verdict {
    /// Adds violations as warnings or as a denial, as the binding says.
    fn add(&mut self, policy: &AdmissionPolicy, binding: &PolicyBinding, violations: Vec<Violation>) {
        if binding.warns {
            let warning = |violation: &Violation| {
                format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, violation.message
                )
            };
            self.warnings.extend(violations.iter().map(warning));
        }
        if binding.denies {
            self.refuse(policy, Some(binding), violations);
        }
    }

    fn refuse(&mut self, policy: &AdmissionPolicy, binding: Option<&PolicyBinding>, violations: Vec<Violation>) {
        let Some(Violation { message, reason }) = violations.into_iter().next() else { return };
        let by = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{}'{by} denied request: {message}", policy.name);
        self.refusal.get_or_insert(Violation { message, reason });
    }

    fn into_result(self, call: &Call, write: &AdmissionRequest<'_>) -> Result<Vec<String>, Failure> {
        let Some(Violation { message, reason }) = self.refusal else { return Ok(self.warnings) };
        let mut failure = Failure::forbidden(call.resource.group_resource(), write.name, &message);
        (failure.reason, failure.code) = reason.reason_and_code();
        let cause = Cause { reason: "", message, field: String::new() };
        failure.details.get_or_insert_default().causes.push(cause);
        Err(failure)
    }
}

/// An object converted to another resource with the same storage.
fn converted(from: &Resource, to: &Resource, object: &Object) -> Object {
    if from.api_version == to.api_version || object.get("apiVersion") != Some(&Value::from(&*from.api_version)) {
        return object.clone();
    }
    let kept = match from.stored_as() {
        Some(stored_as) => stored_as.to_stored(object, &to.api_version),
        None => object.clone(),
    };
    let mut shown = match to.stored_as() {
        Some(stored_as) => stored_as.to_served(&kept, &to.api_version),
        None => kept,
    };
    shown.insert("apiVersion".to_owned(), (*to.api_version).into());
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(generation: i64) -> Object {
        json!({"metadata": {"name": "p", "uid": "u", "generation": generation}, "spec": {
            "validations": [{"expression": "true"}]}})
        .as_object()
        .unwrap()
        .clone()
    }

    #[test]
    fn policy_is_compiled_once_as_long_as_it_stays_the_same() {
        let first = AdmissionPolicies::read(&[policy(1)], &[], &AdmissionPolicies::default());
        let same = AdmissionPolicies::read(&[policy(1)], &[], &first);
        assert!(Arc::ptr_eq(&first.0[0].policy, &same.0[0].policy));
        let changed = AdmissionPolicies::read(&[policy(2)], &[], &same);
        assert!(!Arc::ptr_eq(&same.0[0].policy, &changed.0[0].policy));
    }

    #[test]
    fn binding_belongs_to_the_policy_that_it_names() {
        let binding = |name: &str, policy: &str| {
            let object = json!({"metadata": {"name": name}, "spec": {"policyName": policy}});
            object.as_object().unwrap().clone()
        };
        let bindings = [binding("b", "p"), binding("a", "p"), binding("c", "other")];
        let policies = AdmissionPolicies::read(&[policy(1)], &bindings, &AdmissionPolicies::default());
        let names: Vec<&str> = policies.0[0].bindings.iter().map(|binding| binding.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
