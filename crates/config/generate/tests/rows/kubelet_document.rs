//! KubeletConfigs: what the kubelet's configuration file becomes.

use rstest::rstest;
use seaworthy_api::machineconfiguration::KubeletConfig;
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::vocabulary::seaworthy::annotation::KUBELET_CONFIG_PATH;
use seaworthy_generate::kubelet::KUBELET_CONF;
use serde_json::{Value, json};

use crate::support::{Cluster, built_in, file_of};

type Kubelets = Cluster<KubeletConfig>;

const NAME: &str = "99-worker-generated-kubelet";

/// The document that a base and a user's settings make; or why they make none.
fn merged(base: Value, user: Value) -> Result<Value, String> {
    let mut cluster = Kubelets::bare();
    cluster.put_files("worker", "50-base", &[(KUBELET_CONF, &base.to_string())]);
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": user}));
    cluster.sync("a");
    match cluster.machine_configs.get(NAME) {
        Some(_) => Ok(document(&cluster)),
        None => Err(cluster.failure("a")),
    }
}

fn document(cluster: &Kubelets) -> Value {
    serde_saphyr::from_str(&cluster.file(NAME, KUBELET_CONF).unwrap()).unwrap()
}

#[track_caller]
fn check(base: Value, user: Value, expected: Value) {
    let document = merged(base, user).unwrap();
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(document.get(key).unwrap_or(&Value::Null), value, "{key} in {document}");
    }
}

fn profile(kind: &str) -> TlsSecurityProfile {
    let custom = json!({
        "ciphers": [
            "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384",
        ],
        "minTLSVersion": "VersionTLS12",
    });
    let mut profile = json!({"type": kind});
    if kind == "Custom" {
        profile["custom"] = custom;
    }
    serde_json::from_value(profile).unwrap()
}

#[rstest]
#[case(None, "VersionTLS12", 9)]
#[case(Some("Old"), "VersionTLS10", 21)]
#[case(Some("Intermediate"), "VersionTLS12", 9)]
#[case(Some("Modern"), "VersionTLS13", 3)]
#[case(Some("Custom"), "VersionTLS12", 6)]
#[case(Some("Unheard-of"), "VersionTLS12", 9)]
fn kc_27_the_base_follows_the_clusters_tls_profile(
    #[case] kind: Option<&str>,
    #[case] version: &str,
    #[case] ciphers: usize,
) {
    // Of the 24 ciphers of Old the kubelet has 21.
    let mut cluster = Kubelets::new();
    cluster.tls = kind.map(profile);
    cluster.create("a", built_in("worker"), json!({}));
    cluster.sync("a");
    let document = document(&cluster);
    assert_eq!(document["tlsMinVersion"], version);
    let list = document["tlsCipherSuites"].as_array().unwrap();
    assert_eq!(list.len(), ciphers);
    assert!(list.iter().all(|cipher| cipher.as_str().unwrap().starts_with("TLS_")));
    let base = seaworthy_generate::base::machine_configs(
        &crate::support::controller_config(json!({})),
        &<_>::default(),
        cluster.tls.as_ref(),
        "b",
    );
    let base =
        base.unwrap().into_iter().find(|made| made.metadata.name.as_deref() == Some("01-worker-kubelet")).unwrap();
    let base: Value =
        serde_saphyr::from_str(&file_of(base.spec.config.as_ref().unwrap(), KUBELET_CONF).unwrap()).unwrap();
    assert_eq!(base["tlsCipherSuites"], document["tlsCipherSuites"], "the platform's own base says the same");
    assert_eq!(base["tlsMinVersion"], version);
}

