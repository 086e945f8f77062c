//! All policies with their bindings, and their verdict on a write.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Object;
use crate::request::Call;
use crate::resource::Resource;
use crate::response::status::{Cause, Failure};

use super::attempt::Attempt;
use super::binding::{Binding, param_resource};
use super::discretion::Discretion;
use super::environment::{Asker, Scene, question};
use super::policy::{Objection, Policy};

/// The group of the policies themselves.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// All policies that are bound, by name.
#[derive(Debug, Default)]
pub struct Policies(Vec<Bound>);

#[derive(Debug)]
struct Bound {
    policy: Arc<Policy>,
    bindings: Vec<Binding>,
}

impl Policies {
    /// Reads policies and bindings. What was compiled before and did not change is taken over.
    pub fn read(policies: &[Object], bindings: &[Object], before: &Policies) -> Policies {
        let mut bindings: Vec<Binding> = bindings.iter().map(Binding::read).collect();
        bindings.sort_by(|a, b| a.name.cmp(&b.name));
        let compiled = |object: &Object| {
            use crate::object::Metadata as _;
            let known = before.0.iter().map(|bound| &bound.policy);
            let mut known = known.filter(|policy| policy.state == (object.uid().to_owned(), object.generation()));
            known.next().cloned().unwrap_or_else(|| Arc::new(Policy::compile(object)))
        };
        let mut all: Vec<Bound> = Vec::new();
        for policy in policies.iter().map(compiled) {
            let own = bindings.extract_if(.., |binding| binding.policy == policy.name).collect();
            all.push(Bound { policy, bindings: own });
        }
        all.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        Policies(all)
    }

    /// Asks every policy that is about the write. The answer is what the client should know beside, or the first
    /// refusal.
    pub fn judge<'a>(&self, call: &Call, attempt: impl FnOnce() -> Attempt<'a>) -> Result<Vec<String>, Failure> {
        // Nobody can lock the door and throw the key away: policies do not judge policies.
        if self.0.iter().all(|bound| bound.bindings.is_empty()) || *call.resource.group == *GROUP {
            return Ok(Vec::new());
        }
        let attempt = &attempt();
        let registry = &call.registry;
        let own = attempt.resource;
        let others = registry.sharing(&own.storage).iter().map(|resource| &**resource);
        let others = others.filter(|other| other.api_version != own.api_version);
        let equivalents: Vec<&Resource> = std::iter::once(own).chain(others).collect();
        let mut verdict = Verdict::default();
        let access = call.server.policy();
        let asker = Asker { access: &access, identity: &call.identity };
        for Bound { policy, bindings } in self.0.iter().filter(|bound| !bound.bindings.is_empty()) {
            let Some(matched) = policy.constraints.matched(attempt, &equivalents) else { continue };
            let params = match param_resource(registry, policy) {
                Ok(params) => params,
                Err(why) => {
                    let why = format!("failed to configure policy: {why}");
                    verdict.refuse(policy, None, policy.failed(why));
                    continue;
                }
            };
            let request = attempt.request(matched);
            let namespace = attempt.surroundings().cloned().map(Value::Object);
            let converted = |object: Option<&Object>| object.map(|object| converted(own, matched, object));
            let (object, old) = (converted(attempt.object), converted(attempt.old));
            for binding in bindings {
                let is_meant =
                    |constraints: &super::matching::Constraints| constraints.matched(attempt, &equivalents).is_some();
                if !binding.constraints.as_ref().is_none_or(is_meant) {
                    continue;
                }
                let params = match binding.params(&call.server, policy, params, attempt.namespace) {
                    Ok(params) => params,
                    Err(why) => {
                        let why = format!("failed to configure binding: {why}");
                        verdict.refuse(policy, Some(binding), policy.failed(why));
                        continue;
                    }
                };
                for params in &params {
                    let scene = Scene {
                        object: object.as_ref(),
                        old: old.as_ref(),
                        request: &request,
                        params: params.as_ref(),
                        namespace: namespace.as_ref(),
                        authorizer: &asker,
                        question: question(attempt),
                    };
                    let seen = [object.as_ref(), old.as_ref(), params.as_ref()];
                    let discretion = Discretion::about(seen);
                    let objections = policy.objections(&scene).into_iter().map(|one| discretion.apply(one));
                    verdict.hear(policy, binding, objections.collect());
                }
            }
        }
        verdict.given(call, attempt)
    }
}

#[derive(Default)]
struct Verdict {
    refusal: Option<Objection>,
    warnings: Vec<String>,
}

impl Verdict {
    /// Takes objections as the binding says.
    fn hear(&mut self, policy: &Policy, binding: &Binding, objections: Vec<Objection>) {
        if binding.warns {
            let warning = |objection: &Objection| {
                format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, objection.message
                )
            };
            self.warnings.extend(objections.iter().map(warning));
        }
        if binding.denies {
            self.refuse(policy, Some(binding), objections);
        }
    }

    fn refuse(&mut self, policy: &Policy, binding: Option<&Binding>, objections: Vec<Objection>) {
        let Some(Objection { message, reason }) = objections.into_iter().next() else { return };
        let by = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{}'{by} denied request: {message}", policy.name);
        self.refusal.get_or_insert(Objection { message, reason });
    }

    fn given(self, call: &Call, attempt: &Attempt<'_>) -> Result<Vec<String>, Failure> {
        let Some(Objection { message, reason }) = self.refusal else { return Ok(self.warnings) };
        let mut failure = Failure::forbidden(call.resource.named(), attempt.name, &message);
        (failure.reason, failure.code) = reason.word_and_code();
        let cause = Cause { reason: "", message, field: String::new() };
        failure.details.get_or_insert_default().causes.push(cause);
        Err(failure)
    }
}

/// An object of one resource as another one of the same storage shows it.
fn converted(from: &Resource, to: &Resource, object: &Object) -> Object {
    if from.api_version == to.api_version || object.get("apiVersion") != Some(&Value::from(&*from.api_version)) {
        return object.clone();
    }
    let kept = match from.kept_as() {
        Some(kept_as) => kept_as.kept(object, &to.api_version),
        None => object.clone(),
    };
    let mut shown = match to.kept_as() {
        Some(kept_as) => kept_as.shown(&kept, &to.api_version),
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
        let first = Policies::read(&[policy(1)], &[], &Policies::default());
        let same = Policies::read(&[policy(1)], &[], &first);
        assert!(Arc::ptr_eq(&first.0[0].policy, &same.0[0].policy));
        let changed = Policies::read(&[policy(2)], &[], &same);
        assert!(!Arc::ptr_eq(&same.0[0].policy, &changed.0[0].policy));
    }

    #[test]
    fn binding_belongs_to_the_policy_that_it_names() {
        let binding = |name: &str, policy: &str| {
            let object = json!({"metadata": {"name": name}, "spec": {"policyName": policy}});
            object.as_object().unwrap().clone()
        };
        let bindings = [binding("b", "p"), binding("a", "p"), binding("c", "other")];
        let policies = Policies::read(&[policy(1)], &bindings, &Policies::default());
        let names: Vec<&str> = policies.0[0].bindings.iter().map(|binding| binding.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
