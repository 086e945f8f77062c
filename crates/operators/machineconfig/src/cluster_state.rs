//! Cluster state: the objects of a cluster at one moment, for commands to read and for previews to change in memory.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::meta::is_object;
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_change::{Decision, ObjectRef, TableConflict, Tables, group_and_kind, memory};
use seaworthy_ignition::Severity;
use seaworthy_plan::rendering::choice::ChoiceObjects;
use seaworthy_plan::rendering::is_rendered;
use seaworthy_preview::{self as preview, Admission, AdmissionIssue, ApplyResult, PreviewPart, PreviewProblem};
use seaworthy_runtime::cluster::ClusterError;
use seaworthy_runtime::tables::{OmissionReason, OmittedKind, fill, fill_readable};
use serde_json::Value;

/// The objects of a cluster at one moment: those of this operator, and those that the preview parts of all operators read.
#[derive(Clone, Debug)]
pub struct ClusterState {
    objects: Tables,
    /// Whether pods were read, or given. A preview part may have a table of pods in either case.
    has_pods: bool,
    /// The kinds of preview parts that could not be read. They have no table.
    omitted: Vec<OmittedKind>,
}

/// What is read of a cluster.
#[derive(Clone, Copy)]
pub enum ReadScope<'p> {
    /// The kinds of this operator, without pods: they are many.
    Own,
    /// Those, and what `pending` of these parts reads.
    Pending(&'p [Box<dyn PreviewPart>]),
    /// Everything that a preview with these parts needs: also pods, and all kinds of the parts.
    Preview(&'p [Box<dyn PreviewPart>]),
}

impl Default for ClusterState {
    /// A cluster without objects, of which pods were not read.
    fn default() -> ClusterState {
        ClusterState { objects: own_tables(), has_pods: false, omitted: Vec::new() }
    }
}

impl ClusterState {
    /// A cluster with these objects.
    ///
    /// # Errors
    ///
    /// If they have another type for a kind than this operator.
    pub fn of(mut objects: Tables) -> Result<ClusterState, TableConflict> {
        let has_pods = objects.get::<Pod>().is_some();
        objects.extend(own_tables())?;
        Ok(ClusterState { objects, has_pods, omitted: Vec::new() })
    }

    /// With tables for what these preview parts read.
    ///
    /// # Errors
    ///
    /// If the parts have different types for a kind.
    pub fn with_parts(mut self, parts: &[Box<dyn PreviewPart>]) -> Result<ClusterState, TableConflict> {
        self.objects.extend(further(preview::tables(parts)?)?)?;
        Ok(self)
    }

    /// Reads a cluster.
    ///
    /// # Errors
    ///
    /// If something cannot be read, except for kinds of preview parts that are not served or that this user may not list: their
    /// parts do not run.
    pub async fn read(client: &Client, scope: ReadScope<'_>) -> Result<ClusterState, ClusterError> {
        let (mut objects, has_pods, further_tables) = match scope {
            ReadScope::Own => (own_tables(), false, Ok(Tables::default())),
            ReadScope::Pending(parts) => (own_tables(), false, preview::pending_tables(parts)),
            ReadScope::Preview(parts) => (own_tables().with::<Pod>(), true, preview::tables(parts)),
        };
        let conflict = |conflict: TableConflict| ClusterError(conflict.to_string());
        let mut further_tables = further_tables.and_then(further).map_err(conflict)?.without::<Pod>();
        fill(client, &mut objects).await?;
        let omitted = fill_readable(client, &mut further_tables).await?;
        objects.extend(further_tables).map_err(conflict)?;
        Ok(ClusterState { objects, has_pods, omitted })
    }

    /// The same without its pods, as if they were not read.
    #[must_use]
    pub fn without_pods(&self) -> ClusterState {
        let ClusterState { objects, omitted, .. } = self;
        ClusterState { objects: objects.clone().without::<Pod>(), has_pods: false, omitted: omitted.clone() }
    }

    pub fn objects(&self) -> &Tables {
        &self.objects
    }

    pub fn objects_mut(&mut self) -> &mut Tables {
        &mut self.objects
    }

    /// The object that a manifest names, in this namespace if it names none. `None` for a kind that no operator reads.
    pub fn object_of(&self, manifest: &Value, namespace: &str) -> Option<ObjectRef> {
        let (group, kind) = group_and_kind(manifest);
        let resource = self.objects.resource_of_kind(group, kind).or_else(|| {
            let mut omitted = self.omitted.iter().map(|omitted| &omitted.resource);
            omitted.find(|resource| resource.group == group && resource.kind == kind)
        });
        Some(preview::object_of(manifest, namespace, resource?))
    }

    /// Applies a manifest, in memory, in this namespace if it names none.
    ///
    /// # Errors
    ///
    /// If the API would refuse it; then nothing is changed.
    pub fn apply(
        &mut self,
        manifest: &Value,
        namespace: &str,
        admission: &Admission,
        now: Timestamp,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        if is_object::<Pod>(manifest) {
            // Pods are not read for every command. Where they are given, the drains that they block are shown.
            self.objects.add::<Pod>();
            self.has_pods = true;
        }
        self.refuse_unserved(manifest, namespace)?;
        preview::apply(&mut self.objects, manifest, namespace, admission, now)
    }

    /// Deletes the object that a manifest names, in memory, in this namespace if it names none. What was generated from it is
    /// deleted when the controllers decide.
    ///
    /// # Errors
    ///
    /// If the API would refuse it, or there is no such object; then nothing is changed.
    pub fn delete(
        &mut self,
        manifest: &Value,
        namespace: &str,
        admission: &Admission,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        self.refuse_unserved(manifest, namespace)?;
        preview::delete(&mut self.objects, manifest, namespace, admission)
    }

    /// Refuses a manifest of a kind that the cluster does not serve.
    fn refuse_unserved(&self, manifest: &Value, namespace: &str) -> Result<(), Vec<AdmissionIssue>> {
        let (group, kind) = group_and_kind(manifest);
        let is_it = |omitted: &&OmittedKind| {
            let OmittedKind { resource, reason } = omitted;
            *reason == OmissionReason::NotServed && resource.group == group && resource.kind == kind
        };
        let Some(OmittedKind { resource, .. }) = self.omitted.iter().find(is_it) else { return Ok(()) };
        let message = format!(
            "the cluster does not serve {} {} (404); to install it: seaworthy crds | kubectl apply --server-side -f -",
            resource.api_version(),
            resource.plural
        );
        Err(vec![AdmissionIssue::refused(preview::object_of(manifest, namespace, resource), "", message)])
    }

    /// Warnings about the kinds that this user may not list.
    pub fn unreadable(&self) -> impl Iterator<Item = PreviewProblem> {
        self.omitted.iter().filter_map(|OmittedKind { resource, reason }| {
            let OmissionReason::Forbidden(answer) = reason else { return None };
            let message = format!(
                "{resource}: its objects cannot be listed, so this leaves out what their controllers would do: {answer}"
            );
            Some(PreviewProblem::new(Severity::Warning, "kind-not-readable", message).incomplete())
        })
    }

    pub fn pools(&self) -> &[Arc<MachineConfigPool>] {
        self.objects.of()
    }

    /// Sources, generated and rendered ones.
    pub fn machine_configs(&self) -> &[Arc<MachineConfig>] {
        self.objects.of()
    }

    /// The MachineConfigs that are not rendered.
    pub fn sources(&self) -> Vec<Arc<MachineConfig>> {
        sources(&self.objects)
    }

    /// What the choice about a pool looks at.
    pub fn choice_objects(&self) -> ChoiceObjects<'_> {
        ChoiceObjects {
            pools: Cow::Borrowed(self.pools()),
            sources: self.sources(),
            find: Box::new(|name: &str| self.machine_config(name).cloned()),
            controller_config: self.controller_config().cloned(),
            kubelet_configs: Cow::Borrowed(self.kubelet_configs()),
            container_runtime_configs: Cow::Borrowed(self.container_runtime_configs()),
        }
    }

    pub fn kubelet_configs(&self) -> &[Arc<KubeletConfig>] {
        self.objects.of()
    }

    pub fn container_runtime_configs(&self) -> &[Arc<ContainerRuntimeConfig>] {
        self.objects.of()
    }

    pub fn nodes(&self) -> &[Arc<Node>] {
        self.objects.of()
    }

    /// The progress of each node.
    pub fn progress(&self) -> &[Arc<MachineConfigNode>] {
        self.objects.of()
    }

    /// Node disruption policies.
    pub fn policies(&self) -> &[Arc<MachineConfiguration>] {
        self.objects.of()
    }

    /// `None` if they were not read.
    pub fn pods(&self) -> Option<&[Arc<Pod>]> {
        self.objects.get().filter(|_| self.has_pods)
    }

    /// Limits of drains.
    pub fn budgets(&self) -> &[Arc<PodDisruptionBudget>] {
        self.objects.of()
    }

    /// Performs a decision on these objects, as the applier would on the cluster. A change that cannot be performed is a bug,
    /// and returned as a problem.
    #[must_use = "a change that was not performed is a problem to report"]
    pub fn perform<R>(&mut self, decision: &Decision<'_, R>, now: Timestamp) -> Option<PreviewProblem> {
        let error = memory::perform(decision, &mut self.objects, now).result().err()?;
        Some(PreviewProblem::unperformed(&error))
    }

    pub fn controller_config(&self) -> Option<&Arc<ControllerConfig>> {
        self.objects.named(CONTROLLER_CONFIG)
    }

    pub fn pool(&self, name: &str) -> Option<&Arc<MachineConfigPool>> {
        self.objects.named(name)
    }

    pub fn machine_config(&self, name: &str) -> Option<&Arc<MachineConfig>> {
        self.objects.named(name)
    }
}

