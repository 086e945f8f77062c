//! Rights of the operator: what its controllers read and write, and nothing else.

use seaworthy_deploy::rule::{READ, named_rule, rule};
use serde_json::Value;

use crate::protection::policy;

const MACHINE_CONFIG_GROUP: &str = "machineconfiguration.openshift.io";

/// Rules for the whole cluster.
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
        rule("operator.openshift.io", &["machineconfigurations"], READ),
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

/// Rules for Seaworthy's own namespace: snapshots of remote content and deleted pools are Secrets.
pub fn namespace_rules() -> Vec<Value> {
    vec![rule("", &["secrets"], &["get", "list", "create", "delete"])]
}
