//! Vocabulary of machine configuration: keys on nodes, pools and MachineConfigs, states of nodes, conditions, reasons, events.

use crate::vocabulary::key::{Annotation, Label, Taint};
use crate::words;

/// Name of the one ControllerConfig.
pub const CONTROLLER_CONFIG: &str = "machine-config-controller";
/// Name of the one MachineConfiguration.
pub const MACHINE_CONFIGURATION: &str = "cluster";
/// Placeholder in a MachineConfigNode for a pool or configuration that is not known yet.
pub const NOT_YET_SET: &str = "not-yet-set";
/// Prefix of the names of rendered MachineConfigs.
pub const RENDERED_PREFIX: &str = "rendered-";

/// The pool of the control plane.
pub const MASTER: &str = "master";
/// The pool that custom pools inherit from.
pub const WORKER: &str = "worker";
/// The pool of the node that keeps quorum with two control-plane nodes.
pub const ARBITER: &str = "arbiter";

/// On every node of a pool that is still to be given the target; written by the roll-out controller.
pub const UPDATE_IN_PROGRESS: Taint = Taint { key: "UpdateInProgress", effect: "PreferNoSchedule" };

pub mod label {
    use super::Label;

    /// On a MachineConfig: the role it is for; written by its author, selected by pools.
    pub const ROLE: Label = Label("machineconfiguration.openshift.io/role");
    /// On a pool: it came with the platform.
    pub const BUILT_IN: Label = Label("machineconfiguration.openshift.io/mco-built-in");
    /// On a pool: an upgrade waits until it is updated.
    pub const REQUIRED_FOR_UPGRADE: Label = Label("operator.machineconfiguration.openshift.io/required-for-upgrade");
    /// Prefix of the label by which KubeletConfigs select a built-in pool; the pool's name follows.
    pub const POOL_PREFIX: &str = "pools.operator.machineconfiguration.openshift.io/";
    /// Prefix of a node's role labels; the role follows.
    pub const NODE_ROLE_PREFIX: &str = "node-role.kubernetes.io/";
    /// On a node of the built-in pool `master`.
    pub const NODE_ROLE_MASTER: Label = Label("node-role.kubernetes.io/master");
    /// On a node of the control plane.
    pub const NODE_ROLE_CONTROL_PLANE: Label = Label("node-role.kubernetes.io/control-plane");
    /// On a node of the built-in pool `worker`.
    pub const NODE_ROLE_WORKER: Label = Label("node-role.kubernetes.io/worker");
    /// On a node of the built-in pool `arbiter`.
    pub const NODE_ROLE_ARBITER: Label = Label("node-role.kubernetes.io/arbiter");
    /// On a node: its operating system; Windows nodes belong to no pool.
    pub const OS: Label = Label("kubernetes.io/os");
    /// On a node: its zone; candidates are taken zone by zone.
    pub const ZONE: Label = Label("topology.kubernetes.io/zone");
}

/// Annotations of nodes.
pub mod node {
    use super::Annotation;

