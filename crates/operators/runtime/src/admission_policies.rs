//! Admission policies of a cluster: what one that is absent would refuse is reverted by controllers.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::{Api, Client};
use seaworthy_preview::Admission;

/// The admission of changes of this cluster, which enforces a policy if it has both the policy and the binding of its name. It is
/// assumed to have what cannot be read.
pub async fn for_changes_to(client: &Client, admission: Admission) -> Admission {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let mut absent = Vec::new();
    for name in admission.policies() {
        if matches!(policies.get_opt(name).await, Ok(None)) || matches!(bindings.get_opt(name).await, Ok(None)) {
            absent.push(name);
        }
    }
    admission.for_changes().without_policies(absent)
}
