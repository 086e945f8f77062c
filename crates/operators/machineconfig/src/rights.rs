//! Rights of the operator: what its controllers, the Ignition endpoint and the node daemon read and write, and nothing else.

use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, MACHINE_CONFIGURATION};
use seaworthy_deploy::rule::{READ, named_rule, rule};
use serde_json::Value;

use crate::protection::policy;

const MACHINE_CONFIG_GROUP: &str = "machineconfiguration.openshift.io";
const OPERATOR_GROUP: &str = "operator.openshift.io";

/// Rules of the Ignition endpoint for the whole cluster.
pub fn server_rules() -> Vec<Value> {
    vec![rule(MACHINE_CONFIG_GROUP, &["machineconfigs", "machineconfigpools", "controllerconfigs"], READ)]
}

/// Rules of every node for the whole cluster.
pub fn daemon_rules() -> Vec<Value> {
    vec![
        // The rendered MachineConfig that a node needs is named in its order, so no list is needed.
        rule(MACHINE_CONFIG_GROUP, &["machineconfigs"], &["get"]),
        // Certificates and the pull secret, which do not pass through rendered MachineConfigs.
        named_rule(MACHINE_CONFIG_GROUP, &["controllerconfigs"], &[CONTROLLER_CONFIG], &["list", "watch"]),
        named_rule(OPERATOR_GROUP, &["machineconfigurations"], &[MACHINE_CONFIGURATION], &["get"]),
    ]
}

/// Rules of the controllers for the whole cluster.
pub fn cluster_rules() -> Vec<Value> {
    vec![
        rule(
            MACHINE_CONFIG_GROUP,
            &["machineconfigs"],
            &["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
        rule(MACHINE_CONFIG_GROUP, &["machineconfigpools"], &["get", "list", "watch", "create", "patch"]),
        rule(MACHINE_CONFIG_GROUP, &["machineconfignodes"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule(MACHINE_CONFIG_GROUP, &["kubeletconfigs", "containerruntimeconfigs"], &["get", "list", "watch", "patch"]),
        rule(MACHINE_CONFIG_GROUP, &["controllerconfigs"], READ),
        rule(
            MACHINE_CONFIG_GROUP,
            &[
                "controllerconfigs/status",
                "machineconfigpools/status",
                "machineconfignodes/status",
                "kubeletconfigs/status",
                "containerruntimeconfigs/status",
            ],
            &["patch"],
        ),
        // The admission plugin OwnerReferencesPermissionEnforcement asks for this where an owner reference blocks deletion.
        rule(
            MACHINE_CONFIG_GROUP,
            &["machineconfigpools/finalizers", "kubeletconfigs/finalizers", "containerruntimeconfigs/finalizers"],
            &["update"],
        ),
        rule(OPERATOR_GROUP, &["machineconfigurations"], READ),
        rule("", &["nodes"], &["get", "list", "watch", "patch"]),
        rule("", &["pods"], &["get", "list"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("policy", &["poddisruptionbudgets"], READ),
        // The installer creates the policy; the controllers restore it.
        named_rule(
            "admissionregistration.k8s.io",
            &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            &[policy::NAME],
            &["get", "create", "patch"],
        ),
    ]
}

/// Rules of the controllers for Seaworthy's own namespace: snapshots of remote content and deleted pools are Secrets.
pub fn namespace_rules() -> Vec<Value> {
    vec![rule("", &["secrets"], &["get", "list", "create", "delete"])]
}