#[test]
fn kc_28_what_the_user_says_wins_over_all_profiles() {
    let mut cluster = Kubelets::new();
    cluster.tls = Some(profile("Old"));
    let user = json!({"tlsMinVersion": "VersionTLS12", "tlsCipherSuites": ["TLS_AES_128_GCM_SHA256"]});
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": user, "tlsSecurityProfile": {"type": "Modern"}}));
    cluster.sync("a");
    let both = document(&cluster);
    assert_eq!((&both["tlsMinVersion"], &both["tlsCipherSuites"]), (&user["tlsMinVersion"], &user["tlsCipherSuites"]));
    cluster.edit("a", |object| object.spec.kubelet_config = None);
    cluster.sync("a");
    assert_eq!(document(&cluster)["tlsMinVersion"], "VersionTLS13", "the object's profile is next");
    cluster.edit("a", |object| object.spec.tls_security_profile = None);
    cluster.sync("a");
    assert_eq!(document(&cluster)["tlsMinVersion"], "VersionTLS10", "then the cluster's");
}

#[test]
fn a_cipher_that_the_kubelet_does_not_have_is_left_out_and_named() {
    let mut cluster = Kubelets::new();
    let profile = json!({"type": "Custom", "custom": {"ciphers": ["DHE-RSA-AES128-GCM-SHA256", "AES128-SHA"], "minTLSVersion": "VersionTLS11"}});
    cluster.create("a", built_in("worker"), json!({"tlsSecurityProfile": profile}));
    cluster.sync("a");
    assert_eq!(document(&cluster)["tlsCipherSuites"], json!(["TLS_RSA_WITH_AES_128_CBC_SHA"]));
    assert!(cluster.conditions("a")[1].message.as_ref().unwrap().ends_with("omitted: DHE-RSA-AES128-GCM-SHA256"));
}

const SLICE: &str = "/system.slice";

#[rstest]
#[case::kc_29(
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]}),
    json!({"reservedSystemCPUs": "0-1"}),
    json!({"systemReservedCgroup": null, "enforceNodeAllocatable": ["pods"]})
)]
#[case::kc_30(
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]}),
    json!({}),
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]})
)]
#[case::kc_31(
    json!({"enforceNodeAllocatable": ["pods"]}),
    json!({"reservedSystemCPUs": "0-3"}),
    json!({"systemReservedCgroup": null, "enforceNodeAllocatable": ["pods"]})
)]
#[case::kc_32(
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "kube-reserved"]}),
    json!({"reservedSystemCPUs": "0-1"}),
    json!({"systemReservedCgroup": null, "enforceNodeAllocatable": ["pods", "kube-reserved"]})
)]
#[case::kc_33(
    json!({"reservedSystemCPUs": "0-1", "maxPods": 110, "systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved"]}),
    json!({"reservedSystemCPUs": "0-3", "maxPods": 250}),
    json!({"maxPods": 250, "reservedSystemCPUs": "0-3", "systemReservedCgroup": null, "enforceNodeAllocatable": ["pods"]})
)]
#[case::kc_34(
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]}),
    json!({"enforceNodeAllocatable": ["pods"], "maxPods": 100}),
    json!({"systemReservedCgroup": null, "enforceNodeAllocatable": ["pods"], "maxPods": 100})
)]
#[case::kc_35(
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]}),
    json!({"maxPods": 200}),
    json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved-compressible"]})
)]
#[case::pods_are_added(json!({"enforceNodeAllocatable": ["kube-reserved"]}), json!({"reservedSystemCPUs": "1"}), json!({"enforceNodeAllocatable": ["pods", "kube-reserved"]}))]
#[case::none_excludes_others(json!({}), json!({"reservedSystemCPUs": "1", "enforceNodeAllocatable": ["none"]}), json!({"enforceNodeAllocatable": ["none"]}))]
#[case::kc_55(json!({"serverTLSBootstrap": true}), json!({"serverTLSBootstrap": false}), json!({"serverTLSBootstrap": false}))]
#[case::zero(json!({"maxPods": 5, "podPidsLimit": 1}), json!({"maxPods": 0}), json!({"maxPods": 0, "podPidsLimit": 1}))]
#[case::empty_list(json!({"tlsCipherSuites": ["x"]}), json!({"tlsCipherSuites": []}), json!({"tlsCipherSuites": []}))]
#[case::false_in_any_spelling(json!({"protectKernelDefaults": true}), json!({"protectKernelDefaults": false}), json!({"protectKernelDefaults": false}))]
#[case::null_takes_away(json!({"maxPods": 5, "evictionHard": {"memory.available": "1", "nodefs.available": "2"}}), json!({"maxPods": null, "evictionHard": {"memory.available": null}}), json!({"maxPods": null, "evictionHard": {"nodefs.available": "2"}}))]
#[case::maps_merge_and_lists_replace(
    json!({"evictionHard": {"memory.available": "1"}, "allowedUnsafeSysctls": ["x", "y"]}),
    json!({"evictionHard": {"nodefs.available": "2"}, "allowedUnsafeSysctls": ["z"]}),
    json!({"evictionHard": {"memory.available": "1", "nodefs.available": "2"}, "allowedUnsafeSysctls": ["z"]})
)]
#[case::spelling_is_kept(json!({"syncFrequency": "8h"}), json!({"fileCheckFrequency": "90s"}), json!({"syncFrequency": "8h", "fileCheckFrequency": "90s"}))]
#[case::head(json!({}), json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}), json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}))]
fn settings_are_put_upon_the_base(#[case] base: Value, #[case] user: Value, #[case] expected: Value) {
    check(base, user, expected);
}

