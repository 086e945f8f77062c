//! Seaworthy's own keys on the upstreams' objects, all under `seaworthy.dev/`.

use crate::vocabulary::key::{Annotation, Finalizer, Label};

/// The API group of Seaworthy's own kinds, and the prefix of its keys.
pub const GROUP: &str = "seaworthy.dev";

pub mod annotation {
    use super::Annotation;

    /// On a Node: `true` lets its daemon adopt a machine without a known configuration, as one that was never configured;
    /// written by users.
    pub const ADOPT: Annotation = Annotation("seaworthy.dev/adopt");
    /// On a rendered MachineConfig: the ControllerConfig whose base is part of it; empty where none is. Written by the render
    /// controller.
    pub const BASE: Annotation = Annotation("seaworthy.dev/base");
    /// On a MachinePool: which object the name of its bootstrap secret was copied from; written by the pool controller.
    pub const BOOTSTRAP_DATA_SECRET: Annotation = Annotation("seaworthy.dev/bootstrap-data-secret");
    /// On a Node: the drain for which it was taken out of scheduling; written by the drain controller in the same write, to
    /// distinguish its own cordon from others.
    pub const CORDONED_FOR: Annotation = Annotation("seaworthy.dev/cordoned-for");
    /// On a pool: where its nodes' kubelet reads its configuration, if not at the usual place; written by users.
    pub const KUBELET_CONFIG_PATH: Annotation = Annotation("seaworthy.dev/kubelet-config-path");
    /// On a Node: the time of its last order, in seconds since 1970, and the first digits of the digest of the configuration it ran
    /// then; written by the roll-out controller together with the order, to measure how long updates take.
    pub const LAST_ORDER: Annotation = Annotation("seaworthy.dev/last-order");
    /// On a Node: the revision at which an order that may still be in flight becomes invalid; written by the roll-out controller.
    /// The write itself is the fence, since an order is given for one revision of a Node.
    pub const ORDER_FENCE: Annotation = Annotation("seaworthy.dev/order-fence");
    /// On a Node: it is given no new configuration; the text says why. Written by users.
    pub const PAUSED: Annotation = Annotation("seaworthy.dev/paused");
    /// On a pool: the rendered MachineConfig that it targets whatever its MachineConfigs say, until this is removed; written
    /// by users, and by `seaworthy rollout undo`.
    pub const PINNED_CONFIGURATION: Annotation = Annotation("seaworthy.dev/pinned-configuration");
    /// On a pool: the nodes that are about to be given an order, each with its revision, and the rendered MachineConfig, as JSON;
    /// written by the roll-out controller before it gives any order, so that the next decision counts them.
    pub const RESERVED_NODES: Annotation = Annotation("seaworthy.dev/reserved-nodes");
    /// On the Secret of a snapshot: the MachineConfig that refers to its content; written by the render controller, as are the
    /// next three.
    pub const SNAPSHOT_FOR: Annotation = Annotation("seaworthy.dev/snapshot-for");
    /// On the Secret of a snapshot: its key.
    pub const SNAPSHOT_KEY: Annotation = Annotation("seaworthy.dev/snapshot-key");
    /// On the Secret of a snapshot: when its content was fetched, in seconds since 1970.
    pub const SNAPSHOT_TIME: Annotation = Annotation("seaworthy.dev/snapshot-time");
    /// On the Secret of a snapshot: where its content came from, without credentials.
    pub const SNAPSHOT_URL: Annotation = Annotation("seaworthy.dev/snapshot-url");
    /// On a MachineConfig: any new text fetches its remote content again; written by users.
    pub const REFRESH: Annotation = Annotation("seaworthy.dev/refresh");
    /// On a rendered MachineConfig: URL, digest and time of the remote content in it, as JSON; written by the render
    /// controller.
    pub const REMOTE_CONTENT: Annotation = Annotation("seaworthy.dev/remote-content");
    /// On a rendered MachineConfig: the MachineConfigs that it was made of, each with a digest of its spec, as JSON; written
    /// by the render controller, so that a history can say which of them changed.
    pub const SOURCES: Annotation = Annotation("seaworthy.dev/sources");
    /// On a pool: the rendered MachineConfigs that it has targeted, each with the time it did so last, as JSON; written by the
    /// render controller together with the target.
    pub const TARGET_HISTORY: Annotation = Annotation("seaworthy.dev/target-history");

    /// Former key of [`LAST_ORDER`].
    pub const FORMER_LAST_ORDER: Annotation = Annotation("seaworthy.dev/ordered");
    /// Former key of [`ORDER_FENCE`].
    pub const FORMER_ORDER_FENCE: Annotation = Annotation("seaworthy.dev/fenced");
    /// Former key of [`RESERVED_NODES`].
    pub const FORMER_RESERVED_NODES: Annotation = Annotation("seaworthy.dev/promised");
    /// Former key of [`TARGET_HISTORY`].
    pub const FORMER_TARGET_HISTORY: Annotation = Annotation("seaworthy.dev/turns");
}

/// The configuration of a machine that was adopted and has no order yet. No MachineConfig has this name: the configuration is empty.
pub const UNCONFIGURED: &str = "unconfigured";

pub mod label {
    use super::Label;

    /// On the Secrets that keep the state of a deleted built-in pool until the pool is recreated.
    pub const DELETED_POOL: Label = Label("seaworthy.dev/deleted-pool");
    /// On Nodes whose machine is simulated by `seaworthy up`.
    pub const SIMULATED: Label = Label("seaworthy.dev/simulated");
    /// On the Secrets that keep remote content.
    pub const SNAPSHOT: Label = Label("seaworthy.dev/snapshot");
}

/// Delays the deletion of a built-in pool until its state is saved, so that it can be recreated with it; written by the base
/// controller.
pub const BUILT_IN: Finalizer = Finalizer("seaworthy.dev/built-in");

/// Delays the deletion of a rendered MachineConfig that a node still runs; written by the render controller.
pub const IN_USE: Finalizer = Finalizer("seaworthy.dev/in-use");
