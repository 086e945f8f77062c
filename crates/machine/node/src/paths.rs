//! Paths of the daemon's own files, and of files with special rules.
//!
//! Compat: the names are those of machine-config-operator, `pkg/daemon/constants`, so that a machine can be taken over.

use seaworthy_host::Attributes;
pub use seaworthy_plan::disruption::known_effect::KUBELET_CA;

/// Attributes of the daemon's own files that every user may read.
pub(crate) const PUBLIC: Attributes = Attributes::of_root(0o644);
/// Attributes of the daemon's own files that may hold secrets.
pub(crate) const PRIVATE: Attributes = Attributes::of_root(0o600);

/// The daemon's own folder.
pub const STATE_DIR: &str = "/etc/machine-config-daemon";
/// The annotations that a new machine begins with; while the file exists, the machine is new.
pub const INITIAL_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
/// The same after the first success.
pub const INITIAL_ANNOTATIONS_DONE: &str = "/etc/machine-config-daemon/node-annotation.json.bak";
/// The configuration that the disk is in.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";
/// The built image of that configuration, if it has one.
pub const CURRENT_IMAGE: &str = "/etc/machine-config-daemon/currentimage";
/// The journal's folder.
pub const JOURNAL: &str = "/etc/machine-config-daemon/journal";
/// The configuration that needs a reboot after all, because less did not put it into effect.
pub const REBOOT_REQUIRED: &str = "/etc/machine-config-daemon/reboot-required";
/// The same from earlier versions.
pub const LEGACY_REBOOT_REQUIRED: &str = "/etc/machine-config-daemon/escalated";
/// The configuration that the disk is in and the boot is not, because the return to its boot was given up.
pub const BOOT_MISMATCH: &str = "/etc/machine-config-daemon/boot-mismatch";
/// The same from earlier versions.
pub const LEGACY_BOOT_MISMATCH: &str = "/etc/machine-config-daemon/astray";
/// The configuration of the first boot.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// The same when the first boot is complete.
pub const ENCAPSULATED_DONE: &str = "/etc/ignition-machine-config-encapsulated.json.bak";
/// Makes the next update skip its checks, which removes the file.
pub const FORCE: &str = "/run/machine-config-daemon-force";
/// Presets that Ignition writes; they would enable units again.
pub const IGNITION_PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";
/// Has secrets in it; its mode is set after each update.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

/// Certificates of the cloud.
pub const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
const USER_CA: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
/// Credentials of the cluster's own registry.
pub const PULL_SECRET: &str = "/etc/mco/internal-registry-pull-secret.json";
/// Certificates of registries.
pub const REGISTRY_CAS: &str = "/etc/docker/certs.d/";

/// Whether another component writes the file once the node has joined.
pub fn is_written_elsewhere(path: &str) -> bool {
    path == KUBELET_CA
}

/// Whether a file may differ from the configuration.
pub fn is_unchecked(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, PULL_SECRET].contains(&path)
}

/// Whether a file is kept when no configuration has it any more.
pub fn is_never_removed(path: &str) -> bool {
    [KUBELET_CA, CLOUD_CA, USER_CA].contains(&path) || path.starts_with(REGISTRY_CAS)
}

/// The path of the kept original of a file.
pub fn original(path: &str) -> String {
    format!("{STATE_DIR}/orig{path}.mcdorig")
}

/// The path of the record that there was no original.
pub fn no_original(path: &str) -> String {
    format!("{STATE_DIR}/noorig{path}.mcdnoorig")
}
