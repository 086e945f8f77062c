//! KubeletConfigs: what is made, refused and taken back.

use std::sync::Arc;

use rstest::rstest;
use seaworthy_api::machineconfiguration::KubeletConfig;
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorReason, annotation, label};
use seaworthy_change::{Action, Change};
use seaworthy_generate::kubelet::{self, KUBELET_CONF, LOGGING, SIZING};
use seaworthy_generate::{PoolOutcome, UnmetPrecondition};
use serde_json::{Value, json};

use crate::support::{BUILD, Cluster, built_in, controller_config, done, first_patch, from, labelled, pools};

type Kubelets = Cluster<KubeletConfig>;

/// A cluster with one object on one pool, carried out.
fn with(pool: &str, spec: Value) -> Kubelets {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in(pool), spec);
    cluster.sync("a");
    cluster
}

fn settings(kubelet: Value) -> Value {
    json!({"kubeletConfig": kubelet})
}

#[test]
fn kc_01_the_first_object_of_a_pool_gets_the_plain_name() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("master"), settings(json!({"maxPods": 100})));
    let decision = cluster.sync("a");
    assert_eq!(done(&decision), (vec!["99-master-generated-kubelet"], vec![], vec![]));
    let first = decision.changes().next().unwrap();
    assert_eq!(first.object.resource_version.as_deref(), Some("1"), "the list of finalizers is that of this version");
    assert_eq!(
        first_patch(&decision),
        json!({"metadata": {
            "annotations": {annotation::MC_NAME_SUFFIX.as_str(): ""},
            "finalizers": ["99-master-generated-kubelet"],
        }})
    );
    cluster.assert_success("a");
    let made = &cluster.machine_configs["99-master-generated-kubelet"];
    let metadata = serde_json::to_value(&made.metadata).unwrap();
    assert_eq!(metadata["labels"], json!({label::ROLE.as_str(): "master"}));
    assert_eq!(metadata["annotations"], json!({annotation::GENERATED_BY_CONTROLLER_VERSION.as_str(): BUILD}));
    assert_eq!(
        metadata["ownerReferences"],
        json!([{
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig", "name": "a",
            "uid": cluster.objects["a"].metadata.uid, "controller": true, "blockOwnerDeletion": true,
        }])
    );
    let config = made.spec.config.as_ref().unwrap();
    assert_eq!(config["ignition"]["version"], "3.5.0");
    assert_eq!(cluster.paths("99-master-generated-kubelet"), [KUBELET_CONF]);
    assert_eq!(config["storage"]["files"][0]["mode"], 420);
    assert!(cluster.file("99-master-generated-kubelet", KUBELET_CONF).unwrap().contains("\nmaxPods: 100\n"));
}

#[test]
fn kc_02_the_platform_changes_nothing() {
    let made = |platform: &str| {
        let mut cluster = Kubelets::new();
        let infra = json!({"infra": {"spec": {}, "status": {"platformStatus": {"type": platform}}}});
        let config = controller_config(infra);
        let made = seaworthy_generate::base::machine_configs(&config, &<_>::default(), None, BUILD).unwrap();
        made.into_iter().for_each(|machine_config| cluster.put(machine_config));
        cluster.create("a", built_in("master"), settings(json!({"maxPods": 100})));
        cluster.sync("a");
        cluster.file("99-master-generated-kubelet", KUBELET_CONF).unwrap()
    };
    assert_eq!(made("AWS"), made("None"));
    assert_eq!(made("AWS"), made("Unheard-of"));
}

#[test]
fn kc_03_thirty_objects_on_thirty_pools_all_get_the_plain_name() {
    let mut cluster = Kubelets::new();
    for nth in 0..30 {
        let pool = format!("p{nth}");
        cluster.pool(&pool);
        cluster.create(&format!("k{nth}"), pools(&[&pool]), settings(json!({"maxPods": nth})));
        cluster.sync(&format!("k{nth}"));
        cluster.assert_success(&format!("k{nth}"));
    }
    assert_eq!(cluster.generated().len(), 30);
    assert!(cluster.generated().iter().all(|name| name.ends_with("-generated-kubelet")));
}

