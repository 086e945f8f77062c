//! Admission policies of a cluster: what one that is absent would refuse is reverted by controllers.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Api, Client};
use seaworthy_preview::Admission;

/// The admission of changes of this cluster, which may have each policy or not. It is assumed to if that cannot be read.
pub async fn for_changes_to(client: &Client, admission: Admission) -> Admission {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let mut absent = Vec::new();
    for policy in admission.policies() {
        if let Ok(None) = bindings.get_opt(policy).await {
            absent.push(policy);
        }
    }
    admission.for_changes().without_policies(absent)
}
