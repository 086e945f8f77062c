//! The CEL rules in our definitions accept and refuse what they are meant to.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_api::crds;
use seaworthy_schema::{Document, rule_mistakes};
use serde_json::{Value, json};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The messages of the rules that an object of the given resource breaks, as our own API server evaluates them.
fn broken(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds::all);
    let crd = CRDS.iter().find(|crd| crd.spec.names.plural == plural).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let (document, root) = Document::of_custom_resource(&serde_json::to_value(schema).unwrap());
    rule_mistakes(document.at(root), object, old).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn accepts(plural: &str, object: Value) {
    assert_eq!(broken(plural, &object, None), Vec::<String>::new(), "{object}");
}

#[track_caller]
fn refuses(plural: &str, object: Value, message: &str) {
    let broken = broken(plural, &object, None);
    assert!(broken.iter().any(|broken| broken.contains(message)), "{object}: {broken:?}");
}

/// Types and costs of all rules included.
#[test]
fn our_own_api_server_accepts_every_definition() {
    for crd in crds::all() {
        let mut definition = serde_json::to_value(&crd).unwrap();
        seaworthy_schema::default_definition(&mut definition);
        let mistakes = seaworthy_schema::definition_mistakes(&definition, None);
        assert!(mistakes.is_empty(), "{}: {mistakes:?}", crd.spec.names.plural);
    }
}

fn pool(max_unavailable: Value) -> Value {
    json!({ "metadata": { "name": "worker" }, "spec": { "maxUnavailable": max_unavailable } })
}

#[test]
fn a_pool_takes_a_count_or_a_percentage() {
    for fine in [json!(0), json!(1), json!(250), json!("0%"), json!("10%"), json!("150%")] {
        accepts("machineconfigpools", pool(fine));
    }
    for bad in [json!(-1), json!("60"), json!("50 percent"), json!("40 %"), json!("-5%"), json!("1.5%"), json!("")] {
        refuses("machineconfigpools", pool(bad), "must be a whole number");
    }
}

fn runtime(field: &str, value: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": { "containerRuntimeConfig": { field: value } } })
}

#[test]
fn a_process_limit_is_zero_or_at_least_twenty() {
    for fine in [0, 20, 2048] {
        accepts("containerruntimeconfigs", runtime("pidsLimit", json!(fine)));
    }
    for bad in [-10, 1, 10, 19] {
        refuses("containerruntimeconfigs", runtime("pidsLimit", json!(bad)), "zero or at least 20");
    }
}

#[test]
fn a_log_is_cut_at_8192_bytes_or_more() {
    for fine in [json!("8192"), json!(8192), json!("10k"), json!("10G"), json!("0k"), json!(0), json!("-1"), json!(-1)]
    {
        accepts("containerruntimeconfigs", runtime("logSizeMax", fine));
    }
    for bad in [json!("3k"), json!(8191), json!("1"), json!("7Ki")] {
        refuses("containerruntimeconfigs", runtime("logSizeMax", bad), "at least 8192 bytes");
    }
}

#[test]
fn a_writable_layer_has_no_negative_size() {
    for fine in [json!("0"), json!("10G"), json!(1)] {
        accepts("containerruntimeconfigs", runtime("overlaySize", fine));
    }
    for bad in [json!("-1G"), json!(-1)] {
        refuses("containerruntimeconfigs", runtime("overlaySize", bad), "must not be negative");
    }
}

#[test]
fn store_paths_are_absolute_plain_and_unique() {
    let stores = |paths: &[&str]| {
        let stores: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
        runtime("additionalImageStores", stores.into())
    };
    accepts("containerruntimeconfigs", stores(&["/var/lib/images", "/mnt/nfs-2/a_b.c"]));
    refuses("containerruntimeconfigs", stores(&["relative"]), "must be an absolute path");
    refuses("containerruntimeconfigs", stores(&["/with space"]), "must be an absolute path");
    refuses("containerruntimeconfigs", stores(&["/a@b"]), "must be an absolute path");
    refuses("containerruntimeconfigs", stores(&["/a//b"]), "must not contain '//'");
    refuses("containerruntimeconfigs", stores(&["/a", "/a"]), "paths must be unique");
}

fn kubelet(settings: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": { "kubeletConfig": settings } })
}