#[test]
fn kc_04_sizing_alone_makes_the_sizing_file_and_the_configuration() {
    let cluster = with("master", json!({"autoSizingReserved": true}));
    assert_eq!(cluster.paths("99-master-generated-kubelet"), [SIZING, KUBELET_CONF]);
    assert_eq!(
        cluster.file("99-master-generated-kubelet", SIZING).unwrap(),
        "NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"
    );
}

#[test]
fn amounts_reserved_by_hand_are_in_the_sizing_file_and_others_stay_in_the_configuration() {
    let spec = settings(json!({"systemReserved": {"memory": "2Gi", "pid": "1000"}}));
    let cluster = with("worker", spec);
    let name = "99-worker-generated-kubelet";
    assert_eq!(
        cluster.file(name, SIZING).unwrap(),
        "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=2Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"
    );
    assert!(cluster.file(name, KUBELET_CONF).unwrap().contains("systemReserved:\n  pid: \"1000\"\n"));
    let plain = with("worker", settings(json!({"maxPods": 1})));
    assert_eq!(plain.paths(name), [KUBELET_CONF], "it has no sizing settings");
}

#[test]
fn kc_05_a_log_level_alone_makes_the_drop_in_and_the_configuration() {
    let cluster = with("worker", json!({"logLevel": 5}));
    assert_eq!(cluster.paths("99-worker-generated-kubelet"), [LOGGING, KUBELET_CONF]);
    let text = cluster.file("99-worker-generated-kubelet", LOGGING).unwrap();
    assert_eq!(text, "[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=5\"\n");
}

#[test]
fn kc_06_a_change_updates_the_machine_config_in_place() {
    let mut cluster = Kubelets::new();
    let base = "featureGates:\n  A: true\nmaxPods: 1\n";
    cluster.put_files("worker", "50-base", &[(KUBELET_CONF, base)]);
    cluster.create("a", built_in("worker"), settings(json!({"maxPods": 100})));
    cluster.sync("a");
    cluster.edit("a", |object| object.spec.kubelet_config = Some(json!({"maxPods": 101})));
    let decision = cluster.sync("a");
    assert_eq!(done(&decision), (vec![], vec!["99-worker-generated-kubelet"], vec![]));
    let text = cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap();
    assert!(text.contains("maxPods: 101\n") && text.contains("featureGates:\n  A: true\n"), "{text}");
    cluster.assert_success("a");
    assert_eq!(cluster.objects["a"].status.as_ref().unwrap().observed_generation, Some(2));
}

/// Feature gates are part of the base here: plain Kubernetes has no object for them.
#[test]
fn kc_07_a_changed_base_is_followed() {
    let mut cluster = Kubelets::new();
    cluster.put_files("worker", "50-base", &[(KUBELET_CONF, "featureGates: {A: true}\n")]);
    cluster.create("a", built_in("worker"), settings(json!({"maxPods": 100})));
    cluster.sync("a");
    cluster.put_files("worker", "50-base", &[(KUBELET_CONF, "featureGates: {A: true, B: false}\n")]);
    assert_eq!(done(&cluster.sync("a")).1, ["99-worker-generated-kubelet"]);
    let text = cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap();
    assert!(text.contains("featureGates:\n  A: true\n  B: false\n"), "{text}");
}

/// The time of the status is not refreshed, other than upstream's: an idle cluster has no writes at all.
#[test]
fn kc_08_nothing_is_written_when_nothing_has_changed() {
    let mut cluster = with("worker", settings(json!({"maxPods": 100})));
    cluster.seconds += 3600;
    let decision = cluster.decide("a");
    assert!(decision.is_empty(), "{decision:?}");
    assert_eq!(decision.report.pools[0].outcome, PoolOutcome::Unchanged);
}

