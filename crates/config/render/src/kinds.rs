//! Kinds, as manifests name them.

pub const MACHINE_CONFIG: &str = "MachineConfig";
pub const MACHINE_CONFIG_POOL: &str = "MachineConfigPool";
pub const CONTROLLER_CONFIG: &str = "ControllerConfig";
pub const OS_IMAGE_STREAM: &str = "OSImageStream";

/// The kinds that a cluster generates MachineConfigs from.
pub const GENERATING: [&str; 2] = ["ContainerRuntimeConfig", "KubeletConfig"];

/// All kinds of the group, also those that rendering does not use: any other kind of the group is a spelling mistake.
pub const ALL: [&str; 11] = [
    MACHINE_CONFIG,
    MACHINE_CONFIG_POOL,
    CONTROLLER_CONFIG,
    OS_IMAGE_STREAM,
    GENERATING[0],
    GENERATING[1],
    "InternalReleaseImage",
    "MachineConfigNode",
    "MachineOSBuild",
    "MachineOSConfig",
    "PinnedImageSet",
];

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn kinds_of_the_group_that_have_a_type_are_known() {
        for definition in seaworthy_api::machineconfiguration::definitions() {
            let kind = definition.spec.names.kind;
            assert!(ALL.contains(&kind.as_str()), "{kind}");
        }
    }
}