#[test]
fn a_kubelet_config_leaves_the_platforms_settings_alone() {
    let empty = json!({
        "cgroupDriver": "", "clusterDNS": [], "clusterDomain": "", "featureGates": {}, "memorySwap": { "swapBehavior": "" },
    });
    accepts("kubeletconfigs", kubelet(empty));
    accepts("kubeletconfigs", kubelet(json!({ "maxPods": 100, "evictionHard": { "memory.available": "1Gi" } })));
    let refused = [
        ("cgroupDriver", json!({ "cgroupDriver": "cgroupfs" })),
        ("clusterDNS", json!({ "clusterDNS": ["1.1.1.1"] })),
        ("clusterDomain", json!({ "clusterDomain": "x" })),
        ("featureGates", json!({ "featureGates": { "X": true } })),
        ("failSwapOn", json!({ "failSwapOn": false })),
        ("swapBehavior", json!({ "memorySwap": { "swapBehavior": "NoSwap" } })),
    ];
    for (key, settings) in refused {
        refuses("kubeletconfigs", kubelet(settings), &format!("{key} is set by the platform"));
    }
}

#[test]
fn a_node_is_sized_by_itself_or_by_hand() {
    let both = |sizing: bool, reserved: Value| {
        let mut object = kubelet(json!({ "systemReserved": reserved }));
        object["spec"]["autoSizingReserved"] = sizing.into();
        object
    };
    accepts("kubeletconfigs", both(true, json!({})));
    accepts("kubeletconfigs", both(false, json!({ "memory": "1Gi" })));
    refuses("kubeletconfigs", both(true, json!({ "memory": "1Gi" })), "exclude each other");
}

fn node(name: &str, status: Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "node": { "name": "worker-0" }, "pool": { "name": "worker" }, "configVersion": { "desired": "not-yet-set" } },
        "status": status,
    })
}

#[test]
fn a_machine_config_node_is_named_after_its_node() {
    accepts("machineconfignodes", node("worker-0", json!({})));
    refuses("machineconfignodes", node("worker-1", json!({})), "named after its node");
}

#[test]
fn names_in_a_machine_config_node_are_dns_names() {
    let mut object = node("worker-0", json!({}));
    object["spec"]["pool"]["name"] = json!("Worker");
    refuses("machineconfignodes", object, "must be a DNS name");
}

#[test]
fn an_observed_generation_never_decreases() {
    let at = |generation: i64| node("worker-0", json!({ "observedGeneration": generation }));
    assert!(broken("machineconfignodes", &at(3), Some(&at(2))).is_empty());
    assert!(!broken("machineconfignodes", &at(2), Some(&at(3))).is_empty());
}

#[test]
fn pinned_generations_are_in_order() {
    let set = |set: Value| node("worker-0", json!({ "pinnedImageSets": [set] }));
    accepts("machineconfignodes", set(json!({ "name": "a", "currentGeneration": 1, "desiredGeneration": 2 })));
    let behind = json!({ "name": "a", "currentGeneration": 2, "desiredGeneration": 1 });
    refuses("machineconfignodes", set(behind), "at least currentGeneration");
    let failed =
        json!({ "name": "a", "desiredGeneration": 1, "lastFailedGeneration": 2, "lastFailedGenerationError": "x" });
    refuses("machineconfignodes", set(failed), "at least lastFailedGeneration");
    let silent = json!({ "name": "a", "desiredGeneration": 2, "lastFailedGeneration": 2 });
    refuses("machineconfignodes", set(silent), "needs its error");
}

#[test]
fn irreconcilable_changes_lie_in_the_spec() {
    let change =
        |path: &str| node("worker-0", json!({ "irreconcilableChanges": [{ "fieldPath": path, "diff": "x" }] }));
    accepts("machineconfignodes", change("spec.config.storage.disks[0]"));
    refuses("machineconfignodes", change("status.a"), "must start with 'spec.'");
    refuses("machineconfignodes", change("spec.a-b"), "must consist of letters");
}