#[test]
fn kc_09_a_pool_that_is_current_does_not_hide_the_next_one() {
    let mut cluster = Kubelets::new();
    cluster.create(
        "a",
        json!({"matchExpressions": [{"key": label::BUILT_IN.as_str(), "operator": "Exists"}]}),
        settings(json!({"maxPods": 9})),
    );
    cluster.sync("a");
    let mut stale = cluster.machine_configs["99-worker-generated-kubelet"].as_ref().clone();
    annotation::GENERATED_BY_CONTROLLER_VERSION.set(&mut stale.metadata, "older");
    cluster.put(stale);
    assert_eq!(done(&cluster.sync("a")), (vec![], vec!["99-worker-generated-kubelet"], vec![]));
}

#[rstest]
#[case::kc_10(json!({"cgroupDriver": "cgroupfs"}), "KubeletConfiguration: cgroupDriver is not allowed to be set, but contains: cgroupfs")]
#[case::kc_11(json!({"clusterDNS": ["1.1.1.1"]}), "KubeletConfiguration: clusterDNS is not allowed to be set, but contains: [\"1.1.1.1\"]")]
#[case::kc_12(json!({"clusterDomain": "some.domain"}), "KubeletConfiguration: clusterDomain is not allowed to be set, but contains: some.domain")]
#[case::kc_13(json!({"featureGates": {"X": true}}), "KubeletConfiguration: featureGates is not allowed to be set, but contains: {\"X\":true}")]
#[case::kc_14_true(json!({"failSwapOn": true}), "KubeletConfiguration: failSwapOn is not allowed to be set, but contains: true")]
#[case::kc_14_false(json!({"failSwapOn": false}), "KubeletConfiguration: failSwapOn is not allowed to be set, but contains: false")]
#[case::kc_15(json!({"memorySwap": {"swapBehavior": "NoSwap"}}), "KubeletConfiguration: swapBehavior is not allowed to be set, but contains: NoSwap")]
#[case::cgroups(json!({"systemReservedCgroup": "/a", "systemCgroups": "/b"}), "KubeletConfiguration: systemReservedCgroup (/a) must match systemCgroups (/b)")]
#[case::wrong_type(json!({"maxPods": "100"}), "KubeletConfig could not be unmarshalled, err: maxPods: found \"100\"; expected a whole number, without quotes")]
#[case::other_kind(json!({"kind": "KubeProxyConfiguration"}), "KubeletConfig could not be unmarshalled, err: kind: found \"KubeProxyConfiguration\"; expected \"KubeletConfiguration\", or nothing")]
#[case::not_an_object(json!("maxPods: 1"), "KubeletConfig could not be unmarshalled, err: $: found \"maxPods: 1\"; expected an object")]
#[case::line_break(json!({"systemReserved": {"cpu": "1\nEVIL=1"}}), "KubeletConfiguration: systemReserved.cpu: \"1\\nEVIL=1\" is not a quantity; expected a number with an optional unit, such as 10G, 512Mi, 500m or 1e3")]
fn what_is_not_allowed_is_refused(#[case] kubelet: Value, #[case] expected: &str) {
    let cluster = with("worker", settings(kubelet));
    assert_eq!(cluster.failure("a"), format!("Error: {expected}"));
    assert!(cluster.generated().is_empty());
    let accepted = &cluster.conditions("a")[0];
    assert_eq!(accepted.reason.as_deref(), Some(GeneratorReason::Invalid.as_str()));
}

#[test]
fn sizing_by_itself_and_amounts_by_hand_exclude_each_other() {
    let spec = json!({"autoSizingReserved": true, "kubeletConfig": {"systemReserved": {"memory": "1Gi"}}});
    let message = with("worker", spec).failure("a");
    assert_eq!(message, "Error: KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together");
}

/// As upstream has it; but where it would have no effect there, it must not have one here.
#[test]
fn an_empty_value_of_a_platform_setting_passes_and_does_nothing() {
    let empty = json!({
        "cgroupDriver": "", "clusterDNS": [], "clusterDomain": "", "featureGates": {}, "memorySwap": {"swapBehavior": ""},
    });
    let null = json!({"cgroupDriver": null, "clusterDomain": null, "failSwapOn": null, "memorySwap": null});
    for kubelet in [empty, null] {
        let cluster = with("worker", settings(kubelet));
        cluster.assert_success("a");
        let text = cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap();
        for kept in [
            "cgroupDriver: systemd\n",
            "clusterDomain: cluster.local\n",
            "failSwapOn: false\n",
            "swapBehavior: NoSwap\n",
        ] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
    }
}

