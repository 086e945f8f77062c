//! ContainerRuntimeConfigs: what is generated, refused and reported.

use std::sync::Arc;

use rstest::rstest;
use seaworthy_api::machineconfiguration::ContainerRuntimeConfig;
use seaworthy_api::vocabulary::machineconfiguration::{annotation, label};
use seaworthy_change::Action;
use seaworthy_generate::PoolOutcome;
use seaworthy_generate::container_runtime::{self, AdditionalStores, DROP_INS, STORAGE_CONF};
use serde_json::{Value, json};

use crate::support::{BUILD, Cluster, built_in, controller_config, done, first_patch, labelled, pools};

type Runtimes = Cluster<ContainerRuntimeConfig>;

const WORKER: &str = "99-worker-generated-containerruntime";
const MASTER: &str = "99-master-generated-containerruntime";

fn with_stores(stores: AdditionalStores, settings: Value) -> Runtimes {
    let mut cluster = Runtimes::new();
    cluster.stores = stores;
    cluster.create("a", built_in("worker"), settings);
    cluster.sync("a");
    cluster
}

fn with(settings: Value) -> Runtimes {
    with_stores(AdditionalStores::Allowed, settings)
}

fn drop_in(field: &str) -> String {
    format!("{DROP_INS}/01-ctrcfg-{field}")
}

fn storage(cluster: &Runtimes) -> toml_edit::DocumentMut {
    cluster.file(WORKER, STORAGE_CONF).unwrap().parse().unwrap()
}

fn both() -> Value {
    json!({"matchExpressions": [{"key": label::BUILT_IN.as_str(), "operator": "Exists"}]})
}

#[test]
fn cr_01_the_first_object_of_a_pool_gets_the_plain_name() {
    let mut cluster = Runtimes::new();
    cluster.create("a", built_in("master"), json!({"logLevel": "debug", "logSizeMax": "9k", "overlaySize": "3G"}));
    let decision = cluster.sync("a");
    assert_eq!(done(&decision), (vec![MASTER], vec![], vec![]));
    assert_eq!(cluster.finalizers("a"), [MASTER]);
    assert_eq!(cluster.suffix("a"), Some(""));
    assert_eq!(cluster.paths(MASTER), [STORAGE_CONF.to_owned(), drop_in("logLevel"), drop_in("logSizeMax")]);
    // One write of the status, not two: upstream's first one is its storage step, which is part of the decision here.
    assert_eq!(decision.changes().filter(|change| matches!(change.action, Action::PatchStatus(_))).count(), 1);
    cluster.assert_success("a");
    let made = serde_json::to_value(&cluster.machine_configs[MASTER].metadata).unwrap();
    assert_eq!(made["annotations"], json!({annotation::GENERATED_BY_CONTROLLER_VERSION.as_str(): BUILD}));
    assert_eq!(made["ownerReferences"][0]["kind"], "ContainerRuntimeConfig");
    let types: Vec<&str> = cluster.conditions("a").iter().map(|c| c.type_.as_deref().unwrap()).collect();
    assert_eq!(types, ["Accepted", "Success"]);
}

#[test]
fn cr_02_the_platform_changes_nothing() {
    let made = |platform: &str| {
        let mut cluster = Runtimes::new();
        let infra = json!({"infra": {"spec": {}, "status": {"platformStatus": {"type": platform}}}});
        let made = seaworthy_generate::base::machine_configs(&controller_config(infra), &<_>::default(), None, BUILD);
        made.unwrap().into_iter().for_each(|machine_config| cluster.put(machine_config));
        cluster.create("a", built_in("worker"), json!({"overlaySize": "3G"}));
        cluster.sync("a");
        cluster.file(WORKER, STORAGE_CONF).unwrap()
    };
    assert_eq!(made("AWS"), made("None"));
    assert_eq!(made("AWS"), made("Unheard-of"));
}

#[test]
fn cr_03_a_change_updates_the_machine_config_in_place() {
    let mut cluster = with(json!({"logLevel": "debug"}));
    let warn = json!({"logLevel": "warn"});
    cluster.edit("a", |object| object.spec.container_runtime_config = serde_json::from_value(warn).unwrap());
    assert_eq!(done(&cluster.sync("a")), (vec![], vec![WORKER], vec![]));
    assert!(cluster.file(WORKER, &drop_in("logLevel")).unwrap().contains("log_level = \"warn\""));
}

