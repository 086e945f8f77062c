//! In which respects two configurations differ (server-and-daemon.md, B9).

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use serde::Serialize;
use serde_json::Value;

use crate::target::Target;

/// In which respects two configurations differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Flags {
    /// The image of the operating system.
    pub os_update: bool,
    /// Kernel arguments, order and repetition included.
    pub kargs: bool,
    /// The restriction to FIPS.
    pub fips: bool,
    /// Accounts.
    pub passwd: bool,
    /// Files.
    pub files: bool,
    /// Units.
    pub units: bool,
    /// The kernel.
    pub kernel_type: bool,
    /// Extensions.
    pub extensions: bool,
    /// Either side has a built image.
    pub ocl_enabled: bool,
    /// The new side has none, and the old one had.
    pub revert_from_ocl: bool,
}

/// In which respects two configurations differ; a forced update counts as one of the operating system.
pub fn flags(old: &Target, new: &Target, is_forced: bool) -> Flags {
    let section = |spec: &MachineConfigSpec, path: [&str; 2]| {
        let value = spec.config.as_ref().and_then(|config| config.get(path[0])?.get(path[1]).cloned());
        value.filter(|value| value.as_array().is_none_or(|list| !list.is_empty()))
    };
    let differs = |path: [&str; 2]| -> bool {
        let pair: [Option<Value>; 2] = [section(&old.spec, path), section(&new.spec, path)];
        pair[0] != pair[1]
    };
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let ocl_enabled = old.built_image.is_some() || new.built_image.is_some();
    Flags {
        os_update: is_forced || old.image() != new.image(),
        kargs: list(&old.spec.kernel_arguments) != list(&new.spec.kernel_arguments),
        fips: old.spec.fips.unwrap_or_default() != new.spec.fips.unwrap_or_default(),
        passwd: differs(["passwd", "users"]) || differs(["passwd", "groups"]),
        files: differs(["storage", "files"]),
        units: differs(["systemd", "units"]),
        kernel_type: old.kernel != new.kernel,
        extensions: list(&old.spec.extensions) != list(&new.spec.extensions),
        ocl_enabled,
        revert_from_ocl: old.built_image.is_some() && new.built_image.is_none(),
    }
}