#[test]
fn kc_16_a_plain_setting_is_valid() {
    with("worker", settings(json!({"maxPods": 100}))).assert_success("a");
}

#[rstest]
fn kc_17_log_levels_from_0_to_10_are_valid(#[values(json!(0), json!(2), json!(10), Value::Null)] level: Value) {
    with("worker", json!({"logLevel": level})).assert_success("a");
}

#[rstest]
fn kc_18_other_log_levels_are_refused(#[values(-1, 11)] level: i32) {
    let message = with("worker", json!({"logLevel": level})).failure("a");
    assert_eq!(message, format!("Error: KubeletConfig's LogLevel is not valid [0,10]: {level}"));
}

/// A pool of each kind, by its labels.
fn pool_of(name: &str, node_selector: Value) -> seaworthy_api::machineconfiguration::MachineConfigPool {
    let mut pool = json!({
        "metadata": {"name": name, "uid": name, "labels": {"x": ""}},
        "spec": {"machineConfigSelector": {"matchLabels": {label::ROLE.as_str(): "worker"}}},
    });
    if !node_selector.is_null() {
        pool["spec"]["nodeSelector"] = node_selector;
    }
    from(pool)
}

fn by_label(role: &str) -> Value {
    json!({"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}})
}

fn by_expression(operator: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": operator, "values": values}]})
}

#[rstest]
#[case::master("master", Value::Null, Err("is not allowed to be set for control plane pool \"master\""))]
#[case::arbiter("arbiter", Value::Null, Err("is not allowed to be set for control plane pool \"arbiter\""))]
#[case::worker("worker", by_label("worker"), Err("must be empty for pool \"worker\", but contains: /some/path"))]
#[case::custom("infra", by_label("infra"), Err("must be empty for pool \"infra\", but contains: /some/path"))]
#[case::custom_master("cp", by_label("master"), Err("is not allowed to be set for control plane pool \"cp\""))]
fn kc_19_a_static_pod_path_is_refused_for_all(
    #[case] name: &str,
    #[case] selector: Value,
    #[case] expected: Result<(), &str>,
) {
    let mut cluster = Kubelets::bare();
    cluster.pools = vec![Arc::new(pool_of(name, selector))];
    cluster.create("a", labelled("x"), settings(json!({"staticPodPath": "/some/path"})));
    cluster.sync("a");
    let message = cluster.failure("a");
    assert_eq!(message, format!("Error: KubeletConfiguration: staticPodPath {}", expected.unwrap_err()));
}

#[rstest]
fn kc_20_an_empty_static_pod_path_is_taken_for_workers_and_has_effect(#[values("worker", "infra")] name: &str) {
    let mut cluster = Kubelets::new();
    cluster.pools = vec![Arc::new(pool_of(name, by_label(name)))];
    cluster.create("a", labelled("x"), settings(json!({"staticPodPath": ""})));
    cluster.sync("a");
    cluster.assert_success("a");
    let text = cluster.file(&format!("99-{name}-generated-kubelet"), KUBELET_CONF).unwrap();
    assert!(text.contains("staticPodPath: \"\"\n"), "{text}");
}

#[rstest]
fn kc_21_even_an_empty_static_pod_path_is_refused_for_the_control_plane(#[values("master", "arbiter")] name: &str) {
    let mut cluster = Kubelets::bare();
    cluster.pools = vec![Arc::new(pool_of(name, Value::Null))];
    cluster.create("a", labelled("x"), settings(json!({"staticPodPath": ""})));
    cluster.sync("a");
    assert!(cluster.failure("a").contains("control plane pool"), "{}", cluster.failure("a"));
}

#[rstest]
#[case("master", Value::Null)]
#[case("arbiter", Value::Null)]
#[case("cp", by_label("master"))]
#[case("cp", by_expression("Exists", json!([])))]
#[case("cp", by_expression("In", json!([""])))]
fn kc_22_these_pools_are_of_the_control_plane(#[case] name: &str, #[case] selector: Value) {
    assert!(kubelet::is_control_plane(&pool_of(name, selector)));
}

#[rstest]
#[case("worker", by_label("worker"))]
#[case("custom", by_label("custom"))]
#[case("custom", by_expression("DoesNotExist", json!([])))]
#[case("custom", by_expression("NotIn", json!([""])))]
#[case("custom", Value::Null)]
fn kc_23_these_pools_are_not_of_the_control_plane(#[case] name: &str, #[case] selector: Value) {
    assert!(!kubelet::is_control_plane(&pool_of(name, selector)));
}

#[test]
fn kc_53_a_custom_pool_follows_its_own_last_object() {
    let mut cluster = Kubelets::new();
    cluster.pool("infra");
    cluster.create("w", built_in("worker"), settings(json!({"maxPods": 10})));
    cluster.create("i1", pools(&["infra"]), settings(json!({"maxPods": 20})));
    cluster.create("i2", pools(&["infra"]), settings(json!({"maxPods": 30})));
    cluster.settle();
    let conf = |pool: &str| cluster.rendered(pool, KUBELET_CONF).unwrap();
    assert!(conf("worker").contains("maxPods: 10\n"));
    assert!(conf("infra").contains("maxPods: 30\n"));
    assert!(conf("master").contains("maxPods: 250\n"));
}

#[test]
fn kc_54_deletion_brings_back_what_was_before() {
    let mut cluster = Kubelets::new();
    let conf = |cluster: &Kubelets| cluster.rendered("worker", KUBELET_CONF).unwrap();
    let base = conf(&cluster);
    cluster.create("k1", built_in("worker"), settings(json!({"maxPods": 10})));
    cluster.settle();
    let first = conf(&cluster);
    cluster.create("k2", built_in("worker"), settings(json!({"maxPods": 20})));
    cluster.settle();
    assert!(conf(&cluster).contains("maxPods: 20\n"));
    for (name, left) in [("k2", &first), ("k1", &base)] {
        cluster.delete(name);
        let decision = cluster.sync(name);
        assert!(
            matches!(decision.changes().last(), Some(Change { action: Action::Patch(_), .. })),
            "the finalizer goes last"
        );
        assert!(!cluster.objects.contains_key(name));
        cluster.settle();
        assert_eq!(&conf(&cluster), left);
    }
    assert!(cluster.generated().is_empty());
}

#[test]
fn an_object_of_many_pools_is_deleted_at_once() {
    let mut cluster = Kubelets::new();
    cluster.create(
        "a",
        json!({"matchExpressions": [{"key": label::BUILT_IN.as_str(), "operator": "Exists"}]}),
        settings(json!({})),
    );
    cluster.settle();
    cluster.edit("a", |object| object.metadata.finalizers.get_or_insert_default().insert(0, "example.com/mine".into()));
    cluster.delete("a");
    let decision = cluster.sync("a");
    assert_eq!(done(&decision).2.len(), 2);
    assert_eq!(cluster.finalizers("a"), ["example.com/mine"], "others' finalizers are theirs");
}

#[test]
fn kc_56_a_pool_that_gets_the_label_later_is_served_without_an_edit() {
    let mut cluster = Kubelets::new();
    cluster.create("a", labelled("tuned"), settings(json!({"maxPods": 10})));
    cluster.sync("a");
    assert_eq!(
        cluster.failure("a"),
        "Error: could not find any MachineConfigPool set for KubeletConfig; KubeletConfig a selects tuned= \
         (spec.machineConfigPoolSelector), and no pool has the label tuned: correct it, or label the pool that is meant \
         (`kubectl label mcp POOL KEY=VALUE`)"
    );
    cluster.label("worker", "tuned");
    assert_eq!(done(&cluster.sync("a")).0, ["99-worker-generated-kubelet"]);
    cluster.assert_success("a");
    cluster.label("master", "tuned");
    assert_eq!(done(&cluster.sync("a")).0, ["99-master-generated-kubelet"]);
    assert_eq!(cluster.finalizers("a").len(), 2);
}

#[test]
fn a_pool_that_loses_the_label_loses_the_settings() {
    let mut cluster = Kubelets::new();
    cluster.label("worker", "tuned");
    cluster.label("master", "tuned");
    cluster.create("a", labelled("tuned"), settings(json!({"maxPods": 10})));
    cluster.sync("a");
    cluster.edit_pool("worker", |pool| drop(pool.metadata.labels.as_mut().unwrap().remove("tuned")));
    assert_eq!(done(&cluster.sync("a")).2, ["99-worker-generated-kubelet"]);
    assert_eq!(cluster.finalizers("a"), ["99-master-generated-kubelet"]);
    cluster.edit_pool("master", |pool| drop(pool.metadata.labels.as_mut().unwrap().remove("tuned")));
    assert_eq!(done(&cluster.sync("a")).2, ["99-master-generated-kubelet"]);
    assert!(cluster.finalizers("a").is_empty());
    assert!(cluster.failure("a").starts_with("Error: could not find any MachineConfigPool set for KubeletConfig; "));
}

#[test]
fn machine_config_of_a_user_with_the_name_is_not_overwritten() {
    let mut cluster = Kubelets::new();
    cluster.label("worker", "tuned");
    cluster.put_files("worker", "99-worker-generated-kubelet", &[("/etc/own", "precious")]);
    cluster.create("a", labelled("tuned"), settings(json!({"maxPods": 10})));
    cluster.sync("a");
    let reported = cluster.failure("a");
    assert!(
        reported.contains("MachineConfig 99-worker-generated-kubelet was not generated by the controllers"),
        "{reported}"
    );
    assert_eq!(cluster.file("99-worker-generated-kubelet", "/etc/own").as_deref(), Some("precious"));
    // Nor does it go with the object.
    cluster.delete("a");
    assert_eq!(cluster.file("99-worker-generated-kubelet", "/etc/own").as_deref(), Some("precious"));
}

#[rstest]
fn an_empty_selector_selects_nothing(#[values(json!({}), Value::Null)] selector: Value) {
    let mut cluster = Kubelets::new();
    cluster.create("a", selector, settings(json!({"maxPods": 1100})));
    cluster.sync("a");
    assert!(cluster.failure("a").starts_with("Error: could not find any MachineConfigPool set for KubeletConfig; "));
}

#[test]
fn a_bad_selector_is_named_and_what_was_made_stays() {
    let mut cluster = with("worker", settings(json!({"maxPods": 10})));
    let bad = json!({"matchExpressions": [{"key": "k", "operator": "Like"}]});
    cluster.edit("a", |object| object.spec.machine_config_pool_selector = Some(serde_json::from_value(bad).unwrap()));
    assert_eq!(done(&cluster.sync("a")), (vec![], vec![], vec![]));
    assert!(cluster.failure("a").starts_with("Error: invalid label selector: "), "{}", cluster.failure("a"));
    assert_eq!(cluster.generated(), ["99-worker-generated-kubelet"]);
}

#[test]
fn an_object_that_becomes_invalid_keeps_what_it_had() {
    let mut cluster = with("worker", settings(json!({"maxPods": 10})));
    cluster.edit("a", |object| object.spec.kubelet_config = Some(json!({"maxPods": 11, "cgroupDriver": "x"})));
    cluster.sync("a");
    assert!(cluster.failure("a").contains("cgroupDriver"));
    assert!(cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap().contains("maxPods: 10\n"));
}

#[test]
fn every_pool_is_served_although_one_fails() {
    let mut cluster = Kubelets::new();
    cluster.create(
        "a",
        json!({"matchExpressions": [{"key": label::BUILT_IN.as_str(), "operator": "Exists"}]}),
        settings(json!({"staticPodPath": ""})),
    );
    let decision = cluster.sync("a");
    assert_eq!(done(&decision).0, ["99-worker-generated-kubelet"]);
    assert!(matches!(decision.report.pools[0].outcome, PoolOutcome::Failed(_)));
    assert_eq!(decision.report.pools[1].outcome, PoolOutcome::Created);
    assert_eq!(
        cluster.failure("a"),
        "pool master: Error: KubeletConfiguration: staticPodPath is not allowed to be set for control plane pool \"master\""
    );
    assert_eq!(cluster.conditions("a")[0].reason.as_deref(), Some("PartlyApplied"));
}

#[test]
fn a_pool_that_fails_keeps_what_it_had() {
    let mut cluster = Kubelets::new();
    let all = json!({"matchExpressions": [{"key": label::BUILT_IN.as_str(), "operator": "Exists"}]});
    cluster.create("a", all, settings(json!({"maxPods": 10})));
    cluster.sync("a");
    cluster.put_files("worker", "60-broken", &[("relative", "x")]);
    cluster.edit("a", |object| object.spec.kubelet_config = Some(json!({"maxPods": 11})));
    // A number of its own would be another name, which must not cost the pool the one that it has either.
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "4"));
    assert_eq!(
        done(&cluster.sync("a")),
        (vec!["99-master-generated-kubelet-4"], vec![], vec!["99-master-generated-kubelet"])
    );
    assert!(cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap().contains("maxPods: 10\n"));
    assert_eq!(cluster.finalizers("a"), ["99-worker-generated-kubelet", "99-master-generated-kubelet-4"]);
    cluster.machine_configs.remove("60-broken");
    assert_eq!(done(&cluster.sync("a")).2, ["99-worker-generated-kubelet"]);
    cluster.assert_success("a");
}

