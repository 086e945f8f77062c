//! Paths of the daemon's own files, and of files that it treats apart.
//!
//! Compat: the names are those of machine-config-operator, `pkg/daemon/constants`, so that a machine can be taken over.

use seaworthy_host::Attributes;
pub use seaworthy_plan::disruption::knowledge::KUBELET_CA;

/// Attributes of the daemon's own files that anybody may read.
pub(crate) const PUBLIC: Attributes = Attributes::of_root(0o644);
/// Attributes of the daemon's own files that may hold secrets.
pub(crate) const PRIVATE: Attributes = Attributes::of_root(0o600);

/// Everything of the daemon.
pub const HOME: &str = "/etc/machine-config-daemon";
/// The annotations that a new machine begins with; while it is there, the machine is new.
pub const INITIAL_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
/// The same after the first success.
pub const INITIAL_ANNOTATIONS_DONE: &str = "/etc/machine-config-daemon/node-annotation.json.bak";
/// The configuration that the disk is in.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";
/// The built image of that configuration, if it has one.
pub const CURRENT_IMAGE: &str = "/etc/machine-config-daemon/currentimage";
/// The journal's folder.
pub const JOURNAL: &str = "/etc/machine-config-daemon/journal";
/// The configuration that needs a reboot after all, because less did not bring it into force.
pub const ESCALATED: &str = "/etc/machine-config-daemon/escalated";
/// The configuration that the disk is in and the boot is not, because the way back into it was given up.
pub const ASTRAY: &str = "/etc/machine-config-daemon/astray";
/// What first boot is given.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// The same when it is done.
pub const ENCAPSULATED_DONE: &str = "/etc/ignition-machine-config-encapsulated.json.bak";
/// Has the next update skip its checks; used up by it.
pub const FORCE: &str = "/run/machine-config-daemon-force";
/// Presets that Ignition writes; they would enable units again.
pub const IGNITION_PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";
/// Has secrets in it; its mode is set right after each update.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

/// Certificates of the cloud.
pub const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
const USER_CA: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
/// The way into the cluster's own registry.
pub const PULL_SECRET: &str = "/etc/mco/internal-registry-pull-secret.json";
/// Certificates of registries.
pub const REGISTRY_CAS: &str = "/etc/docker/certs.d/";

/// Whether a file is written by somebody else once the node has joined.
pub fn is_written_elsewhere(path: &str) -> bool {
    path == KUBELET_CA
}

/// Whether a file may differ from the configuration.
pub fn is_unchecked(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, PULL_SECRET].contains(&path)
}

/// Whether a file stays when no configuration has it any more.
pub fn is_never_removed(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, USER_CA].contains(&path) || path.starts_with(REGISTRY_CAS)
}

/// Where the original of a file is kept.
pub fn original(path: &str) -> String {
    format!("{HOME}/orig{path}.mcdorig")
}

/// The stamp that says that a file had no original.
pub fn no_original(path: &str) -> String {
    format!("{HOME}/noorig{path}.mcdnoorig")
}
