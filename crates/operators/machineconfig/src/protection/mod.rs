//! Keeps people's hands off what is made here: an admission policy that says what to write instead.
//!
//! - The policy and its binding are looked at when a MachineConfig changes, and now and then: what was edited or deleted
//!   comes back, and what could not be installed is tried again.
//! - Where the policy cannot be installed (an older Kubernetes, missing rights) the controllers put right what was edited.

pub mod policy;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Resource};
use seaworthy_change::{Change, ObjectRef, Scope};

use seaworthy_runtime::{Applier, Controller, Failure, Next, Queue, Retry, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::policy::{NAME, objects};
use crate::context::Context;

/// How often the protection is looked at although nothing has changed.
const LOOK: Duration = Duration::from_secs(60);
/// However often MachineConfigs change.
const REST: Duration = Duration::from_secs(1);

/// Keeps the protection as it should be.
pub struct ProtectionController {
    context: Context,
    applier: Applier,
    installed: Mutex<Installed>,
}

/// What is known of the protection since it was put right.
#[derive(Default)]
struct Installed {
    /// Who we are.
    user: Option<String>,
    /// Policy and binding as the API server has made them of what was written, with its defaults.
    answers: [Option<Value>; 2],
}

impl ProtectionController {
    /// The controller and the queue that the caches feed. There is one thing to look at, so the key says nothing.
    pub fn new(context: &Context) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        queue.mark(());
        let mark = Arc::clone(&queue);
        // Who edits what is protected may have taken the protection away before.
        context.caches.machine_configs.listen(move |_| mark.mark(()));
        let (context, applier) = (context.clone(), context.applier(Self::NAME));
        (ProtectionController { context, applier, installed: Mutex::default() }, queue)
    }

    async fn user(&self) -> Result<String, Unprotected> {
        if let Some(user) = self.installed().user.clone() {
            return Ok(user);
        }
        let reviews: Api<SelfSubjectReview> = Api::all(self.context.client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        let user = review.status.and_then(|status| status.user_info?.username).unwrap_or_default();
        Ok(self.installed().user.insert(user).clone())
    }

    /// Puts right one of the objects, if it is not as it was left.
    async fn keep<K>(&self, nth: usize, wanted: Value) -> Result<(), Unprotected>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
        K::Scope: Scope,
    {
        let found = self.applier.read::<K>(NAME).await?;
        let shown = found.as_ref().map(spec);
        if shown.is_some() && shown == self.installed().answers[nth] {
            return Ok(());
        }
        let change = match found {
            // Not applied, so that what a user has added to it goes too.
            Some(found) => {
                let patch = exactly(&spec(&found), &wanted["spec"]);
                Change::patch(ObjectRef::of(&found), json!({ "spec": patch }))
            }
            None => {
                let object: K = serde_json::from_value(wanted).map_err(kube::Error::SerdeError)?;
                Change::apply(&object)
            }
        };
        self.applier.change(change).await?;
        // As the API server has stored it, with its defaults.
        self.installed().answers[nth] = self.applier.read::<K>(NAME).await?.as_ref().map(spec);
        Ok(())
    }

    fn installed(&self) -> std::sync::MutexGuard<'_, Installed> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for ProtectionController {
    type Key = ();
    type Error = Unprotected;
    const NAME: &'static str = NAME;

    async fn reconcile(&self, (): &()) -> Result<Next, Unprotected> {
        let [policy, binding] = objects(&self.user().await?);
        self.keep::<ValidatingAdmissionPolicy>(0, policy).await?;
        self.keep::<ValidatingAdmissionPolicyBinding>(1, binding).await?;
        Ok(Next { recheck: Some(LOOK), rest: REST })
    }
}

fn spec<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).ok().and_then(|mut object| Some(object.get_mut("spec")?.take())).unwrap_or_default()
}

/// The merge patch that leaves of what was found nothing but what is wanted.
fn exactly(found: &Value, wanted: &Value) -> Value {
    let (Value::Object(found), Value::Object(wanted)) = (found, wanted) else { return wanted.clone() };
    let mut patch: Map<String, Value> =
        found.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    let of_key =
        |(key, value): (&String, &Value)| (key.clone(), exactly(found.get(key).unwrap_or(&Value::Null), value));
    patch.extend(wanted.iter().map(of_key));
    patch.into()
}

/// Why the protection is not there.
#[derive(Debug, thiserror::Error)]
pub enum Unprotected {
    /// The name of our own account is part of the policy.
    #[error(
        "generated MachineConfigs are not protected by a policy, what is edited is put right instead: \
         who we are cannot be found out: {0}"
    )]
    Identity(#[from] kube::Error),
    /// It could not be read or written.
    #[error("generated MachineConfigs are not protected by a policy, what is edited is put right instead: {0}")]
    Write(#[from] WriteError),
}

impl Failure for Unprotected {
    fn category(&self) -> &'static str {
        match self {
            Unprotected::Identity(_) => "unavailable",
            Unprotected::Write(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        Retry::Backoff
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{DeleteParams, Patch, PatchParams};
    use seaworthy_testkit::{Embedded, Faults, Weather};

    use super::*;

    fn apply(value: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut result = value.as_object().cloned().unwrap_or_default();
        for (key, patch) in patch {
            match patch {
                Value::Null => drop(result.remove(key)),
                patch => drop(result.insert(key.clone(), apply(value.get(key).unwrap_or(&Value::Null), patch))),
            }
        }
        result.into()
    }

    #[test]
    fn patch_leaves_what_is_wanted_and_nothing_else() {
        let wanted = json!({"a": {"b": [1], "c": "x"}, "d": 2});
        for found in [
            json!({"a": {"b": [1, 2], "more": {"e": 1}}, "added": []}),
            json!({"a": "text", "d": {"f": 1}}),
            json!({}),
            wanted.clone(),
        ] {
            assert_eq!(apply(&found, &exactly(&found, &wanted)), wanted, "{found}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn protection_that_was_edited_or_deleted_comes_back_and_nothing_is_written_otherwise() {
        let cluster = Embedded::start().await;
        let weather = Weather::new(Faults { error: 1000, ..Faults::default() }, 1);
        let context = Context::new(cluster.client_in(&weather));
        let (controller, _) = ProtectionController::new(&context);
        assert!(controller.reconcile(&()).await.is_err());
        weather.becomes(Faults::default());

        let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client());
        let look = async || {
            controller.reconcile(&()).await.unwrap();
            let policy = policies.get(NAME).await.unwrap();
            (policy.spec, policy.metadata.resource_version, bindings.get(NAME).await.unwrap().spec)
        };
        let installed = look().await;
        assert_eq!(look().await, installed, "not even a new revision");
        let edit = json!({"spec": {"matchConstraints": {"excludeResourceRules": [{"apiGroups": ["*"],
            "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, "failurePolicy": "Ignore"}});
        policies.patch(NAME, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
        bindings.delete(NAME, &DeleteParams::default()).await.unwrap();
        let back = look().await;
        assert_eq!((back.0, back.2), (installed.0, installed.2));
    }
}