    /// The rendered MachineConfig that the node should run; written by the roll-out controller.
    pub const DESIRED_CONFIG: Annotation = Annotation("machineconfiguration.openshift.io/desiredConfig");
    /// The rendered MachineConfig that the node runs; written by the node daemon, first by the Ignition endpoint.
    pub const CURRENT_CONFIG: Annotation = Annotation("machineconfiguration.openshift.io/currentConfig");
    /// The built image that the node should run; written by the roll-out controller.
    pub const DESIRED_IMAGE: Annotation = Annotation("machineconfiguration.openshift.io/desiredImage");
    /// The built image that the node runs; written by the node daemon.
    pub const CURRENT_IMAGE: Annotation = Annotation("machineconfiguration.openshift.io/currentImage");
    /// What the node daemon is doing, one of [`State`](super::State); written by the node daemon.
    pub const STATE: Annotation = Annotation("machineconfiguration.openshift.io/state");
    /// Why the state is what it is, at most [`MAX_REASON_CHARS`] characters; written by the node daemon.
    pub const REASON: Annotation = Annotation("machineconfiguration.openshift.io/reason");
    /// Longest text in [`REASON`].
    pub const MAX_REASON_CHARS: usize = 2000;
    /// The rendered MachineConfig that the node booted with first; written by the Ignition endpoint.
    pub const FIRST_PIVOT_CONFIG: Annotation = Annotation("machineconfiguration.openshift.io/firstPivotConfig");
    /// The labels of the node's custom pool were applied; written by the roll-out controller.
    pub const CUSTOM_POOL_LABELS_APPLIED: Annotation =
        Annotation("machineconfiguration.openshift.io/customPoolLabelsApplied");
    /// How many control-plane nodes the cluster has; written by the roll-out controller.
    pub const CONTROL_PLANE_TOPOLOGY: Annotation = Annotation("machineconfiguration.openshift.io/controlPlaneTopology");
    /// `drain-` or `uncordon-` and a rendered name: what the node daemon asks the drain controller for.
    pub const DESIRED_DRAIN: Annotation = Annotation("machineconfiguration.openshift.io/desiredDrain");
    /// The last request that the drain controller has fulfilled.
    pub const LAST_APPLIED_DRAIN: Annotation = Annotation("machineconfiguration.openshift.io/lastAppliedDrain");
    /// `Rebooting` before a reboot, empty after it; written by the node daemon.
    pub const POST_CONFIG_ACTION: Annotation = Annotation("machineconfiguration.openshift.io/post-config-action");
    /// Error of the previous boot's staged deployment; written by the node daemon.
    pub const FINALIZE_FAILURE: Annotation =
        Annotation("machineconfiguration.openshift.io/ostree-finalize-staged-failure");
    /// Version of the ControllerConfig whose certificates the node has; written by the node daemon.
    pub const LAST_SYNCED_CONTROLLER_CONFIG: Annotation =
        Annotation("machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion");
    /// Rotation of the API server's certificates that the node has seen; written by the node daemon.
    pub const LAST_OBSERVED_SERVER_CA: Annotation =
        Annotation("machineconfiguration.openshift.io/lastObservedServerCAAnnotation");
}

/// Annotations of MachineConfigs and of the objects that they are made from.
pub mod annotation {
    use super::Annotation;

    /// On a MachineConfig: build of the controller that made it; non-empty marks it as generated.
    pub const GENERATED_BY_CONTROLLER_VERSION: Annotation =
        Annotation("machineconfiguration.openshift.io/generated-by-controller-version");
    /// On the ControllerConfig and on rendered MachineConfigs: version of the release.
    pub const RELEASE_IMAGE_VERSION: Annotation = Annotation("machineconfiguration.openshift.io/release-image-version");
    /// On the ControllerConfig: whether the node daemons follow a rotation of the service certificates.
    pub const SERVICE_CA_ROTATE: Annotation = Annotation("machineconfiguration.openshift.io/service-ca-rotate");
    /// On a rendered MachineConfig: `true` if an input chose the operating system image; written by the render controller.
    pub const OS_IMAGE_URL_OVERRIDDEN: Annotation =
        Annotation("machineconfiguration.openshift.io/os-image-url-overridden");
    /// On a MachineConfig: the image that was built for the pool ahead of time.
    pub const PRE_BUILT_IMAGE: Annotation = Annotation("machineconfiguration.openshift.io/pre-built-image");
    /// On a KubeletConfig or ContainerRuntimeConfig: number of its MachineConfig, empty for the first; written by their
    /// controllers.
    pub const MC_NAME_SUFFIX: Annotation = Annotation("machineconfiguration.openshift.io/mc-name-suffix");
}

