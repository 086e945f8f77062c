//! KubeletConfigs: names, numbers, owners, and what older releases left behind.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::KubeletConfig;
use seaworthy_api::vocabulary::machineconfiguration::annotation;
use seaworthy_generate::kubelet::{self, KUBELET_CONF};
use serde_json::{Value, json};

use crate::support::{BUILD, Cluster, built_in, done, file_of, first_patch, labelled, pools};

type Kubelets = Cluster<KubeletConfig>;

fn settings(max_pods: u32) -> Value {
    json!({"kubeletConfig": {"maxPods": max_pods}})
}

#[test]
fn kc_24_numbers_stay() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("master"), settings(1));
    cluster.sync("a");
    cluster.create("b", built_in("master"), settings(2));
    cluster.sync("b");
    cluster.settle();
    assert_eq!((cluster.suffix("a"), cluster.suffix("b")), (Some(""), Some("1")));
    assert_eq!(cluster.generated(), ["99-master-generated-kubelet", "99-master-generated-kubelet-1"]);
}

#[test]
fn numbers_follow_the_time_of_creation_in_whatever_order_objects_are_looked_at() {
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let mut cluster = Kubelets::new();
        for (nth, name) in ["a", "b", "c"].into_iter().enumerate() {
            cluster.create(name, built_in("worker"), settings(nth as u32));
        }
        for name in order {
            cluster.sync(name);
        }
        cluster.settle();
        assert_eq!(["a", "b", "c"].map(|name| cluster.suffix(name).unwrap()), ["", "1", "2"], "{order:?}");
    }
}

#[test]
fn kc_25_an_older_object_without_annotation_keeps_its_machine_config() {
    let mut cluster = Kubelets::new();
    cluster.create("older", built_in("master"), settings(1));
    cluster.create("newer", built_in("master"), settings(2));
    let plain = "99-master-generated-kubelet";
    cluster.put_generated("master", plain, BUILD, Some("older"));
    cluster.edit("older", |object| object.metadata.finalizers = Some(vec![plain.into()]));
    cluster.edit("newer", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "1"));
    let decision = cluster.sync("older");
    assert_eq!(done(&decision), (vec![], vec![plain], vec![]));
    assert_eq!(cluster.suffix("older"), Some(""));
    assert_eq!(cluster.finalizers("older"), [plain]);
    assert_eq!(first_patch(&decision)["metadata"].get("finalizers"), None);
}

#[test]
fn kc_26_upgrade_deletes_orphans_and_nothing_else() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("master"), settings(1));
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "1"));
    cluster.put_generated("master", "99-master-generated-kubelet", "older", Some("gone"));
    cluster.put_generated("master", "99-master-generated-kubelet-1", "older", Some("a"));
    cluster.put_generated("master", "99-master-generated-kubelet-2", "older", None);
    cluster.put_generated("master", "custom-kubelet", "older", None);
    cluster.put_files("master", "99-my-generated-kubelet", &[("/etc/mine", "x")]);
    let decision = cluster.sync("a");
    let gone = vec!["99-master-generated-kubelet", "99-master-generated-kubelet-2"];
    assert_eq!(done(&decision), (vec![], vec!["99-master-generated-kubelet-1"], gone));
    assert!(cluster.machine_configs.contains_key("custom-kubelet"));
    assert!(cluster.machine_configs.contains_key("99-my-generated-kubelet"), "a user made it");
}

#[test]
fn an_upgrade_leaves_what_other_objects_have() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(1));
    cluster.create("b", built_in("worker"), settings(2));
    cluster.settle();
    cluster.build = "build-2".to_owned();
    assert_eq!(done(&cluster.sync("a")), (vec![], vec!["99-worker-generated-kubelet"], vec![]));
    assert_eq!(done(&cluster.sync("b")), (vec![], vec!["99-worker-generated-kubelet-1"], vec![]));
}

#[test]
fn what_is_left_when_no_object_is_left_is_known() {
    let mut cluster = Kubelets::new();
    cluster.put_generated("master", "99-master-generated-kubelet", BUILD, Some("gone"));
    cluster.put_files("master", "99-my-generated-kubelet", &[("/etc/mine", "x")]);
    let configs: Vec<_> = cluster.machine_configs.values().cloned().collect();
    let orphans = kubelet::orphans(&[], &cluster.pools, &configs, BUILD);
    assert_eq!(
        orphans.iter().map(|orphan| orphan.object.name.as_str()).collect::<Vec<_>>(),
        ["99-master-generated-kubelet"]
    );
}