#[rstest]
#[case::cr_04_small(json!({"pidsLimit": 10}), "invalid PidsLimit 10")]
#[case::cr_04_negative(json!({"pidsLimit": -10}), "invalid PidsLimit -10")]
#[case::cr_07(json!({"logSizeMax": "3k"}), "invalid LogSizeMax \"3k\", cannot be less than 8kB")]
#[case::cr_09(json!({"logLevel": "invalid"}), "invalid LogLevel \"invalid\", must be one of error, fatal, panic, warn, info, debug, or trace")]
#[case::cr_11(json!({"defaultRuntime": "invalid"}), "invalid DefaultRuntime \"invalid\", must be one of crun, runc")]
#[case::negative_overlay(json!({"overlaySize": "-1"}), "invalid overlaySize \"-1\", cannot be less than 0")]
#[case::no_quantity(json!({"logSizeMax": "much"}), "invalid LogSizeMax: \"much\" is not a quantity; expected a number with an optional unit, such as 10G, 512Mi, 500m or 1e3")]
#[case::cr_28(json!({"additionalImageStores": [{"path": ""}]}), "invalid AdditionalImageStores: path must not be empty")]
#[case::cr_29_relative(json!({"additionalLayerStores": [{"path": "a/b"}]}), "invalid AdditionalLayerStores path \"a/b\": must be an absolute path containing only alphanumeric characters, '/', '.', '_' and '-'")]
#[case::cr_29_blank(json!({"additionalLayerStores": [{"path": "/a b"}]}), "invalid AdditionalLayerStores path \"/a b\": must be an absolute path containing only alphanumeric characters, '/', '.', '_' and '-'")]
#[case::cr_29_at(json!({"additionalLayerStores": [{"path": "/a@b"}]}), "invalid AdditionalLayerStores path \"/a@b\": must be an absolute path containing only alphanumeric characters, '/', '.', '_' and '-'")]
#[case::cr_30(json!({"additionalArtifactStores": [{"path": "/a//b"}]}), "invalid AdditionalArtifactStores path \"/a//b\": must not contain consecutive forward slashes")]
#[case::cr_31(
    json!({"additionalLayerStores": [{"path": ""}], "additionalImageStores": [{"path": "/a//b"}], "additionalArtifactStores": [{"path": ""}]}),
    "invalid AdditionalLayerStores: path must not be empty; invalid AdditionalImageStores path \"/a//b\": must not contain \
     consecutive forward slashes; invalid AdditionalArtifactStores: path must not be empty"
)]
fn what_is_not_allowed_is_refused(
    #[values(AdditionalStores::Allowed, AdditionalStores::Ignored)] stores: AdditionalStores,
    #[case] settings: Value,
    #[case] expected: &str,
) {
    let cluster = with_stores(stores, settings);
    assert_eq!(cluster.failure("a"), format!("Error: {expected}"));
    assert!(cluster.generated().is_empty());
}

#[rstest]
#[case::cr_05("pidsLimit", json!(2048), "    pids_limit = 2048\n")]
#[case::cr_06_zero_leaves_the_limit("pidsLimit", json!(0), "")]
#[case::cr_08("logSizeMax", json!("10k"), "    log_size_max = 10000\n")]
#[case::cr_10_debug("logLevel", json!("debug"), "    log_level = \"debug\"\n")]
#[case::cr_10_trace("logLevel", json!("trace"), "    log_level = \"trace\"\n")]
#[case::cr_12("defaultRuntime", json!("crun"), "    default_runtime = \"crun\"\n")]
#[case::cr_16("logSizeMax", json!("10G"), "    log_size_max = 10000000000\n")]
#[case::unlimited("logSizeMax", json!("-1"), "    log_size_max = -1\n")]
#[case::cr_50("logSizeMax", json!("8192"), "    log_size_max = 8192\n")]
#[case::cr_24("additionalArtifactStores", json!([{"path": "/b"}, {"path": "/a"}]), "    additional_artifact_stores = [\"/b\", \"/a\"]\n")]
fn a_setting_is_a_drop_in_of_its_own(#[case] field: &str, #[case] value: Value, #[case] line: &str) {
    let cluster = with(json!({field: value}));
    cluster.assert_success("a");
    assert_eq!(cluster.paths(WORKER), [drop_in(field)]);
    let text = cluster.file(WORKER, &drop_in(field)).unwrap();
    assert_eq!(text, format!("[crio]\n  [crio.runtime]\n{line}"));
    text.parse::<toml_edit::DocumentMut>().unwrap();
}

