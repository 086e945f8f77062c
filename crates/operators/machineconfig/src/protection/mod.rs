//! Protection controller: installs the admission policy that protects generated MachineConfigs from edits.
//!
//! - The policy and its binding are checked when a MachineConfig changes, and periodically: edits and deletions of them are
//!   reverted, and a failed installation is retried.
//! - Where the policy cannot be installed (an older Kubernetes, missing rights) the controllers revert edits instead.

pub mod policy;
pub(crate) mod rule;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::core::ClusterResourceScope;
use kube::{Api, Resource};
use seaworthy_change::{Change, ObjectRef};
use seaworthy_runtime::{
    Applier, Cache, CacheSet, Controller, Queue, ReconcileError, Requeue, RetryPolicy, WriteError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::policy::{NAME, objects};
pub use self::rule::ProtectionRule;
use crate::context::Context;

/// How often the policy is checked although nothing has changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time between two checks, however often MachineConfigs change.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub struct ProtectionController {
    context: Context,
    applier: Applier,
    installed: Mutex<Installed>,
}

/// The policy and its binding as they were last installed.
#[derive(Default)]
struct Installed {
    /// The user name of this process.
    user: Option<String>,
    /// The specs of policy and binding as the API server has stored them, with its defaults.
    stored: [Option<Value>; 2],
}

impl ProtectionController {
    /// The controller and the queue that the caches feed. There is one policy, so the key is `()`.
    pub fn new(context: &Context) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        queue.mark(());
        let mark = Arc::clone(&queue);
        // A user who edits a protected object may have removed the policy before.
        context.caches.machine_configs.listen(move |_| mark.mark(()));
        let (context, applier) = (context.clone(), context.applier(Self::NAME));
        (ProtectionController { context, applier, installed: Mutex::default() }, queue)
    }

    async fn user(&self) -> Result<String, ProtectionError> {
        if let Some(user) = self.installed().user.clone() {
            return Ok(user);
        }
        let reviews: Api<SelfSubjectReview> = Api::all(self.context.client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        let user = review.status.and_then(|status| status.user_info?.username).unwrap_or_default();
        Ok(self.installed().user.insert(user).clone())
    }

    /// Restores one of the objects, if it is not as it was installed.
    async fn ensure<K>(&self, nth: usize, wanted: Value) -> Result<(), ProtectionError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let mut found = self.applier.read::<K>(NAME).await?;
        if found.is_none() {
            // Applied, although that merges it with what a user creates meanwhile: rights can be limited to a name only for
            // requests that have one. So what came of it is compared like any other.
            let object: K = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError)?;
            self.applier.change(Change::apply(&object)).await?;
            found = self.applier.read::<K>(NAME).await?;
        }
        let Some(found) = found else { return Ok(()) };
        let current = spec(&found);
        if self.installed().stored[nth].as_ref() == Some(&current) {
            return Ok(());
        }
        // Not applied, so that fields that a user has added are removed too.
        let patch = replacing_patch(&current, &wanted["spec"]);
        let change = Change::patch(ObjectRef::of(&found), json!({ "spec": patch }));
        // From the response to the write, which the applier hands to the cache: what is read later may have been edited already.
        let written = Arc::<Cache<K>>::default();
        self.applier_to(CacheSet::new([Arc::clone(&written) as _])).change(change).await?;
        self.installed().stored[nth] = written.named(NAME).as_deref().map(spec);
        Ok(())
    }

    /// An applier that hands the responses to its writes to these caches.
    fn applier_to(&self, caches: CacheSet) -> Applier {
        let Context { client, leadership, metrics, .. } = &self.context;
        Applier::new(client.clone(), Self::NAME, leadership.clone(), Arc::clone(metrics), caches)
    }

    fn installed(&self) -> std::sync::MutexGuard<'_, Installed> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for ProtectionController {
    type Key = ();
    type Error = ProtectionError;
    const NAME: &'static str = NAME;

    async fn reconcile(&self, (): &()) -> Result<Requeue, ProtectionError> {
        let [policy, binding] = objects(&self.user().await?);
        self.ensure::<ValidatingAdmissionPolicy>(0, policy).await?;
        self.ensure::<ValidatingAdmissionPolicyBinding>(1, binding).await?;
        Ok(Requeue { recheck: Some(CHECK_INTERVAL), min_interval: MIN_CHECK_INTERVAL })
    }
}

fn spec<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).ok().and_then(|mut object| Some(object.get_mut("spec")?.take())).unwrap_or_default()
}