#[test]
fn a_machine_config_named_after_the_pools_uid_is_adopted() {
    let mut cluster = Kubelets::new();
    let uid = "11111111-2222-3333-4444-555555555555";
    cluster.edit_pool("worker", |pool| pool.metadata.uid = Some(uid.into()));
    let legacy = format!("99-worker-{uid}-kubelet");
    cluster.put_generated("worker", &legacy, "older", None);
    cluster.create("a", built_in("worker"), settings(1));
    let of_old = "99999999-2222-3333-4444-555555555555".to_owned();
    cluster.edit("a", |object| object.metadata.finalizers = Some(vec!["example.com/x".into(), legacy.clone(), of_old]));
    let decision = cluster.sync("a");
    assert_eq!(done(&decision), (vec!["99-worker-generated-kubelet"], vec![], vec![legacy.as_str()]));
    assert_eq!(cluster.finalizers("a"), ["example.com/x", "99-worker-generated-kubelet"]);
}

#[test]
fn number_that_another_object_has_in_a_new_pool_stays_with_it() {
    let mut cluster = Kubelets::new();
    cluster.create("a", labelled("tuned"), settings(1));
    cluster.label("worker", "tuned");
    cluster.create("b", built_in("master"), settings(2));
    cluster.settle();
    assert_eq!((cluster.suffix("a"), cluster.suffix("b")), (Some(""), Some("")));
    cluster.label("master", "tuned");
    cluster.settle();
    assert!(cluster.file("99-master-generated-kubelet", KUBELET_CONF).unwrap().contains("maxPods: 2\n"));
    assert!(cluster.file("99-master-generated-kubelet-1", KUBELET_CONF).unwrap().contains("maxPods: 1\n"));
    cluster.assert_success("a");
    cluster.assert_success("b");
    cluster.delete("a");
    cluster.sync("a");
    assert_eq!(cluster.generated(), ["99-master-generated-kubelet"]);
}

#[test]
fn object_copied_with_its_annotation_and_finalizer_harms_no_other() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(1));
    cluster.settle();
    cluster.create("copy", built_in("worker"), settings(2));
    let (annotations, finalizers) =
        (cluster.objects["a"].metadata.annotations.clone(), cluster.objects["a"].metadata.finalizers.clone());
    cluster.edit("copy", |object| {
        object.metadata.annotations = annotations;
        object.metadata.finalizers = finalizers;
    });
    cluster.settle();
    assert_eq!(cluster.generated(), ["99-worker-generated-kubelet", "99-worker-generated-kubelet-1"]);
    cluster.delete("copy");
    cluster.settle();
    assert_eq!(cluster.generated(), ["99-worker-generated-kubelet"]);
    assert!(cluster.file("99-worker-generated-kubelet", KUBELET_CONF).unwrap().contains("maxPods: 1\n"));
}

#[test]
fn a_copy_that_is_deleted_at_once_takes_nothing_with_it() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(1));
    cluster.settle();
    cluster.create("copy", built_in("worker"), settings(2));
    let finalizers = cluster.objects["a"].metadata.finalizers.clone();
    cluster.edit("copy", |object| object.metadata.finalizers = finalizers);
    cluster.delete("copy");
    assert_eq!(done(&cluster.sync("copy")).2, Vec::<&str>::new());
    assert!(!cluster.objects.contains_key("copy"));
    assert_eq!(cluster.generated(), ["99-worker-generated-kubelet"]);
}

#[test]
fn two_objects_with_one_number_get_different_names_before_either_is_written() {
    let mut cluster = Kubelets::new();
    for name in ["a", "b"] {
        cluster.create(name, built_in("worker"), settings(1));
        cluster.edit(name, |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, ""));
    }
    let (first, second) = (cluster.decide("a"), cluster.decide("b"));
    assert_eq!(done(&first).0, ["99-worker-generated-kubelet"]);
    assert_eq!(done(&second).0, ["99-worker-generated-kubelet-1"]);
}