#[test]
fn pinned_images_are_named_by_digest() {
    let images = |name: String| json!({ "metadata": { "name": "a" }, "spec": { "pinnedImages": [{ "name": name }] } });
    accepts("pinnedimagesets", images(format!("quay.example.org/a/b@{DIGEST}")));
    accepts("pinnedimagesets", images(format!("quay.example.org:5000/b@{DIGEST}")));
    refuses("pinnedimagesets", images("quay.example.org/a/b:latest".into()), "64 hexadecimal digits");
    refuses("pinnedimagesets", images(format!("localhost/b@{DIGEST}")), "must name the image");
}

#[test]
fn pool_counts_add_up() {
    let counts = |machine: i64, available: i64, ready: i64| {
        json!({
            "metadata": { "name": "worker" },
            "spec": {},
            "status": { "poolSynchronizersStatus": [{
                "poolSynchronizerType": "PinnedImageSets",
                "machineCount": machine, "availableMachineCount": available, "readyMachineCount": ready,
                "unavailableMachineCount": 0, "updatedMachineCount": 0,
            }] },
        })
    };
    accepts("machineconfigpools", counts(3, 2, 1));
    refuses("machineconfigpools", counts(1, 2, 1), "machineCount must be at least availableMachineCount");
    refuses("machineconfigpools", counts(3, 1, 2), "availableMachineCount must be at least readyMachineCount");
}

fn policy(actions: Value) -> Value {
    json!({
        "metadata": { "name": "cluster" },
        "spec": { "nodeDisruptionPolicy": { "files": [{ "path": "/etc/a", "actions": actions }] } },
    })
}

#[test]
fn a_disruption_policy_is_consistent() {
    let reload = json!({ "type": "Reload", "reload": { "serviceName": "crio.service" } });
    accepts("machineconfigurations", policy(json!([{ "type": "None" }])));
    accepts("machineconfigurations", policy(json!([{ "type": "DaemonReload" }, reload])));
    refuses(
        "machineconfigurations",
        policy(json!([{ "type": "Reboot" }, reload])),
        "Reboot can only be the sole action",
    );
    refuses("machineconfigurations", policy(json!([{ "type": "None" }, reload])), "None can only be the sole action");
    refuses("machineconfigurations", policy(json!([{ "type": "Reload" }])), "the type Reload needs 'reload'");
    let stray = json!([{ "type": "Drain", "restart": { "serviceName": "crio.service" } }]);
    refuses("machineconfigurations", policy(stray), "the type Restart needs 'restart'");
    let service = |name: &str| policy(json!([{ "type": "Restart", "restart": { "serviceName": name } }]));
    accepts("machineconfigurations", service("getty@tty1.service".replace('@', "-").as_str()));
    refuses("machineconfigurations", service("crio"), "must end with a unit type");
    refuses("machineconfigurations", service("cri o.service"), "must have a name of letters");
}

fn rule_with(input: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": { "id": "a", "title": "A", "inputs": [input] } })
}

#[test]
fn an_input_of_a_rule_has_exactly_one_source() {
    let kubernetes = json!({ "apiVersion": "v1", "resource": "nodes" });
    let machine = json!({ "pool": "worker", "from": "spec" });
    let kubelet = json!({ "from": "node" });
    accepts("customrules", rule_with(json!({ "name": "n", "kubernetesInputSpec": kubernetes })));
    accepts("customrules", rule_with(json!({ "name": "n", "machineConfigInputSpec": machine })));
    accepts("customrules", rule_with(json!({ "name": "n", "kubeletConfigInputSpec": kubelet })));
    refuses("customrules", rule_with(json!({ "name": "n" })), "exactly one of");
    let two = json!({ "name": "n", "kubernetesInputSpec": kubernetes, "kubeletConfigInputSpec": kubelet });
    refuses("customrules", rule_with(two), "exactly one of");
}

#[test]
fn a_module_has_a_device_plugin_or_a_driver_but_not_both() {
    let module = |parts: &[&str]| {
        let mut spec = json!({ "selector": {} });
        for part in parts {
            spec[*part] = json!({ "container": { "image": "a" }, "driverName": "d" });
        }
        json!({ "metadata": { "name": "a" }, "spec": spec })
    };
    accepts("modules", module(&[]));
    accepts("modules", module(&["dra"]));
    accepts("modules", module(&["devicePlugin"]));
    refuses("modules", module(&["dra", "devicePlugin"]), "only one of dra and devicePlugin");
}