#[test]
fn cr_13_what_is_not_set_is_not_written_in_the_object() {
    let object: ContainerRuntimeConfig = crate::support::from(
        json!({"metadata": {"name": "a"}, "spec": {"containerRuntimeConfig": {"logLevel": "debug"}}}),
    );
    let json = serde_json::to_value(&object).unwrap();
    assert_eq!(json["spec"], json!({"containerRuntimeConfig": {"logLevel": "debug"}}));
}

#[test]
fn cr_14_a_quantity_is_written_as_it_was_spelled() {
    let spec = json!({"containerRuntimeConfig": {"logSizeMax": "10k", "overlaySize": "10G"}});
    let object: ContainerRuntimeConfig = crate::support::from(json!({"metadata": {"name": "a"}, "spec": spec}));
    assert_eq!(serde_json::to_value(&object).unwrap()["spec"], spec);
}

#[rstest]
#[case::cr_15(json!({"logSizeMax": "0k"}))]
#[case::cr_17(json!({"overlaySize": "0k"}))]
#[case::empty_level(json!({"logLevel": ""}))]
fn zero_is_written_nowhere(#[case] settings: Value) {
    let cluster = with(settings);
    cluster.assert_success("a");
    assert_eq!(cluster.machine_configs[WORKER].spec.config, Some(json!({"ignition": {"version": "3.5.0"}})));
}

#[test]
fn cr_18_the_size_of_the_overlay_is_kept_as_spelled() {
    let cluster = with(json!({"overlaySize": "10G"}));
    assert_eq!(storage(&cluster)["storage"]["options"]["size"].as_str(), Some("10G"));
    assert!(storage(&cluster)["storage"]["options"]["overlay"].get("size").is_none());
}

