//! Labels and annotations that rendering reads and writes, as they are spelled in manifests.
//!
//! Their meaning is documented where they are defined, in [`seaworthy_api::vocabulary`].

use seaworthy_api::vocabulary::machineconfiguration::{annotation, label};
use seaworthy_api::vocabulary::seaworthy;

/// The role of a MachineConfig.
pub const ROLE: &str = label::ROLE.as_str();
/// The controller that made a MachineConfig; not empty means that no user wrote it.
pub const GENERATED_BY: &str = annotation::GENERATED_BY_CONTROLLER_VERSION.as_str();
pub const RELEASE_VERSION: &str = annotation::RELEASE_IMAGE_VERSION.as_str();
/// Whether an input chose the OS image.
pub const OS_IMAGE_OVERRIDDEN: &str = annotation::OS_IMAGE_URL_OVERRIDDEN.as_str();
/// Changed to fetch remote content again.
pub const REFRESH: &str = seaworthy::annotation::REFRESH.as_str();
/// What was fetched for a rendered MachineConfig.
pub const REMOTE_CONTENT: &str = seaworthy::annotation::REMOTE_CONTENT.as_str();

/// The API version of MachineConfigs, pools and ControllerConfigs.
pub const API_VERSION: &str = seaworthy_api::machineconfiguration::API_VERSION;