words! {
    /// States of the node daemon, in the node annotation [`STATE`](node::STATE).
    pub enum State {
        /// The node runs its desired configuration.
        Done = "Done",
        /// An update is under way.
        Working = "Working",
        /// An update failed; it is tried again.
        Degraded = "Degraded",
        /// The desired configuration cannot be reached from the current one.
        Unreconcilable = "Unreconcilable",
        /// The node is about to reboot.
        Rebooting = "Rebooting",
    }
}

words! {
    /// Kernel flavours, in a MachineConfig's `kernelType`.
    pub enum KernelType {
        /// The usual kernel; an empty text means the same.
        Default = "default",
        /// The real-time kernel.
        Realtime = "realtime",
        /// The kernel with pages of 64 KiB, for aarch64.
        Pages64k = "64k-pages",
    }
}

words! {
    /// Condition types of MachineConfigPools.
    pub enum PoolCondition {
        /// Every node runs the target configuration.
        Updated = "Updated",
        /// Nodes are moving to the target configuration.
        Updating = "Updating",
        /// A node has failed.
        NodeDegraded = "NodeDegraded",
        /// The pool's MachineConfigs cannot be rendered.
        RenderDegraded = "RenderDegraded",
        /// The pool's image cannot be built. Set by other controllers only, and part of `Degraded`.
        ImageBuildDegraded = "ImageBuildDegraded",
        /// The pool's images cannot be pinned. Upstream's, never set here.
        PinnedImageSetsDegraded = "PinnedImageSetsDegraded",
        /// Work beside configuration has failed. Upstream's, never set here.
        PoolSynchronizerDegraded = "PoolSynchronizerDegraded",
        /// Any of the above has failed.
        Degraded = "Degraded",
        /// Of older releases: an image build waits. Upstream's, never set here.
        BuildPending = "BuildPending",
        /// Of older releases: an image is being built. Upstream's, never set here.
        Building = "Building",
        /// Of older releases: the image was built. Upstream's, never set here.
        BuildSuccess = "BuildSuccess",
        /// Of older releases: the image could not be built. Upstream's, never set here.
        BuildFailed = "BuildFailed",
        /// Of older releases: the image build was stopped. Upstream's, never set here.
        BuildInterrupted = "BuildInterrupted",
    }
}

words! {
    /// Reasons of the pool condition `RenderDegraded`; upstream leaves the reason empty.
    pub enum RenderReason {
        /// The selector matches no MachineConfig.
        NoMachineConfigs = "NoMachineConfigs",
        /// An input is not valid, or the merged result is not.
        InvalidMachineConfig = "InvalidMachineConfig",
        /// The result changes what a running node cannot apply.
        Irreconcilable = "Irreconcilable",
        /// The result exceeds the size limit of an API object.
        TooLarge = "TooLarge",
        /// Remote content could not be fetched.
        RemoteFetchFailed = "RemoteFetchFailed",
        /// Remote content does not match its hash.
        RemoteVerificationFailed = "RemoteVerificationFailed",
        /// An input has been about to be created or changed by its own controller for a long time.
        InputsNotReady = "InputsNotReady",
        /// The pool is pinned to a rendered MachineConfig that it cannot target.
        PinnedConfigurationUnusable = "PinnedConfigurationUnusable",
        /// The platform's base MachineConfigs were deleted with the ControllerConfig.
        ControllerConfigMissing = "ControllerConfigMissing",
    }
}

words! {
    /// Reasons of the pool condition `ImageBuildDegraded` while it is False.
    pub enum ImageBuildReason {
        /// An image is being built. Upstream's, never set here.
        Building = "Building",
        /// The image was built. Upstream's, never set here.
        BuildSuccess = "BuildSuccess",
        /// An image build waits. Upstream's, never set here.
        BuildPending = "BuildPending",
        /// The pool builds no image. Upstream's, never set here.
        NoLayeredObjects = "NoLayeredObjects",
    }
}