fn texts(item: &toml_edit::Item) -> Vec<&str> {
    item.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

#[test]
fn cr_19_layer_stores_are_references() {
    let stores = json!([{"path": "/var/lib/stargz-store"}, {"path": "/mnt/nfs-layers"}]);
    let cluster = with(json!({"additionalLayerStores": stores}));
    let document = storage(&cluster);
    let list = texts(&document["storage"]["options"]["additionallayerstores"]);
    assert_eq!(list, ["/var/lib/stargz-store:ref", "/mnt/nfs-layers:ref"]);
}

#[test]
fn cr_20_image_stores_are_listed_in_order() {
    let cluster = with(json!({"additionalImageStores": [{"path": "/b"}, {"path": "/a"}]}));
    assert_eq!(texts(&storage(&cluster)["storage"]["options"]["additionalimagestores"]), ["/b", "/a"]);
}

#[test]
fn cr_21_all_keys_of_storage_are_combined() {
    let cluster = with(json!({
        "overlaySize": "10G", "additionalLayerStores": [{"path": "/l"}], "additionalImageStores": [{"path": "/i"}],
    }));
    let document = storage(&cluster);
    let options = &document["storage"]["options"];
    assert_eq!(options["size"].as_str(), Some("10G"));
    assert_eq!(texts(&options["additionallayerstores"]), ["/l:ref"]);
    assert_eq!(texts(&options["additionalimagestores"]), ["/i"]);
}

/// That `:ref` at the end of a path is not repeated (`cr_22`) is tested beside the code: no valid object gets there.
#[test]
fn a_path_that_is_a_reference_already_is_refused() {
    let cluster = with(json!({"additionalLayerStores": [{"path": "/l:ref"}]}));
    assert!(cluster.failure("a").contains("must be an absolute path"));
}

#[rstest]
#[case::cr_23_layers(json!({"additionalLayerStores": [{"path": "/l"}]}), vec![])]
#[case::cr_23_images(json!({"additionalImageStores": [{"path": "/i"}]}), vec![])]
#[case::cr_25(json!({"additionalArtifactStores": [{"path": "/a"}]}), vec![])]
#[case::cr_26(json!({"logLevel": "debug", "additionalArtifactStores": [{"path": "/a"}]}), vec!["logLevel"])]
#[case::cr_33(json!({"additionalLayerStores": [{"path": "/l"}], "additionalArtifactStores": [{"path": "/a"}]}), vec![])]
fn stores_that_are_not_allowed_are_not_written(#[case] settings: Value, #[case] fields: Vec<&str>) {
    let cluster = with_stores(AdditionalStores::Ignored, settings);
    cluster.assert_success("a");
    assert_eq!(cluster.paths(WORKER), fields.iter().map(|field| drop_in(field)).collect::<Vec<_>>());
}

#[rstest]
fn cr_27_plain_paths_are_taken(#[values("/var/lib/store", "/a.b-c_d/E9")] path: &str) {
    with(json!({"additionalImageStores": [{"path": path}]})).assert_success("a");
}

#[test]
fn cr_32_stores_alone_are_enough() {
    let cluster = with(json!({"additionalImageStores": [{"path": "/i"}]}));
    cluster.assert_success("a");
    assert_eq!(cluster.paths(WORKER), [STORAGE_CONF]);
}

#[test]
fn cr_34_thirty_objects_on_thirty_pools_all_get_the_plain_name() {
    let mut cluster = Runtimes::new();
    for nth in 0..30 {
        let (pool, name) = (format!("p{nth}"), format!("c{nth}"));
        cluster.pool(&pool);
        cluster.create(&name, pools(&[&pool]), json!({"pidsLimit": 100 + nth}));
        cluster.sync(&name);
        cluster.assert_success(&name);
    }
    assert!(cluster.generated().iter().all(|name| name.ends_with("-generated-containerruntime")));
}

#[test]
fn cr_35_numbers_stay() {
    let mut cluster = Runtimes::new();
    cluster.create("a", built_in("master"), json!({"pidsLimit": 100}));
    cluster.create("b", built_in("master"), json!({"pidsLimit": 200}));
    cluster.settle();
    assert_eq!((cluster.suffix("a"), cluster.suffix("b")), (Some(""), Some("1")));
}

#[test]
fn cr_36_an_older_object_without_annotation_keeps_its_machine_config() {
    let mut cluster = Runtimes::new();
    cluster.create("older", built_in("master"), json!({"pidsLimit": 100}));
    cluster.create("newer", built_in("master"), json!({"pidsLimit": 200}));
    cluster.put_generated("master", MASTER, BUILD, Some("older"));
    cluster.edit("older", |object| object.metadata.finalizers = Some(vec![MASTER.into()]));
    cluster.edit("newer", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "1"));
    let decision = cluster.sync("older");
    assert_eq!(done(&decision), (vec![], vec![MASTER], vec![]));
    assert_eq!(cluster.suffix("older"), Some(""));
    assert_eq!(first_patch(&decision)["metadata"].get("finalizers"), None);
}

#[test]
fn cr_37_upgrade_deletes_orphans_and_nothing_else() {
    let mut cluster = Runtimes::new();
    cluster.create("a", built_in("master"), json!({"pidsLimit": 100}));
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, "1"));
    cluster.put_generated("master", MASTER, "older", Some("gone"));
    let numbered = format!("{MASTER}-1");
    cluster.put_generated("master", &numbered, "older", Some("a"));
    cluster.put_generated("master", "custom-containerruntime", "older", None);
    assert_eq!(done(&cluster.sync("a")), (vec![], vec![numbered.as_str()], vec![MASTER]));
    assert!(cluster.machine_configs.contains_key("custom-containerruntime"));
}

