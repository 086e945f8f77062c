//! Defaults and validation (rows 91 to 99).

use rstest::rstest;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_plan::machinepool::admission::{default, shared_references, validate};
use serde_json::{Value, json};

use super::world::pool;

fn read(patch: Value) -> MachinePool {
    let mut object = pool("pool", 1);
    object["metadata"]["namespace"] = json!("ns");
    seaworthy_change::memory::merge(&mut object, &patch);
    serde_json::from_value(object).unwrap()
}

fn paths(pool: &MachinePool, old: Option<&MachinePool>) -> Vec<String> {
    validate(pool, old).into_iter().map(|violation| violation.path).collect()
}

#[test]
fn row_91_open_fields_are_filled_in() {
    let mut pool = read(json!({
        "metadata": {"labels": null},
        "spec": {"replicas": null, "template": {"spec": {"version": "1.20.0", "deletion": null}}},
    }));
    default(&mut pool, None).unwrap();
    assert_eq!(pool.metadata.labels.unwrap()["cluster.x-k8s.io/cluster-name"], "c");
    let template = &pool.spec.template.spec;
    assert_eq!((pool.spec.replicas, template.version.as_deref()), (Some(1), Some("v1.20.0")));
    assert_eq!(template.deletion.as_ref().unwrap().node_deletion_timeout_seconds, Some(10));
    assert_eq!(template.min_ready_seconds, None);
}

#[test]
fn given_values_are_kept() {
    let given =
        json!({"spec": {"template": {"spec": {"version": "v1.2.3", "deletion": {"nodeDeletionTimeoutSeconds": 0}}}}});
    let mut pool = read(given);
    let before = pool.clone();
    default(&mut pool, None).unwrap();
    assert_eq!(pool, before);
    let mut pool = read(json!({"spec": {"template": {"spec": {"version": ""}}}}));
    default(&mut pool, None).unwrap();
    assert_eq!(pool.spec.template.spec.version.as_deref(), Some(""));
}

const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

#[rstest]
#[case::row_92_given(json!(5), Some("3"), Some("7"), None, Some(5))]
#[case::row_93_only_min(Value::Null, Some("3"), None, None, Some(1))]
#[case::row_93_only_max(Value::Null, None, Some("7"), None, Some(1))]
#[case::row_94_min(Value::Null, Some("abc"), Some("7"), None, None)]
#[case::row_94_max(Value::Null, Some("3"), Some("abc"), None, None)]
#[case::row_94_too_large(Value::Null, Some("3"), Some("99999999999"), None, None)]
#[case::row_95_new(Value::Null, Some("3"), Some("7"), None, Some(3))]
#[case::row_95_old_without(Value::Null, Some("3"), Some("7"), Some(Value::Null), Some(3))]
#[case::row_95_old_below(Value::Null, Some("3"), Some("7"), Some(json!(1)), Some(3))]
#[case::row_95_old_above(Value::Null, Some("3"), Some("7"), Some(json!(15)), Some(7))]
#[case::row_95_old_within(Value::Null, Some("3"), Some("7"), Some(json!(4)), Some(4))]
fn replicas_follow_the_autoscaler(
    #[case] given: Value,
    #[case] min: Option<&str>,
    #[case] max: Option<&str>,
    #[case] old: Option<Value>,
    #[case] expected: Option<i32>,
) {
    let mut pool = read(json!({"metadata": {"annotations": {MIN: min, MAX: max}}, "spec": {"replicas": given}}));
    let old = old.map(|replicas| read(json!({"spec": {"replicas": replicas}})));
    let result = default(&mut pool, old.as_ref());
    match expected {
        Some(expected) => assert_eq!((result, pool.spec.replicas), (Ok(()), Some(expected))),
        None => {
            let violations = result.unwrap_err();
            assert_eq!(violations.len(), 1);
            assert!(violations[0].to_string().starts_with("metadata.annotations[cluster.x-k8s.io/"), "{violations:?}");
        }
    }
}