words! {
    /// Condition types of the ControllerConfig.
    pub enum ControllerConfigCondition {
        /// The base MachineConfigs are being generated.
        TemplateControllerRunning = "TemplateControllerRunning",
        /// The base MachineConfigs are generated.
        TemplateControllerCompleted = "TemplateControllerCompleted",
        /// The base MachineConfigs cannot be generated.
        TemplateControllerFailing = "TemplateControllerFailing",
    }
}

words! {
    /// Condition types of KubeletConfigs and ContainerRuntimeConfigs.
    pub enum GeneratorCondition {
        /// Whether the settings were turned into MachineConfigs.
        Accepted = "Accepted",
        /// Older form of `Accepted` being True; always the last in the list.
        Success = "Success",
        /// Older form of `Accepted` being False; always the last in the list.
        Failure = "Failure",
        /// Some settings are written to nodes although nothing is known to read them.
        UnknownSettings = "UnknownSettings",
        /// Some files of this object are overridden by those of another object of its kind.
        Overridden = "Overridden",
    }
}

words! {
    /// Reasons of the conditions of KubeletConfigs and ContainerRuntimeConfigs; upstream leaves the reason empty.
    pub enum GeneratorReason {
        /// Every pool that is selected has its MachineConfig.
        Applied = "Applied",
        /// The object itself is not valid.
        Invalid = "Invalid",
        /// No pool has the labels that the object selects.
        NoPool = "NoPool",
        /// No name is left for the MachineConfig.
        NoName = "NoName",
        /// The configuration that the settings are merged into cannot be read.
        NoBase = "NoBase",
        /// The settings cannot be merged with the pool's existing configuration.
        Conflict = "Conflict",
        /// Some pools have their MachineConfig and others do not.
        PartlyApplied = "PartlyApplied",
        /// A key is not one of the kubelet's.
        UnknownKey = "UnknownKey",
        /// An object of the same kind comes later for the same pool.
        LaterObject = "LaterObject",
    }
}

words! {
    /// Reasons of the conditions of the ControllerConfig; upstream leaves the reason empty.
    pub enum TemplateReason {
        /// The base MachineConfigs are those of this generation.
        AsExpected = "AsExpected",
        /// The base MachineConfigs cannot be generated.
        TemplateFailed = "TemplateFailed",
        /// A user's MachineConfig has the name of one of them.
        NameTaken = "NameTaken",
    }
}

words! {
    /// Condition types of MachineConfigNodes: the steps of an update.
    pub enum NodeCondition {
        /// The update was checked and may begin.
        UpdatePrepared = "UpdatePrepared",
        /// The update was carried out; has four steps of its own.
        UpdateExecuted = "UpdateExecuted",
        /// The action after the update (reload, restart or reboot) is done.
        UpdatePostActionComplete = "UpdatePostActionComplete",
        /// The update is complete and the node accepts pods again.
        UpdateComplete = "UpdateComplete",
        /// The node runs its desired configuration.
        Updated = "Updated",
        /// The node daemon runs again after the update.
        Resumed = "Resumed",
        /// The pods were evicted.
        Drained = "Drained",
        /// Files and operating system are in place.
        AppliedFilesAndOs = "AppliedFilesAndOS",
        /// Files are in place. Upstream's, never set here.
        AppliedFiles = "AppliedFiles",
        /// The operating system is in place. Upstream's, never set here.
        AppliedOsImage = "AppliedOSImage",
        /// The operating system image was fetched. Upstream's, never set here.
        ImagePulledFromRegistry = "ImagePulledFromRegistry",
        /// The node accepts no new pods.
        Cordoned = "Cordoned",
        /// The node accepts new pods again.
        Uncordoned = "Uncordoned",
        /// The node was rebooted.
        RebootedNode = "RebootedNode",
        /// The update failed.
        NodeDegraded = "NodeDegraded",
        /// Images are being pulled and pinned. Left to other controllers once it is created.
        PinnedImageSetsProgressing = "PinnedImageSetsProgressing",
        /// Images could not be pulled and pinned. Left to other controllers once it is created.
        PinnedImageSetsDegraded = "PinnedImageSetsDegraded",
        /// A release image on the node is broken. Left to other controllers once it is created.
        InternalReleaseImageDegraded = "InternalReleaseImageDegraded",
    }
}

