//! What the server does by itself after a write: definitions come into force, access rules are read anew.

mod aggregation;
mod defaults;
mod definitions;

use crate::server::Server;

/// Where definitions are stored.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

impl Server {
    /// Makes what must always be there, and finishes what a former run may have left half done.
    pub async fn prepare(&self) -> Result<(), seaworthy_store::CommitError> {
        defaults::ensure(self).await?;
        definitions::settle(self).await;
        aggregation::settle(self).await;
        self.refresh_registry();
        self.refresh_policy();
        self.refresh_admission();
        Ok(())
    }

    /// Follows a write to a resource, before it is answered: who reads the answer can rely on its consequences.
    pub(crate) async fn follow_up(&self, resource: &str) {
        if resource == DEFINITIONS {
            definitions::settle(self).await;
            self.refresh_registry();
        } else if resource.starts_with("rbac.authorization.k8s.io/") {
            aggregation::settle(self).await;
            self.refresh_policy();
        } else if resource.starts_with("admissionregistration.k8s.io/") {
            self.refresh_admission();
        }
    }
}