/// Empty tables of the kinds that this operator reads; pods are read on request.
fn own_tables() -> Tables {
    Tables::default()
        .with::<MachineConfigPool>()
        .with::<MachineConfig>()
        .with::<KubeletConfig>()
        .with::<ContainerRuntimeConfig>()
        .with::<ControllerConfig>()
        .with::<Node>()
        .with::<MachineConfigNode>()
        .with::<MachineConfiguration>()
        .with::<PodDisruptionBudget>()
}

/// Tables beside those of this operator.
///
/// # Errors
///
/// If they have another type for one of its kinds.
fn further(mut tables: Tables) -> Result<Tables, TableConflict> {
    let own = own_tables();
    own.clone().with::<Pod>().extend(tables.clone())?;
    tables.retain(|table| !own.has(table.resource()));
    Ok(tables)
}

/// The MachineConfigs that are not rendered.
pub(crate) fn sources(objects: &Tables) -> Vec<Arc<MachineConfig>> {
    objects.of::<MachineConfig>().iter().filter(|object| !is_rendered(object)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use k8s_openapi::api::storage::v1::StorageClass;
    use kube::client::Body;
    use seaworthy_preview::PreviewRound;
    use serde_json::json;

    use super::*;
    use crate::protection::rule::tests::admission;

    /// A part of another operator.
    struct ClassPart;

    impl PreviewPart for ClassPart {
        fn tables(&self) -> Tables {
            Tables::default().with::<StorageClass>().with::<Pod>().with::<Node>().with::<MachineConfig>()
        }

        fn pending_tables(&self) -> Tables {
            Tables::default().with::<StorageClass>().with::<Pod>()
        }

        fn reconcile(&self, _: &mut PreviewRound<'_>) {
            panic!("it runs without its kind");
        }
    }

    fn parts() -> Vec<Box<dyn PreviewPart>> {
        vec![Box::new(ClassPart)]
    }

    /// Reads a cluster that answers the list of storage classes with this code. Returns the names of the lists that were read.
    async fn read(code: u16, scope: ReadScope<'_>) -> (Result<ClusterState, ClusterError>, Vec<String>) {
        let listed = Arc::new(Mutex::new(Vec::new()));
        let lists = Arc::clone(&listed);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let list = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let code = if list == "storageclasses" { code } else { 200 };
            let reason = if code == 404 { "NotFound" } else { "Forbidden" };
            let body = match code {
                200 => json!({"metadata": {}, "items": []}),
                code => json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}),
            };
            lists.lock().unwrap().push(list);
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
        });
        let state = ClusterState::read(&Client::new(service, "default"), scope).await;
        let mut listed = listed.lock().unwrap().clone();
        listed.sort();
        (state, listed)
    }

    fn class() -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "a"})
    }

    #[tokio::test]
    async fn kind_of_another_operator_that_may_not_be_listed_is_left_out_with_a_warning() {
        let (state, _) = read(403, ReadScope::Preview(&parts())).await;
        let mut state = state.unwrap();
        let warnings: Vec<PreviewProblem> = state.unreadable().collect();
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert_eq!((warning.severity, warning.code), (Severity::Warning, "kind-not-readable"));
        assert!(warning.leaves_preview_incomplete);
        assert!(warning.message.starts_with("StorageClass: ") && warning.message.ends_with("no (403)"), "{warning:?}");
        assert_eq!(preview::run_to_fixpoint(state.objects_mut(), &parts(), "b", Timestamp::UNIX_EPOCH).len(), 0);
    }

    #[tokio::test]
    async fn manifest_of_a_kind_that_is_not_served_is_refused() {
        let (state, _) = read(404, ReadScope::Preview(&parts())).await;
        let mut state = state.unwrap();
        assert_eq!(state.unreadable().count(), 0, "its operator is off");
        assert_eq!(preview::run_to_fixpoint(state.objects_mut(), &parts(), "b", Timestamp::UNIX_EPOCH).len(), 0);
        let admission = admission().for_changes();
        let refused = state.apply(&class(), "default", &admission, Timestamp::UNIX_EPOCH).unwrap_err();
        let message = refused[0].to_string();
        assert!(
            refused[0].is_refusal() && message.contains("StorageClass fast: the cluster does not serve"),
            "{message}"
        );
        assert!(state.delete(&class(), "default", &admission).is_err());
        let (state, _) = read(200, ReadScope::Preview(&parts())).await;
        assert!(state.unwrap().apply(&class(), "default", &admission, Timestamp::UNIX_EPOCH).is_ok());
    }

    #[tokio::test]
    async fn only_what_a_command_needs_is_listed() {
        let own = [
            "containerruntimeconfigs",
            "controllerconfigs",
            "kubeletconfigs",
            "machineconfignodes",
            "machineconfigpools",
            "machineconfigs",
            "machineconfigurations",
            "nodes",
            "poddisruptionbudgets",
        ];
        let with = |more: &[&str]| {
            let mut all: Vec<String> = own.iter().chain(more).map(|list| (*list).to_owned()).collect();
            all.sort();
            all
        };
        let parts = parts();
        assert_eq!(read(200, ReadScope::Own).await.1, with(&[]));
        assert_eq!(read(200, ReadScope::Preview(&parts)).await.1, with(&["pods", "storageclasses"]));
        // A part that has a table of pods does not have them read.
        let (state, listed) = read(200, ReadScope::Pending(&parts)).await;
        assert_eq!(listed, with(&["storageclasses"]));
        assert_eq!(state.unwrap().pods(), None);
        // Parts that read nothing for `pending` have nothing listed.
        let own_parts = crate::preview::parts(Arc::default());
        assert_eq!(read(200, ReadScope::Pending(&own_parts)).await.1, with(&[]));
    }

    #[test]
    fn pods_are_unknown_although_a_part_has_a_table_of_them() {
        let mut state = ClusterState::default().with_parts(&parts()).unwrap();
        assert_eq!(state.pods(), None);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}});
        state.apply(&pod, "shop", &admission(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(state.pods().map(<[_]>::len), Some(1));
        assert_eq!(state.without_pods().pods(), None);
    }
}
