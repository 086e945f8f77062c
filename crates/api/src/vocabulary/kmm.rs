//! Vocabulary of kernel modules: labels that carry a module's name, labels and annotations on pods, states, reasons of events.

use crate::vocabulary::key::{Annotation, Finalizer, Label};
use crate::words;

/// Key of a label that names a module: something before and something after `<namespace>.<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleLabel {
    before: &'static str,
    after: &'static str,
}

impl ModuleLabel {
    /// The key for one module.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        format!("{}{namespace}.{name}{}", self.before, self.after)
    }

    /// Namespace and name of the module that a key names, or nothing if the key is not of this form.
    ///
    /// A namespace has no dots and a name may have some, so the first dot separates them.
    pub fn module<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let inner = key.strip_prefix(self.before)?.strip_suffix(self.after)?;
        let (namespace, name) = inner.split_once('.')?;
        let is_namespace =
            |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
        (is_namespace(namespace) && !name.is_empty()).then_some((namespace, name))
    }
}

/// Labels that name a module.
pub mod module_label {
    use super::ModuleLabel;

    const fn suffixed(after: &'static str) -> ModuleLabel {
        ModuleLabel { before: "kmm.node.kubernetes.io/", after }
    }

    const fn stem(before: &'static str) -> ModuleLabel {
        ModuleLabel { before, after: "" }
    }

    /// On a node: the module is loaded as it should be.
    pub const READY: ModuleLabel = suffixed(".ready");
    /// On a node: which version of the module is loaded.
    pub const VERSION_READY: ModuleLabel = suffixed(".version.ready");
    /// On a node: a pod of the module's device plugin is ready.
    pub const DEVICE_PLUGIN_READY: ModuleLabel = suffixed(".device-plugin-ready");
    /// On a node: a pod of the module's driver for dynamic resource allocation is ready.
    pub const DRA_READY: ModuleLabel = suffixed(".dra-ready");
    /// On a node: the module's device plugin should run here.
    pub const DEVICE_PLUGIN_TARGET: ModuleLabel = suffixed(".device-plugin-target");

    /// On a node, by an administrator: which version of the module the node should have.
    pub const VERSION_MODULE: ModuleLabel = stem("kmm.node.kubernetes.io/version-module.");
    /// On a node: which version the loading pod may load.
    pub const VERSION_WORKER_POD: ModuleLabel = stem("beta.kmm.node.kubernetes.io/version-worker-pod.");
    /// On a node: which version of the plugin may run.
    pub const VERSION_SCHEDULE_POD: ModuleLabel = stem("beta.kmm.node.kubernetes.io/version-schedule-pod.");

    /// On a NodeModulesConfig: the module should be loaded.
    pub const CONFIGURED: ModuleLabel =
        ModuleLabel { before: "beta.kmm.node.kubernetes.io/", after: ".module-configured" };
    /// On a NodeModulesConfig: the module is loaded, being loaded or being unloaded.
    pub const IN_USE: ModuleLabel = ModuleLabel { before: "beta.kmm.node.kubernetes.io/", after: ".module-in-use" };
}

pub mod label {
    use super::Label;

    /// On pods, DaemonSets and device classes: name of their module.
    pub const MODULE_NAME: Label = Label("kmm.node.kubernetes.io/module.name");
    /// On device classes: namespace of their module.
    pub const MODULE_NAMESPACE: Label = Label("kmm.node.kubernetes.io/module.namespace");
    /// On DaemonSets and their pods: which [`Role`](super::Role) they play.
    pub const ROLE: Label = Label("kmm.node.kubernetes.io/role");
    /// On building and signing pods: what they do.
    pub const RESOURCE_TYPE: Label = Label("kmm.node.kubernetes.io/resource-type");
    /// On building and signing pods: kernel that the image is for.
    pub const TARGET_KERNEL: Label = Label("kmm.node.kubernetes.io/target-kernel");
    /// On pulling pods: name of the ModuleImagesConfig they look for.
    pub const IMAGE_OWNER: Label = Label("kmm.node.kubernetes.io/image-owner");
    /// On pulling pods: their [`PullPodType`](super::PullPodType).
    pub const PULL_POD_TYPE: Label = Label("kmm.node.kubernetes.io/pull-pod-type");
    /// On loading pods: their [`WorkerAction`](super::WorkerAction).
    pub const WORKER_ACTION: Label = Label("kmm.node.kubernetes.io/worker-action");
    /// On a namespace with modules: it must not be deleted.
    pub const CONTAINS_MODULES: Label = Label("kmm.node.k8s.io/contains-modules");
    /// On a ManifestWork: module of the hub that it comes from.
    pub const MANAGED_CLUSTER_MODULE_NAME: Label = Label("kmm.node.kubernetes.io/managedclustermodule.name");

    /// The older form of [`READY`](super::module_label::READY), without the namespace; removed on sight.
    pub fn deprecated_ready(module: &str) -> String {
        format!("kmm.node.kubernetes.io/{module}.ready")
    }
}

pub mod annotation {
    use super::Annotation;