#[test]
fn kc_36_cgroups_that_do_not_match_are_refused_with_both_names() {
    let error = merged(json!({"systemReservedCgroup": SLICE}), json!({"systemCgroups": "/foo.slice"})).unwrap_err();
    assert_eq!(
        error,
        "Error: invalid merged configuration: systemReservedCgroup (/system.slice) must match systemCgroups (/foo.slice)"
    );
}

/// Each of the two is good by itself; the kubelet reads both.
#[rstest]
#[case::thresholds(json!({"imageGCLowThresholdPercent": 70}), json!({"imageGCHighThresholdPercent": 60}), "imageGCHighThresholdPercent: imageGCLowThresholdPercent (70) must be less than imageGCHighThresholdPercent (60)")]
#[case::pulls(json!({"serializeImagePulls": true}), json!({"maxParallelImagePulls": 4}), "maxParallelImagePulls (4) requires serializeImagePulls: false, found true")]
#[case::cgroup(json!({"systemReservedCgroup": SLICE, "enforceNodeAllocatable": ["pods", "system-reserved"]}), json!({"systemReservedCgroup": null}), "systemReservedCgroup: system-reserved in enforceNodeAllocatable requires systemReservedCgroup")]
fn what_no_kubelet_starts_with_beside_the_base_is_refused(
    #[case] base: Value,
    #[case] user: Value,
    #[case] expected: &str,
) {
    let error = merged(base, user).unwrap_err();
    assert_eq!(error, format!("Error: KubeletConfiguration: the kubelet would not start with: {expected}"));
}

#[rstest]
#[case::thresholds(json!({"imageGCLowThresholdPercent": 50}), json!({"imageGCHighThresholdPercent": 60}))]
#[case::soft(json!({"evictionSoftGracePeriod": {"memory.available": "1m"}}), json!({"evictionSoft": {"memory.available": "1Gi"}}))]
#[case::pulls(json!({"serializeImagePulls": true, "maxParallelImagePulls": 1}), json!({"serializeImagePulls": false, "maxParallelImagePulls": 4}))]
#[case::cgroup(json!({"kubeReservedCgroup": "/kube.slice"}), json!({"enforceNodeAllocatable": ["pods", "kube-reserved"]}))]
#[case::broken_before(json!({"imageGCHighThresholdPercent": 10}), json!({"maxPods": 5}))]
fn what_a_kubelet_starts_with_beside_the_base_is_taken(#[case] base: Value, #[case] user: Value) {
    merged(base, user).unwrap();
}

