//! The labels and annotations that rendering reads and writes.

/// On a MachineConfig: the role it is for.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// On a MachineConfig: the controller that made it; not empty means that no user wrote it.
pub const GENERATED_BY: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// On a ControllerConfig: the version of the operator that wrote it.
pub const GENERATED_BY_VERSION: &str = "machineconfiguration.openshift.io/generated-by-version";
/// On a rendered MachineConfig and a ControllerConfig: the release.
pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// On a rendered MachineConfig: `"true"` when an input chose the OS image.
pub const OS_IMAGE_OVERRIDDEN: &str = "machineconfiguration.openshift.io/os-image-url-overridden";
/// On a MachineConfig, ours: change it to fetch its remote content again.
pub const REFRESH: &str = "seaworthy.dev/refresh";
/// On a rendered MachineConfig, ours: what was fetched, from where, with which digest.
pub const REMOTE_CONTENT: &str = "seaworthy.dev/remote-content";

/// The API version of all of these kinds.
pub const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