#[rstest]
#[case::row_96_neither(json!({"configRef": null}), &["spec.template.spec.bootstrap"])]
#[case::row_96_secret(json!({"configRef": null, "dataSecretName": "data"}), &[])]
#[case::row_96_empty_secret(json!({"configRef": null, "dataSecretName": ""}), &[])]
#[case::row_96_reference(json!({}), &[])]
fn bootstrap_data_has_a_source(#[case] bootstrap: Value, #[case] expected: &[&str]) {
    let pool = read(json!({"spec": {"template": {"spec": {"bootstrap": bootstrap}}}}));
    assert_eq!(paths(&pool, None), expected);
    assert_eq!(paths(&pool, Some(&pool)), expected);
}

#[test]
fn row_97_pool_stays_in_its_cluster() {
    let foo = json!({"spec": {"clusterName": "foo", "template": {"spec": {"clusterName": "foo"}}}});
    let bar = json!({"spec": {"clusterName": "bar", "template": {"spec": {"clusterName": "bar"}}}});
    let violations = validate(&read(bar), Some(&read(foo)));
    assert_eq!(
        violations[0].to_string(),
        "spec.clusterName: Forbidden: it was \"foo\" and is \"bar\"; a pool stays in its Cluster; create another pool"
    );
    let differs = json!({"spec": {"clusterName": "foo", "template": {"spec": {"clusterName": "bar"}}}});
    assert_eq!(paths(&read(differs), None), ["spec.clusterName"]);
}

#[rstest]
#[case::release("v1.23.3", true)]
#[case::pre_release("v1.19.0-alpha.1", true)]
#[case::rubbish("v1.17.2++", false)]
#[case::short("v1", false)]
#[case::no_v("1.20.0", false)]
fn row_98_version_is_a_semantic_one(#[case] version: &str, #[case] is_valid: bool) {
    let pool = read(json!({"spec": {"template": {"spec": {"version": version}}}}));
    assert_eq!(paths(&pool, None).is_empty(), is_valid);
}

#[rstest]
#[case::label_key(json!({"labels": {"bad key!": "x"}}), "spec.template.metadata.labels")]
#[case::label_value(json!({"labels": {"a": "b c"}}), "spec.template.metadata.labels")]
#[case::label_length(json!({"labels": {"a": "x".repeat(64)}}), "spec.template.metadata.labels")]
#[case::annotation_key(json!({"annotations": {"/x": "anything goes"}}), "spec.template.metadata.annotations")]
fn row_99_metadata_of_the_template_is_that_of_kubernetes(#[case] metadata: Value, #[case] path: &str) {
    let pool = read(json!({"spec": {"template": {"metadata": metadata}}}));
    let found = paths(&pool, None);
    assert!(!found.is_empty() && found.iter().all(|found| found == path), "{found:?}");
}

#[test]
fn all_violations_are_reported_together() {
    let taints = json!([{"key": "a", "effect": "NoSchedule", "propagation": "Always"}]);
    let pool = read(json!({"spec": {
        "replicas": -1, "clusterName": "foo",
        "template": {"spec": {"version": "1", "taints": taints, "bootstrap": {"configRef": null}}},
    }}));
    assert_eq!(
        paths(&pool, None),
        [
            "spec.template.spec.bootstrap",
            "spec.clusterName",
            "spec.replicas",
            "spec.template.spec.version",
            "spec.taints",
        ]
    );
}

/// Section 9, 22.
#[test]
fn two_pools_do_not_share_their_objects() {
    let other = read(json!({"metadata": {"name": "other"}}));
    let pool = read(json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": "bc2"}}}}}}));
    let violations = shared_references(&pool, [&other, &pool]);
    assert_eq!(
        violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "spec.template.spec.infrastructureRef: Invalid value: GenericInfrastructureMachinePool imp is that of MachinePool other \
          too; expected an object of its own; create one for each pool"
        ]
    );
    let elsewhere = read(json!({"metadata": {"name": "other", "namespace": "elsewhere"}}));
    assert_eq!(shared_references(&pool, [&elsewhere]), []);
}