#[test]
fn a_hand_in_the_machine_config_is_undone_and_a_deleted_one_is_made_again() {
    let mut cluster = with("worker", settings(json!({"maxPods": 10})));
    let name = "99-worker-generated-kubelet";
    let mut edited = cluster.machine_configs[name].as_ref().clone();
    edited.spec.config = Some(json!({"ignition": {"version": "3.5.0"}}));
    cluster.put(edited);
    assert_eq!(done(&cluster.sync("a")).1, [name]);
    cluster.machine_configs.remove(name);
    assert_eq!(done(&cluster.sync("a")).0, [name]);
}

#[test]
fn nothing_is_decided_while_the_base_is_being_made() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(json!({"maxPods": 10})));
    cluster.controller_config = Some(controller_config(json!({})));
    let decision = cluster.sync("a");
    assert!(decision.is_empty(), "{decision:?}");
    assert_eq!(decision.report.waiting, Some(UnmetPrecondition::ControllerConfigIncomplete));
}

#[test]
fn kc_57_a_users_annotation_stays() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(json!({"maxPods": 10})));
    cluster.edit("a", |object| {
        drop(object.metadata.annotations.get_or_insert_default().insert("team".into(), "x".into()))
    });
    let decision = cluster.sync("a");
    let annotations = first_patch(&decision)["metadata"]["annotations"].clone();
    assert_eq!(annotations.as_object().unwrap().keys().collect::<Vec<_>>(), [annotation::MC_NAME_SUFFIX.as_str()]);
    assert_eq!(cluster.objects["a"].metadata.annotations.as_ref().unwrap()["team"], "x");
}

#[test]
fn kc_58_a_key_that_no_kubelet_knows_is_named_and_written() {
    let cluster = with("worker", settings(json!({"maxPod": 5})));
    let conditions = cluster.conditions("a");
    let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_deref().unwrap()).collect();
    assert_eq!(types, ["Accepted", "UnknownSettings", "Success"]);
    assert!(conditions[1].message.as_ref().unwrap().contains("maxPod (did you mean maxPods?)"));
    assert!(cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap().contains("maxPod: 5\n"));
}

#[test]
fn object_that_a_later_one_overrides_has_it_in_its_status() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), json!({"logLevel": 3}));
    cluster.create("b", built_in("worker"), settings(json!({"maxPods": 10})));
    cluster.settle();
    let reported = |name: &str| {
        let mut conditions = cluster.conditions(name).iter();
        let found = conditions.find(|condition| condition.type_.as_deref() == Some("Overridden"));
        found.map(|condition| condition.message.clone().unwrap())
    };
    let expected =
        "pool worker: /etc/kubernetes/kubelet.conf comes from 99-worker-generated-kubelet-1 of KubeletConfig b";
    assert_eq!(reported("a").as_deref(), Some(expected));
    assert_eq!(reported("b"), None);
}
