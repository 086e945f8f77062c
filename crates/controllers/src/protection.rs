//! Keeps people's hands off what is made here: an admission policy that says what to write instead.
//!
//! Where the policy cannot be installed (an older Kubernetes, missing rights) the controllers put right what was edited.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use seaworthy_runtime::{Applier, WriteError};
use serde_json::{Value, json};

use crate::context::Context;

/// Name of the policy, its binding, and the field manager of both.
pub const NAME: &str = "seaworthy-protection";

/// Those who delete on behalf of others: what is gone with its owner was deleted by a person's wish.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// Installs the protection, then waits for ever: nothing is left to do.
pub async fn run(context: Context) {
    let applier = context.applier(NAME);
    match install(&context, &applier).await {
        Ok(()) => {}
        Err(error) => tracing::warn!(
            %error,
            "generated MachineConfigs are not protected by a policy; what is edited will be put right instead"
        ),
    }
    std::future::pending().await
}

async fn install(context: &Context, applier: &Applier) -> Result<(), InstallError> {
    let reviews: Api<SelfSubjectReview> = Api::all(context.client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    let user = review.status.and_then(|status| status.user_info?.username).unwrap_or_default();
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy(&user)).map_err(kube::Error::SerdeError)?;
    let binding: ValidatingAdmissionPolicyBinding =
        serde_json::from_value(binding()).map_err(kube::Error::SerdeError)?;
    applier.apply(&policy).await?;
    applier.apply(&binding).await?;
    Ok(())
}

/// Why the protection is not there.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("who we are cannot be found out: {0}")]
    Identity(#[from] kube::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The policy, for controllers that act as `user`.
pub fn policy(user: &str) -> Value {
    let exempt: Vec<&str> = COLLECTORS.into_iter().chain([user]).collect();
    let generated_by = "machineconfiguration.openshift.io/generated-by-controller-version";
    let owner = "has(variables.subject.metadata.ownerReferences) \
                 ? variables.subject.metadata.ownerReferences.filter(o, has(o.controller) && o.controller) : []";
    let instead = "variables.isRendered \
        ? 'it is rendered from the MachineConfigs of its pool; create or change one of those' \
        : variables.owners.exists(o, o.kind in ['KubeletConfig', 'ContainerRuntimeConfig']) \
        ? 'it is made from ' + variables.owners[0].kind + ' ' + variables.owners[0].name + '; change that' \
        : 'it is part of the platform; create a MachineConfig of your own, with the label \
           machineconfiguration.openshift.io/role and a name that sorts after it'";
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["machineconfiguration.openshift.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["machineconfigs"],
            }]},
            "matchConditions": [{
                "name": "people",
                "expression": format!("!(request.userInfo.username in {})", json!(exempt)),
            }],
            "variables": [
                {"name": "subject", "expression": "request.operation == 'CREATE' ? object : oldObject"},
                {"name": "name", "expression": "has(variables.subject.metadata.name) ? variables.subject.metadata.name \
                    : has(variables.subject.metadata.generateName) ? variables.subject.metadata.generateName : ''"},
                {"name": "isRendered", "expression": "variables.name.startsWith('rendered-')"},
                {"name": "isGenerated", "expression": format!(
                    "has(variables.subject.metadata.annotations) && '{generated_by}' in variables.subject.metadata.annotations \
                     && variables.subject.metadata.annotations['{generated_by}'] != ''")},
                {"name": "owners", "expression": owner},
                {"name": "keepsContent", "expression": "request.operation == 'UPDATE' \
                    && has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)"},
            ],
            "validations": [{
                "expression": "!(variables.isRendered || variables.isGenerated) || variables.keepsContent",
                "messageExpression":
                    format!("'MachineConfig ' + variables.name + ' is kept by Seaworthy: ' + ({instead})"),
                "reason": "Forbidden",
            }],
        },
    })
}

/// The binding that puts the policy into force.
pub fn binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    })
}