words! {
    /// Reasons of conditions of MachineConfigNodes.
    pub enum NodeReason {
        /// The step has not been reached since the object was created.
        NotYetOccurred = "NotYetOccurred",
        /// The step belongs to the update in progress and has not been reached.
        NotReached = "NotReached",
        /// The step is under way.
        InProgress = "InProgress",
        /// The step is done.
        Done = "Done",
        /// The node runs its target, so this step is no longer in progress.
        Updated = "Updated",
        /// The step has failed.
        Failed = "Failed",
        /// Nothing has failed.
        Healthy = "Healthy",
    }
}

words! {
    /// Why a node is not updated: reason of the condition `Updated` of its MachineConfigNode while that is False.
    pub enum WaitingReason {
        /// It runs its target.
        Updated = "Updated",
        /// It is being updated to the target.
        Updating = "Updating",
        /// Its pods cannot be evicted.
        DrainBlocked = "DrainBlocked",
        /// The update to the target failed.
        Failed = "Failed",
        /// The pool is paused.
        PoolPaused = "PoolPaused",
        /// An annotation on the node asks for it.
        NodePaused = "NodePaused",
        /// The pool is being deleted.
        PoolDeleting = "PoolDeleting",
        /// The pool has no configuration yet.
        NoConfiguration = "NoConfiguration",
        /// The pool's maxUnavailable cannot be read.
        InvalidMaxUnavailable = "InvalidMaxUnavailable",
        /// The pool's budget is used up: as many nodes as allowed are unavailable.
        Budget = "Budget",
        /// The limit of orders that may be unanswered at a time is reached.
        OrdersInProgress = "OrdersInProgress",
        /// The node is not healthy.
        NotReady = "NotReady",
        /// No node daemon has ever reported for the node.
        NoNodeDaemon = "NoNodeDaemon",
        /// The node was cordoned by a user or another controller.
        Cordoned = "Cordoned",
        /// The node is being updated to another configuration.
        OtherTargetInProgress = "OtherTargetInProgress",
        /// The node runs the controllers; the other nodes of its pool are updated first.
        RunsOperator = "RunsOperator",
        /// The node gets the labels of its pool first.
        JoiningPool = "JoiningPool",
        /// A node of the pool that shares the quorum with this one is unavailable.
        Quorum = "Quorum",
        /// A hold outside of the pool asks it to wait.
        Held = "Held",
        /// No pool selects the node.
        NotInPool = "NotInPool",
        /// Several custom pools select the node.
        SeveralPools = "SeveralPools",
    }
}

words! {
    /// Reasons of the pool conditions that are derived from nodes; upstream leaves the reason empty.
    pub enum PoolReason {
        /// Every node runs the target.
        AllNodesUpdated = "AllNodesUpdated",
        /// Nodes are still to be updated.
        NodesUpdating = "NodesUpdating",
        /// Nodes are still to be updated, and the pool is paused.
        PoolPaused = "PoolPaused",
        /// Nodes are still to be updated, and none is because maxUnavailable cannot be read.
        InvalidMaxUnavailable = "InvalidMaxUnavailable",
        /// The pool has no nodes because its nodeSelector cannot be read.
        InvalidNodeSelector = "InvalidNodeSelector",
        /// Another custom pool selects the same nodes, so they belong to neither.
        NodesInSeveralPools = "NodesInSeveralPools",
        /// Nodes have failed.
        NodesDegraded = "NodesDegraded",
        /// No node has failed.
        NodesHealthy = "NodesHealthy",
        /// The pool's MachineConfigs cannot be rendered.
        RenderDegraded = "RenderDegraded",
        /// The pool's image cannot be built.
        ImageBuildDegraded = "ImageBuildDegraded",
        /// Nothing has failed.
        Healthy = "Healthy",
    }
}