/// The merge patch that turns what was found into exactly what is wanted.
fn replacing_patch(found: &Value, wanted: &Value) -> Value {
    let (Value::Object(found), Value::Object(wanted)) = (found, wanted) else { return wanted.clone() };
    let mut patch: Map<String, Value> =
        found.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    let of_key =
        |(key, value): (&String, &Value)| (key.clone(), replacing_patch(found.get(key).unwrap_or(&Value::Null), value));
    patch.extend(wanted.iter().map(of_key));
    patch.into()
}

/// Why the policy is not installed.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// The user name of this process is part of the policy.
    #[error(
        "cannot install the protection policy for generated MachineConfigs, so edits are reverted instead: cannot determine the \
         user name of this process: {0}"
    )]
    Identity(#[from] kube::Error),
    #[error("cannot install the protection policy for generated MachineConfigs, so edits are reverted instead: {0}")]
    Write(#[from] WriteError),
}

impl ReconcileError for ProtectionError {
    fn category(&self) -> &'static str {
        match self {
            ProtectionError::Identity(_) => "unavailable",
            ProtectionError::Write(error) => error.category(),
        }
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::Backoff
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{DeleteParams, Patch, PatchParams};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{self, Poll};

    use kube::Client;
    use kube::client::Body;
    use seaworthy_testkit::{Embedded, FaultInjector, FaultRates};
    use tower_service::Service;

    use super::*;

    /// A client whose first patch of the policy is followed by an edit of another user, before its response arrives.
    #[derive(Clone)]
    struct EditedAtOnce {
        client: Client,
        edit: Arc<Mutex<Option<Value>>>,
    }

    impl Service<http::Request<Body>> for EditedAtOnce {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let kind = request.headers().get(http::header::CONTENT_TYPE);
            let is_patch = kind.is_some_and(|kind| kind == "application/merge-patch+json");
            let is_patch_of_policy = is_patch && request.uri().path().contains("policies");
            let edit = is_patch_of_policy.then(|| self.edit.lock().unwrap().take()).flatten();
            let client = self.client.clone();
            Box::pin(async move {
                let response = client.send(request).await.unwrap();
                if let Some(edit) = edit {
                    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client);
                    policies.patch(NAME, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
                }
                Ok(response)
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn edit_right_after_the_policy_was_restored_is_reverted() {
        let cluster = Embedded::start().await;
        let edit = json!({"spec": {"failurePolicy": "Ignore"}});
        let client = EditedAtOnce { client: cluster.client(), edit: Arc::new(Mutex::new(Some(edit))) };
        let context = Context::new(Client::new(client, "default"));
        let (controller, _) = ProtectionController::new(&context);
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
        let failure_policy = async || {
            controller.reconcile(&()).await.unwrap();
            policies.get(NAME).await.unwrap().spec.unwrap().failure_policy
        };
        assert_eq!(failure_policy().await.as_deref(), Some("Ignore"));
        assert_eq!(failure_policy().await.as_deref(), Some("Fail"));
    }

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
    fn patch_turns_any_value_into_the_wanted_one() {
        let wanted = json!({"a": {"b": [1], "c": "x"}, "d": 2});
        for found in [
            json!({"a": {"b": [1, 2], "more": {"e": 1}}, "added": []}),
            json!({"a": "text", "d": {"f": 1}}),
            json!({}),
            wanted.clone(),
        ] {
            assert_eq!(apply(&found, &replacing_patch(&found, &wanted)), wanted, "{found}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn edited_or_deleted_policy_is_restored_and_an_unchanged_one_is_not_written() {
        let cluster = Embedded::start().await;
        let injector = FaultInjector::new(FaultRates { error: 1000, ..FaultRates::default() }, 1);
        let context = Context::new(cluster.client_with_faults(&injector));
        let (controller, _) = ProtectionController::new(&context);
        assert!(controller.reconcile(&()).await.is_err());
        injector.set_rates(FaultRates::default());

        let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client());
        let reconcile = async || {
            controller.reconcile(&()).await.unwrap();
            let policy = policies.get(NAME).await.unwrap();
            (policy.spec, policy.metadata.resource_version, bindings.get(NAME).await.unwrap().spec)
        };
        let installed = reconcile().await;
        assert_eq!(reconcile().await, installed, "not even a new resource version");
        let edit = json!({"spec": {"matchConstraints": {"excludeResourceRules": [{"apiGroups": ["*"],
            "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, "failurePolicy": "Ignore"}});
        policies.patch(NAME, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
        bindings.delete(NAME, &DeleteParams::default()).await.unwrap();
        let restored = reconcile().await;
        assert_eq!((restored.0, restored.2), (installed.0, installed.2));
    }
}