    /// On loading pods: what they load, as YAML.
    pub const WORKER_CONFIG: Annotation = Annotation("kmm.node.kubernetes.io/worker-config");
    /// On loading pods: hash of the pod, to notice that it is outdated.
    pub const WORKER_HASH: Annotation = Annotation("kmm.node.kubernetes.io/worker-hash");
    /// On loading pods: tolerations of the module.
    pub const WORKER_TOLERATIONS: Annotation = Annotation("kmm.node.kubernetes.io/worker-tolerations");
    /// On loading pods: version of the module.
    pub const WORKER_MODULE_VERSION: Annotation = Annotation("kmm.node.kubernetes.io/worker-module-version");
    /// On loading pods: order in which modules depend on each other.
    pub const MODULES_ORDER: Annotation = Annotation("kmm.node.kubernetes.io/modules-order");
    /// On building and signing pods: hash of the pod and its inputs.
    pub const LAST_HASH: Annotation = Annotation("kmm.node.kubernetes.io/last-hash");
    /// On signing pods: the Dockerfile.
    pub const DOCKERFILE: Annotation = Annotation("dockerfile");
    /// On building and signing pods: the event about their creation was sent.
    pub const CREATED_EVENT_SENT: Annotation = Annotation("kmm.node.kubernetes.io/created-event-sent");
}

pub mod finalizer {
    use super::Finalizer;

    /// On a Module, until it is unloaded everywhere.
    pub const MODULE: Finalizer = Finalizer("kmm.node.kubernetes.io/module-finalizer");
    /// On loading pods, until their outcome is recorded.
    pub const WORKER_POD: Finalizer = Finalizer("kmm.node.kubernetes.io/nodemodulesconfig-reconciler");
    /// On building and signing pods, until the configured delay is over.
    pub const GC_DELAY: Finalizer = Finalizer("kmm.node.kubernetes.io/gc-delay");
    /// On building and signing pods, until the event about their end was sent.
    pub const JOB_EVENT: Finalizer = Finalizer("kmm.node.kubernetes.io/job-event-finalizer");
    /// On plugin and driver pods, until the node's label is gone.
    pub const NODE_LABELER: Finalizer = Finalizer("kmm.node.kubernetes.io/node-labeler");
    /// On a BootModuleConfig, until its node disruption policies are gone.
    pub const BOOT_MODULE_CONFIG: Finalizer = Finalizer("kmm.node.kubernetes.io/bmc-finalizer");
}

words! {
    /// Whether an image exists.
    pub enum ImageStatus {
        /// A node could pull it.
        Exists = "Exists",
        /// No node could pull it.
        DoesNotExist = "DoesNotExist",
    }
}

words! {
    /// How far building and signing an image are.
    pub enum BuildState {
        /// It waits to be built.
        NeedsBuilding = "NeedsBuilding",
        /// It is being built.
        Building = "Building",
        /// It could not be built.
        BuildFailed = "BuildFailed",
        /// It waits to be signed.
        NeedsSigning = "NeedsSigning",
        /// It is being signed.
        Signing = "Signing",
        /// It could not be signed.
        SignFailed = "SignFailed",
    }
}

words! {
    /// What a DaemonSet of a module does.
    pub enum Role {
        /// It is a device plugin.
        DevicePlugin = "device-plugin",
        /// It is a driver for dynamic resource allocation.
        Dra = "dra",
        /// It loads the module, as older versions did.
        ModuleLoader = "module-loader",
    }
}

words! {
    /// How long a pulling pod tries.
    pub enum PullPodType {
        /// Until the first answer.
        OneTimePull = "one-time-pull",
        /// Until the image is there.
        UntilSuccess = "until-success",
    }
}

words! {
    /// What a loading pod does.
    pub enum WorkerAction {
        /// It loads the module.
        Load = "Load",
        /// It unloads the module.
        Unload = "Unload",
    }
}

words! {
    /// What the verification of a module for another kernel found.
    pub enum VerificationStatus {
        /// The module is ready.
        Success = "Success",
        /// It is not.
        Failure = "Failure",
        /// It is not known yet.
        InProgress = "InProgress",
    }
}

words! {
    /// How far the verification of a module for another kernel is.
    pub enum VerificationStage {
        /// The image is being looked for.
        Image = "Image",
        /// It ended.
        Done = "Done",
    }
}

words! {
    /// Reasons of events about kernel modules.
    pub enum EventReason {
        /// A build began.
        BuildCreated = "BuildCreated",
        /// A build ended well.
        BuildSucceeded = "BuildSucceeded",
        /// A build failed.
        BuildFailed = "BuildFailed",
        /// Signing began.
        SignCreated = "SignCreated",
        /// Signing ended well.
        SignSucceeded = "SignSucceeded",
        /// Signing failed.
        SignFailed = "SignFailed",
        /// A module was loaded on a node.
        ModuleLoaded = "ModuleLoaded",
        /// A module was unloaded from a node.
        ModuleUnloaded = "ModuleUnloaded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_its_module_and_is_read_back() {
        let key = module_label::IN_USE.key("ns", "my.mod");
        assert_eq!(key, "beta.kmm.node.kubernetes.io/ns.my.mod.module-in-use");
        assert_eq!(module_label::IN_USE.module(&key), Some(("ns", "my.mod")));
        assert_eq!(
            module_label::VERSION_WORKER_POD.key("ns", "m"),
            "beta.kmm.node.kubernetes.io/version-worker-pod.ns.m"
        );
    }

    #[test]
    fn a_key_of_another_form_names_no_module() {
        for key in [
            "kmm.node.kubernetes.io/ns.mod.ready",
            "beta.kmm.node.kubernetes.io/mod.module-in-use",
            "beta.kmm.node.kubernetes.io/.mod.module-in-use",
            "beta.kmm.node.kubernetes.io/n_s.mod.module-in-use",
            "beta.kmm.node.kubernetes.io/ns..module-in-use",
        ] {
            assert_eq!(module_label::IN_USE.module(key), None, "{key}");
        }
    }
}