words! {
    /// Reasons of events on pools.
    pub enum PoolEvent {
        /// A selector is empty and would select everything; nothing is done.
        SelectorMatchesAll = "SelectorMatchesAll",
        /// A rendered MachineConfig was created.
        RenderedConfigGenerated = "RenderedConfigGenerated",
        /// An input chose the operating system image.
        OsImageUrlOverridden = "OSImageURLOverridden",
        /// Remote content is used but could not be stored.
        SnapshotNotKept = "SnapshotNotKept",
        /// Nodes were targeted.
        SetDesiredConfig = "SetDesiredConfig",
        /// Nodes were targeted, image included.
        SetDesiredConfigAndOsImage = "SetDesiredConfigAndOSImage",
        /// The node that runs the operator waits until the others are done.
        DeferringOperatorNodeUpdate = "DeferringOperatorNodeUpdate",
        /// An annotation of a control-plane node has changed. Upstream's, never set here.
        AnnotationChange = "AnnotationChange",
        /// The pool reached its target.
        Completed = "Completed",
        /// The pool has a new target.
        Updating = "Updating",
        /// A change is not allowed. Upstream's, never set here.
        ActionProhibited = "ActionProhibited",
        /// Another custom pool selects the same nodes, so they belong to neither.
        NodesInSeveralPools = "NodesInSeveralPools",
        /// A built-in pool was deleted, and was recreated with its former state.
        PoolRecreated = "PoolRecreated",
        /// Another client set the pool's target, and the edit was reverted.
        EditReverted = "EditReverted",
        /// New machines of the pool cannot be given their configuration.
        ConfigNotServed = "ConfigNotServed",
    }
}

words! {
    /// Reasons of events on MachineConfigs.
    pub enum MachineConfigEvent {
        /// An object that the controllers manage was edited or deleted, and was restored.
        EditReverted = "EditReverted",
        /// A MachineConfig of a user has a name that the platform needs.
        NameTaken = "NameTaken",
        /// A MachineConfig that pools or nodes still need was deleted; it stays until they do not need it.
        DeletionBlocked = "DeletionBlocked",
    }
}

