//! Keeps people's hands off what is made here: an admission policy that says what to write instead.
//!
//! Where the policy cannot be installed (an older Kubernetes, missing rights) the controllers put right what was edited.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use seaworthy_deploy::policy::protection::{NAME, objects};
use seaworthy_runtime::{Applier, WriteError};

use crate::context::Context;

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
    let [policy, binding] = objects(&user);
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).map_err(kube::Error::SerdeError)?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).map_err(kube::Error::SerdeError)?;
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