#[test]
fn cr_38_what_was_made_before_the_cluster_is_taken_over() {
    let mut cluster = Runtimes::new();
    cluster.create("a", built_in("master"), json!({"pidsLimit": 100}));
    cluster.edit("a", |object| annotation::MC_NAME_SUFFIX.set(&mut object.metadata, ""));
    let install = |cluster: &Runtimes| {
        let all: Vec<_> = cluster.objects.values().cloned().map(Arc::new).collect();
        let configs: Vec<_> = cluster.machine_configs.values().cloned().collect();
        container_runtime::bootstrap_machine_configs(&all, &cluster.pools, &configs, BUILD, AdditionalStores::Allowed)
    };
    install(&cluster).unwrap().into_iter().for_each(|made| cluster.put(made));
    assert_eq!(cluster.generated(), [MASTER]);
    cluster.create("b", built_in("master"), json!({"pidsLimit": 200}));
    assert!(install(&cluster).unwrap_err().message.contains("pool master"), "one a pool at install time");
    cluster.settle();
    assert_eq!((cluster.suffix("a"), cluster.suffix("b")), (Some(""), Some("1")));
    assert_eq!(cluster.generated().len(), 2);
}

#[test]
fn cr_40_an_eleventh_object_is_refused() {
    let mut cluster = Runtimes::new();
    for nth in 0..11 {
        cluster.create(&format!("c{nth:02}"), built_in("worker"), json!({"pidsLimit": 100 + nth}));
        cluster.sync(&format!("c{nth:02}"));
    }
    assert_eq!(cluster.generated().len(), 10);
    let message = cluster.failure("c10");
    assert!(
        message.starts_with("could not get ctrcfg key: max number of supported ctrcfgs (10) has been reached. "),
        "{message}"
    );
}

#[test]
fn cr_41_deletion_brings_back_what_was_before() {
    let mut cluster = Runtimes::new();
    let level = |cluster: &Runtimes| cluster.rendered("worker", &drop_in("logLevel"));
    cluster.create("c1", built_in("worker"), json!({"logLevel": "debug"}));
    cluster.settle();
    assert!(level(&cluster).unwrap().contains("\"debug\""));
    cluster.create("c2", built_in("worker"), json!({"logLevel": "warn"}));
    cluster.settle();
    assert!(level(&cluster).unwrap().contains("\"warn\""));
    cluster.delete("c2");
    cluster.settle();
    assert!(level(&cluster).unwrap().contains("\"debug\""));
    cluster.delete("c1");
    cluster.settle();
    assert_eq!(level(&cluster), None);
    let base = cluster.rendered("worker", &format!("{DROP_INS}/00-default")).unwrap();
    assert!(base.contains("log_level = \"info\""));
}

#[test]
fn cr_48_a_pool_that_is_current_does_not_hide_the_next_one() {
    let mut cluster = Runtimes::new();
    cluster.create("a", both(), json!({"pidsLimit": 100}));
    cluster.sync("a");
    let mut stale = cluster.machine_configs[WORKER].as_ref().clone();
    annotation::GENERATED_BY_CONTROLLER_VERSION.set(&mut stale.metadata, "older");
    cluster.put(stale);
    let decision = cluster.sync("a");
    assert_eq!(done(&decision), (vec![], vec![WORKER], vec![]));
    assert_eq!(decision.report.pools[0].outcome, PoolOutcome::Unchanged);
}

#[test]
fn cr_49_keys_and_comments_of_the_base_stay() {
    let base = "# ours\n[storage]\ndriver = \"overlay\" # fast\n\n[storage.options]\n# none\nsize = \"\" # of all\nmine = 1\n\n[storage.options.overlay]\nmountopt = \"nodev\"\n";
    let mut cluster = Runtimes::new();
    cluster.put_files("worker", "50-mine", &[(STORAGE_CONF, base)]);
    cluster.create("a", built_in("worker"), json!({"overlaySize": "10G"}));
    cluster.sync("a");
    let text = cluster.file(WORKER, STORAGE_CONF).unwrap();
    assert_eq!(text, base.replace("size = \"\"", "size = \"10G\""));
}

#[rstest]
#[case("  \n", "original Container Runtime config is empty")]
#[case("[storage\n", "could not decode original Container Runtime config: ")]
#[case("storage = 1\n", "could not update container runtime config with new changes: storage is not a table")]
fn a_base_that_cannot_be_changed_is_a_failure(#[case] base: &str, #[case] expected: &str) {
    let mut cluster = Runtimes::new();
    cluster.put_files("worker", "50-mine", &[(STORAGE_CONF, base)]);
    cluster.create("a", both(), json!({"overlaySize": "10G", "pidsLimit": 100}));
    let decision = cluster.sync("a");
    assert!(cluster.failure("a").starts_with(&format!("pool worker: Error: {expected}")), "{}", cluster.failure("a"));
    assert_eq!(done(&decision).0, [MASTER], "the other pool is served");
}