words! {
    /// Reasons of events on nodes.
    pub enum NodeEvent {
        /// The node daemon checked the node after a boot. Upstream's, never set here.
        BootResync = "BootResync",
        /// The node runs its desired configuration.
        NodeDone = "NodeDone",
        /// The node accepts pods again.
        Uncordon = "Uncordon",
        /// The node was not uncordoned for ten minutes; reported by the node daemon.
        FailedToUncordon = "FailedToUncordon",
        /// The node accepts no new pods.
        Cordon = "Cordon",
        /// The pods are being evicted. Upstream's, never set here.
        Drain = "Drain",
        /// The pods could not be evicted for an hour; reported by the node daemon.
        FailedToDrain = "FailedToDrain",
        /// The pods cannot be evicted, so the drain does not start or does not finish.
        DrainBlocked = "DrainBlocked",
        /// The pods could not be evicted for an hour; reported by the drain controller, which names them.
        DrainFailed = "DrainFailed",
        /// The node is about to reboot.
        Reboot = "Reboot",
        /// The change needs no reboot. Upstream's, never set here.
        SkipReboot = "SkipReboot",
        /// A service was reloaded. Upstream's, never set here.
        ServiceReload = "ServiceReload",
        /// A service could not be reloaded. Upstream's, never set here.
        FailedServiceReload = "FailedServiceReload",
        /// A service was restarted. Upstream's, never set here.
        ServiceRestart = "ServiceRestart",
        /// A service could not be restarted. Upstream's, never set here.
        FailedServiceRestart = "FailedServiceRestart",
        /// The operating system is being updated. Upstream's, never set here.
        OsUpdateStarted = "OSUpdateStarted",
        /// The new operating system is ready for the next boot. Upstream's, never set here.
        OsUpdateStaged = "OSUpdateStaged",
        /// The new operating system is in use. Upstream's, never set here.
        OsUpgradeApplied = "OSUpgradeApplied",
        /// The operating system needs no update. Upstream's, never set here.
        OsUpgradeSkipped = "OSUpgradeSkipped",
        /// An image of the operating system is being applied. Upstream's, never set here.
        InClusterUpgrade = "InClusterUpgrade",
        /// The desired configuration cannot be reached from the current one.
        FailedToReconcile = "FailedToReconcile",
        /// The node differs from its configuration, so no update starts.
        PreflightConfigDriftCheckFailed = "PreflightConfigDriftCheckFailed",
        /// The node differs from its configuration after a boot.
        OnDiskStateValidationFailed = "OnDiskStateValidationFailed",
        /// A managed file was changed by another process or a user.
        ConfigDriftDetected = "ConfigDriftDetected",
        /// Files that had been changed were restored, with `--repair`; also part of the report of a failure.
        ConfigDriftRepaired = "ConfigDriftRepaired",
        /// Managed files are being watched. Upstream's, never set here.
        ConfigDriftMonitorStarted = "ConfigDriftMonitorStarted",
        /// Managed files are no longer watched. Upstream's, never set here.
        ConfigDriftMonitorStopped = "ConfigDriftMonitorStopped",
        /// The previous boot could not finish its update. Upstream's, never set here.
        FailedFinalization = "FailedFinalization",
        /// The node daemon will not stop during the update. Upstream's, never set here.
        AddSigtermProtection = "AddSigtermProtection",
        /// The node daemon may stop again. Upstream's, never set here.
        RemoveSigtermProtection = "RemoveSigtermProtection",
        /// The node daemon was asked to stop during the update. Upstream's, never set here.
        GotSigtermDuringUpdate = "GotSigtermDuringUpdate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Word;

    #[test]
    fn a_word_is_read_back_from_its_spelling() {
        fn check<W: Word + PartialEq + std::fmt::Debug>() {
            for word in W::ALL {
                assert_eq!(word.as_str().parse::<W>().as_ref(), Ok(word));
            }
        }
        check::<State>();
        check::<KernelType>();
        check::<PoolCondition>();
        check::<RenderReason>();
        check::<ImageBuildReason>();
        check::<ControllerConfigCondition>();
        check::<GeneratorCondition>();
        check::<GeneratorReason>();
        check::<TemplateReason>();
        check::<NodeCondition>();
        check::<NodeReason>();
        check::<WaitingReason>();
        check::<PoolReason>();
        check::<PoolEvent>();
        check::<MachineConfigEvent>();
        check::<NodeEvent>();
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let error = "rt".parse::<KernelType>().unwrap_err();
        assert_eq!(error.to_string(), "`rt` is not a KernelType; expected one of `default`, `realtime`, `64k-pages`");
    }

    /// The API server rejects a condition whose reason does not have this form.
    #[test]
    fn every_reason_has_the_form_that_conditions_require() {
        let reasons = RenderReason::ALL
            .iter()
            .map(Word::as_str)
            .chain(ImageBuildReason::ALL.iter().map(Word::as_str))
            .chain(GeneratorReason::ALL.iter().map(Word::as_str))
            .chain(TemplateReason::ALL.iter().map(Word::as_str))
            .chain(NodeReason::ALL.iter().map(Word::as_str))
            .chain(WaitingReason::ALL.iter().map(Word::as_str))
            .chain(PoolReason::ALL.iter().map(Word::as_str));
        for reason in reasons {
            assert!(reason.starts_with(|c: char| c.is_ascii_uppercase()), "{reason}");
            assert!(reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
        }
    }
}
