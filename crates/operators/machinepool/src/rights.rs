//! Rights of the operator's controllers, and nothing else. What they do in workload clusters rests on the kubeconfigs there.

use seaworthy_deploy::rule::{READ, rule};
use serde_json::Value;

const GROUP: &str = "cluster.x-k8s.io";

/// The groups of providers. Those of other groups need a ClusterRole of their own.
///
/// Compat: these two are what upstream may use; Seaworthy's own providers are in the third.
const PROVIDER_GROUPS: [&str; 3] = ["infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "seaworthy.dev"];

/// Rules for the whole cluster.
pub fn cluster_rules() -> Vec<Value> {
    let mut rules = vec![
        rule(GROUP, &["machinepools"], &["get", "list", "watch", "patch"]),
        rule(GROUP, &["machines"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule(GROUP, &["machinepools/status", "machines/status"], &["patch"]),
        // The admission plugin OwnerReferencesPermissionEnforcement asks for this where an owner reference blocks deletion.
        rule(GROUP, &["machinepools/finalizers"], &["update"]),
        rule(GROUP, &["clusters"], READ),
        // Kubeconfigs of workload clusters, whose names depend on the Clusters.
        //
        // Differs: Secrets are read one by one, because `list` and `watch` would reveal all of them; upstream holds those with
        // the label of a cluster in a cache.
        rule("", &["secrets"], &["get"]),
        // An Event is in the namespace of its pool.
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    rules.extend(PROVIDER_GROUPS.iter().map(|group| rule(group, &["*"], &["get", "list", "watch", "patch", "delete"])));
    rules
}