#[test]
fn without_a_base_there_is_a_small_one() {
    let mut cluster = Runtimes::bare();
    cluster.create("a", built_in("worker"), json!({"overlaySize": "10G"}));
    cluster.sync("a");
    let text = cluster.file(WORKER, STORAGE_CONF).unwrap();
    assert_eq!(
        text,
        "[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \
         \"/var/lib/containers/storage\"\n\n[storage.options]\nsize = \"10G\"\n"
    );
}

#[rstest]
#[case::cr_51(json!({"name": "containerd"}), Some("Error: invalid runtime name \"containerd\", must be cri-o or empty"))]
#[case::endpoint(json!({"endpoint": "tcp://x"}), Some("Error: invalid runtime endpoint \"tcp://x\", must be an absolute path or a unix:// URL of one"))]
#[case::cri_o(json!({"name": "cri-o", "endpoint": "unix:///run/crio/crio.sock"}), None)]
#[case::path(json!({"endpoint": "/run/crio/crio.sock"}), None)]
fn the_runtime_of_the_source_document_must_be_the_one_there_is(#[case] runtime: Value, #[case] refused: Option<&str>) {
    let cluster = with(json!({"containerRuntimeConfig": {"pidsLimit": 2048}, "runtime": runtime}));
    match refused {
        Some(message) => {
            assert_eq!(cluster.failure("a"), message);
            assert!(cluster.generated().is_empty());
        }
        None => cluster.assert_success("a"),
    }
}

#[test]
fn cr_52_the_name_of_the_source_document_is_adopted() {
    let mut cluster = Runtimes::new();
    let legacy = "99-worker-containerruntime-managed";
    cluster.put_files("worker", legacy, &[(STORAGE_CONF, "[storage]\ndriver = \"vfs\"\n")]);
    cluster.create("a", built_in("worker"), json!({"overlaySize": "10G"}));
    assert_eq!(done(&cluster.sync("a")), (vec![WORKER], vec![], vec![legacy]));
    assert_eq!(storage(&cluster)["storage"]["driver"].as_str(), Some("overlay"), "it is no part of the base");
}

#[test]
fn cr_53_a_label_put_on_later_takes_effect_at_once() {
    let mut cluster = Runtimes::new();
    cluster.create("set-pids-limit", labelled("custom-crio"), json!({"pidsLimit": 2048}));
    cluster.sync("set-pids-limit");
    let reported = cluster.failure("set-pids-limit");
    let begin = "Error: could not find any MachineConfigPool set for ContainerRuntimeConfig set-pids-limit; ";
    assert!(reported.starts_with(begin) && reported.contains("no pool has the label custom-crio"), "{reported}");
    cluster.label("worker", "custom-crio");
    assert_eq!(done(&cluster.sync("set-pids-limit")).0, [WORKER]);
    cluster.assert_success("set-pids-limit");
}

#[test]
fn drop_ins_of_several_objects_are_combined_and_storage_is_not() {
    let mut cluster = Runtimes::new();
    cluster.create("a", built_in("worker"), json!({"pidsLimit": 100, "overlaySize": "1G"}));
    cluster.create("b", built_in("worker"), json!({"logLevel": "debug", "additionalImageStores": [{"path": "/i"}]}));
    cluster.settle();
    assert!(cluster.rendered("worker", &drop_in("pidsLimit")).is_some());
    assert!(cluster.rendered("worker", &drop_in("logLevel")).is_some());
    let reported = &cluster.conditions("a")[1];
    assert_eq!(reported.type_.as_deref(), Some("Overridden"));
    assert_eq!(
        reported.message.as_deref(),
        Some(
            "pool worker: /etc/containers/storage.conf comes from 99-worker-generated-containerruntime-1 of ContainerRuntimeConfig b"
        )
    );
}
