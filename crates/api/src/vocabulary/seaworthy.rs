//! Words of Seaworthy's own: what it adds to the upstreams' objects, all under `seaworthy.dev/`.

use crate::vocabulary::key::{Annotation, Finalizer};

/// The API group of Seaworthy's own kinds, and the prefix of its keys.
pub const GROUP: &str = "seaworthy.dev";

/// Annotations.
pub mod annotation {
    use super::Annotation;

    /// On a MachinePool: which object the name of its bootstrap secret was copied from; written by the pool controller.
    pub const BOOTSTRAP_DATA_SECRET: Annotation = Annotation("seaworthy.dev/bootstrap-data-secret");
    /// On a Node: the drain for which it was taken out of scheduling; written by the drain controller together with that, so
    /// that a cordon of somebody else is told from its own.
    pub const CORDONED_FOR: Annotation = Annotation("seaworthy.dev/cordoned-for");
    /// On a Node: it is given no new configuration; the text says why. Written by users.
    pub const PAUSED: Annotation = Annotation("seaworthy.dev/paused");
    /// On a MachineConfig: any new text fetches its remote content again; written by users.
    pub const REFRESH: Annotation = Annotation("seaworthy.dev/refresh");
    /// On a rendered MachineConfig: URL, digest and time of the remote content in it, as JSON; written by the render
    /// controller.
    pub const REMOTE_CONTENT: Annotation = Annotation("seaworthy.dev/remote-content");
}

/// Holds back the deletion of a rendered MachineConfig that a node still runs; written by the render controller.
pub const IN_USE: Finalizer = Finalizer("seaworthy.dev/in-use");