#[test]
fn a_suffix_that_makes_no_name_is_refused() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), settings(1));
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "A/b"));
    cluster.sync("a");
    assert!(cluster.failure("a").starts_with("could not get kubelet config key: "), "{}", cluster.failure("a"));
    cluster.create("b", built_in("worker"), settings(1));
    cluster.sync("b");
    assert!(
        cluster.failure("b").contains("error converting \"A/b\" to int: the annotation of a "),
        "{}",
        cluster.failure("b")
    );
}

fn bootstrap_machine_configs(
    cluster: &Kubelets,
) -> Result<Vec<seaworthy_api::machineconfiguration::MachineConfig>, String> {
    let all: Vec<_> = cluster.objects.values().cloned().map(Arc::new).collect();
    let configs: Vec<_> = cluster.machine_configs.values().cloned().collect();
    kubelet::bootstrap_machine_configs(&all, &cluster.pools, &configs, BUILD, None).map_err(|refusal| refusal.message)
}

#[test]
fn kc_45_before_there_is_a_cluster_each_pool_takes_one_object() {
    let mut cluster = Kubelets::new();
    cluster.pool("custom");
    cluster.create("m", built_in("master"), settings(100));
    cluster.create("w", built_in("worker"), settings(100));
    cluster.create("c", pools(&["custom"]), settings(100));
    let made = bootstrap_machine_configs(&cluster).unwrap();
    let names: Vec<&str> = made.iter().map(|made| made.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["99-custom-generated-kubelet", "99-master-generated-kubelet", "99-worker-generated-kubelet"]);
    for made in &made {
        assert!(file_of(made.spec.config.as_ref().unwrap(), KUBELET_CONF).unwrap().contains("maxPods: 100\n"));
        let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.controller), ("KubeletConfig", "", None));
    }
}

#[test]
fn kc_46_before_there_is_a_cluster_two_objects_for_a_pool_are_refused() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("master"), settings(1));
    cluster.create("b", built_in("master"), settings(2));
    let message = bootstrap_machine_configs(&cluster).unwrap_err();
    assert!(message.contains("pool master") && message.contains("into one manifest"), "{message}");
}

#[test]
fn kc_47_what_was_made_before_the_cluster_is_taken_over() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("master"), settings(1));
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, ""));
    let made = bootstrap_machine_configs(&cluster).unwrap();
    made.into_iter().for_each(|made| cluster.put(made));
    cluster.create("b", built_in("master"), settings(2));
    cluster.settle();
    assert_eq!((cluster.suffix("a"), cluster.suffix("b")), (Some(""), Some("1")));
    let owner = &cluster.machine_configs["99-master-generated-kubelet"].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("a", Some(true)));
}

/// Feature gates have no object on plain Kubernetes: what an OpenShift cluster brings along is known, and left alone.
#[test]
fn kc_49_machine_configs_of_feature_gates_are_recognised_and_kept() {
    for name in ["97-worker-generated-kubelet", "98-old-generated-kubelet"] {
        assert!(kubelet::is_reserved_name(name));
    }
    assert!(!kubelet::is_reserved_name("99-worker-generated-kubelet"));
    let mut cluster = Kubelets::new();
    cluster.put_generated("worker", "98-gone-generated-kubelet", "older", None);
    cluster.create("a", built_in("worker"), settings(1));
    assert_eq!(done(&cluster.sync("a")).2, Vec::<&str>::new());
}

#[test]
fn kc_52_an_eleventh_object_is_refused() {
    let mut cluster = Kubelets::new();
    for nth in 0..11 {
        cluster.create(&format!("k{nth:02}"), built_in("worker"), settings(nth));
        cluster.sync(&format!("k{nth:02}"));
    }
    cluster.settle();
    assert_eq!(cluster.generated().len(), 10);
    let message = cluster.failure("k10");
    assert!(message.starts_with("could not get kubelet config key: max number of supported kubelet config (10) has been reached. Pool worker"), "{message}");
    assert!(message.contains("k00") && message.contains("k09"), "{message}");
    cluster.assert_success("k09");
}

#[test]
fn a_number_is_not_used_again_below_the_highest() {
    let mut cluster = Kubelets::new();
    for name in ["a", "b", "c"] {
        cluster.create(name, built_in("worker"), settings(1));
        cluster.sync(name);
    }
    cluster.delete("b");
    cluster.sync("b");
    cluster.create("d", built_in("worker"), settings(1));
    cluster.sync("d");
    assert_eq!(cluster.suffix("d"), Some("3"));
}