/// Upon the platform's own base, which asks for logs.
#[test]
fn the_log_handler_is_not_taken_from_the_query_of_the_base() {
    let mut cluster = Kubelets::new();
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": {"enableSystemLogHandler": false}}));
    cluster.sync("a");
    let message = cluster.failure("a");
    assert!(
        message.contains(
            "enableSystemLogHandler: enableSystemLogQuery (true) requires enableSystemLogHandler: true, found"
        ),
        "{message}"
    );
    let user = json!({"enableSystemLogHandler": false, "enableSystemLogQuery": false});
    cluster.edit("a", |object| object.spec.kubelet_config = Some(user));
    cluster.sync("a");
    cluster.assert_success("a");
}

#[test]
fn without_settings_the_file_is_the_base() {
    let cluster = {
        let mut cluster = Kubelets::new();
        cluster.create("a", built_in("worker"), json!({}));
        cluster.sync("a");
        cluster
    };
    let base: Value = serde_saphyr::from_str(&cluster.file("01-worker-kubelet", KUBELET_CONF).unwrap()).unwrap();
    assert_eq!(document(&cluster), base);
}

#[test]
fn without_a_base_there_is_a_small_one() {
    let mut cluster = Kubelets::bare();
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": {"maxPods": 7}}));
    cluster.sync("a");
    let document = document(&cluster);
    assert_eq!(document["authentication"]["anonymous"]["enabled"], false);
    assert_eq!(document["maxPods"], 7);
}

#[test]
fn the_base_is_what_users_put_there_and_not_what_objects_of_this_kind_did() {
    let mut cluster = Kubelets::new();
    cluster.put_files("worker", "60-own", &[(KUBELET_CONF, "podsPerCore: 3\n")]);
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": {"maxPods": 7}}));
    cluster.create("b", built_in("worker"), json!({"kubeletConfig": {"podPidsLimit": 9}}));
    cluster.settle();
    let text = cluster.file("99-worker-generated-kubelet-1", KUBELET_CONF).unwrap();
    assert!(text.contains("podsPerCore: 3\n") && text.contains("podPidsLimit: 9\n"), "{text}");
    assert!(!text.contains("maxPods"), "{text}");
}

#[rstest]
#[case("- 1\n", "it is not an object")]
#[case("", "it is empty")]
#[case("a: [\n", "it is not YAML")]
fn a_base_that_cannot_be_read_is_named(#[case] base: &str, #[case] expected: &str) {
    let mut cluster = Kubelets::bare();
    cluster.put_files("worker", "50-base", &[(KUBELET_CONF, base)]);
    cluster.create("a", built_in("worker"), json!({}));
    cluster.sync("a");
    let message = cluster.failure("a");
    let start = "could not get original kubelet config: /etc/kubernetes/kubelet.conf of pool worker: ";
    assert!(message.starts_with(&format!("{start}{expected}")), "{message}");
    assert_eq!(cluster.conditions("a")[0].reason.as_deref(), Some("NoBase"));
}

#[test]
fn a_broken_machine_config_of_the_pool_is_named() {
    let mut cluster = Kubelets::new();
    cluster.put_files("worker", "60-broken", &[("relative", "x")]);
    cluster.create("a", built_in("worker"), json!({}));
    cluster.sync("a");
    let message = cluster.failure("a");
    assert!(message.starts_with("could not get original kubelet config: the other MachineConfigs of pool worker cannot be merged: MachineConfig 60-broken"), "{message}");
}

#[test]
fn a_pool_may_have_the_file_elsewhere() {
    let mut cluster = Kubelets::bare();
    cluster.edit_pool("worker", |pool| KUBELET_CONFIG_PATH.set(&mut pool.metadata, "/var/lib/kubelet/config.yaml"));
    cluster.put_files("worker", "50-base", &[("/var/lib/kubelet/config.yaml", "podsPerCore: 3\n")]);
    cluster.create("a", built_in("worker"), json!({}));
    cluster.sync("a");
    assert_eq!(cluster.paths(NAME), ["/var/lib/kubelet/config.yaml"]);
    assert!(cluster.file(NAME, "/var/lib/kubelet/config.yaml").unwrap().contains("podsPerCore: 3\n"));
}
