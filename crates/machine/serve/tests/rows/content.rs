//! Served configs: additions, versions, remote content.

use rstest::rstest;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_ignition::{Node, Version, data_url};
use seaworthy_serve::first_boot_config::config_name;
use seaworthy_serve::kubeconfig::Kubeconfig;
use seaworthy_serve::servable_config::{
    Additions, CLOUD_CA_FILE, ENCAPSULATED_FILE, KUBECONFIG_FILE, KUBELET_CA_FILE, MACHINE_CONFIG_FILE,
    NODE_ANNOTATIONS_FILE, ServableConfig, encapsulate,
};
use serde_json::{Value, json};

use crate::support::{additions, machine_config, paths, rendered, versions, written};

/// What a machine that asks for this version gets.
fn serve(object: &MachineConfig, version: Version) -> Value {
    let servable = ServableConfig::new(object, additions()).unwrap();
    serde_json::from_slice(&servable.serve(version).unwrap()).unwrap()
}

/// Why nothing is served.
fn refused(object: &MachineConfig) -> String {
    ServableConfig::new(object, additions()).unwrap_err().to_string()
}

#[test]
fn s_16_text_is_escaped() {
    assert_eq!(data_url::encode(b"Hello, world!"), "data:,Hello%2C%20world!");
}

#[test]
fn s_17_machine_config_is_added_behind_the_files() {
    let json = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [{"path": "/a"}]}});
    let mut config = Node::from_json(&json);
    encapsulate(&mut config, rendered("rendered-a"), None).unwrap();
    let config = config.to_json();
    assert_eq!(paths(&config), ["/a", ENCAPSULATED_FILE]);
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["spec"]["config"], json!({"ignition": {"version": "3.5.0"}}));
}

#[test]
fn s_18_machine_config_that_is_added_has_the_version_that_was_asked_for() {
    let object = rendered("rendered-a");
    let before = object.clone();
    for version in versions() {
        let config = serve(&object, version);
        let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
        assert_eq!(encapsulated["spec"]["config"], json!({"ignition": {"version": version.as_str()}}));
        assert_eq!(config["ignition"]["version"], version.as_str());
    }
    assert_eq!(object, before);
}

#[test]
fn s_21_newest_config_is_served_once_a_machine_has_it() {
    let pool = |count: Option<i32>| -> MachineConfigPool {
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": {"name": "worker"},
            "spec": {"configuration": {"name": "rendered-new"}},
            "status": {"configuration": {"name": "rendered-old"}, "updatedMachineCount": count},
        }))
        .unwrap()
    };
    assert_eq!(config_name(&pool(Some(0))), Some("rendered-old"));
    assert_eq!(config_name(&pool(None)), Some("rendered-old"));
    assert_eq!(config_name(&pool(Some(1))), Some("rendered-new"));
    let mut fresh = pool(Some(0));
    fresh.status = None;
    assert_eq!(config_name(&fresh), None, "a config that no machine runs is not tried on a new one");
}

#[test]
fn s_22_machine_config_that_is_added_keeps_what_ignition_does_not_do() {
    let config = serve(&rendered("rendered-a"), Version::V3_5);
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["kind"], "MachineConfig");
    assert_eq!(encapsulated["spec"]["kernelArguments"], json!(["nosmt"]));
    assert_eq!(encapsulated["spec"]["osImageURL"], "quay.io/example/os@sha256:aaaa");
}

#[test]
fn s_23_kubeconfig_is_made_of_the_folder_of_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let make = |authority: Option<&[u8]>| Kubeconfig::of_folder(folder.path(), "https://api:6443", authority);
    let missing = make(None).unwrap_err().to_string();
    assert!(missing.contains("token") && missing.contains("ca.crt"), "{missing}");
    std::fs::write(folder.path().join("token"), "hunter2\n").unwrap();
    std::fs::write(folder.path().join("ca.crt"), "authority").unwrap();
    let kubeconfig = make(None).unwrap();
    let text = kubeconfig.text();
    assert!(text.contains("server: \"https://api:6443\"\n"), "{text}");
    assert!(text.contains("certificate-authority-data: YXV0aG9yaXR5\n"), "{text}");
    assert!(text.contains("token: \"hunter2\"\n"), "{text}");
    assert!(!format!("{kubeconfig:?}").contains("hunter2"));
    let newer = make(Some(b"newer")).unwrap().text();
    assert!(newer.contains("certificate-authority-data: bmV3ZXI=\n"), "{newer}");
    kube::config::Kubeconfig::from_yaml(&text).unwrap();
}

#[test]
fn s_27_hundred_answers_are_the_same_one() {
    let mut object = rendered("rendered-a");
    object.spec.config.as_mut().unwrap()["kernelArguments"] = json!({"shouldExist": ["quiet", "loglevel=4"]});
    let servable = ServableConfig::new(&object, additions()).unwrap();
    let first = servable.serve(Version::V3_2).unwrap();
    assert!((0..100).all(|_| servable.serve(Version::V3_2).unwrap() == first));
    let config: Value = serde_json::from_slice(&first).unwrap();
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["spec"]["kernelArguments"], json!(["nosmt", "quiet", "loglevel=4"]));
    assert_eq!(config.get("kernelArguments"), None);
    let newest: Value = serde_json::from_slice(&servable.serve(Version::V3_5).unwrap()).unwrap();
    assert_eq!(newest["kernelArguments"], json!({"shouldExist": ["quiet", "loglevel=4"]}));
    let encapsulated: Value = serde_json::from_str(&written(&newest, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["spec"]["kernelArguments"], json!(["nosmt"]));
}

#[test]
fn arguments_to_remove_cannot_be_expressed_in_old_versions() {
    let mut object = rendered("rendered-a");
    object.spec.config.as_mut().unwrap()["kernelArguments"] = json!({"shouldNotExist": ["quiet"]});
    let servable = ServableConfig::new(&object, additions()).unwrap();
    let refusal = servable.serve(Version::V3_2).unwrap_err().to_string();
    assert!(
        refusal.starts_with("MachineConfig rendered-a: cannot be expressed in Ignition 3.2.0: kernelArguments"),
        "{refusal}"
    );
    assert!(servable.serve(Version::V3_3).is_ok());
}

#[test]
fn files_are_added_in_their_order() {
    let mut more = additions();
    more.authorities.cloud = b"cloud".to_vec();
    more.registries = vec![("reg:5000".to_owned(), b"registry".to_vec())];
    let servable = ServableConfig::new(&rendered("rendered-a"), more).unwrap();
    let config: Value = serde_json::from_slice(&servable.serve(Version::V3_5).unwrap()).unwrap();
    let registry = "/etc/docker/certs.d/reg:5000/ca.crt";
    assert_eq!(
        paths(&config)[2..],
        [
            KUBELET_CA_FILE,
            CLOUD_CA_FILE,
            NODE_ANNOTATIONS_FILE,
            KUBECONFIG_FILE,
            MACHINE_CONFIG_FILE,
            registry,
            ENCAPSULATED_FILE
        ]
    );
    assert_eq!(written(&config, KUBELET_CA_FILE), "ca");
    assert_eq!(written(&config, registry), "registry");
    for file in &config["storage"]["files"].as_array().unwrap()[2..] {
        assert_eq!((&file["mode"], &file["overwrite"]), (&json!(0o644), &json!(true)), "{}", file["path"]);
    }
}

#[test]
fn annotations_name_the_config_and_the_image_that_was_built_ahead() {
    let prefix = "machineconfiguration.openshift.io/";
    let annotations = |object: &MachineConfig| -> Value {
        serde_json::from_str(&written(&serve(object, Version::V3_5), NODE_ANNOTATIONS_FILE)).unwrap()
    };
    let mut object = rendered("rendered-a");
    let plain = json!({
        format!("{prefix}currentConfig"): "rendered-a",
        format!("{prefix}desiredConfig"): "rendered-a",
        format!("{prefix}firstPivotConfig"): "rendered-a",
        format!("{prefix}state"): "Done",
    });
    assert_eq!(annotations(&object), plain);
    let image = "registry.example/os@sha256:bbbb";
    object.metadata.annotations = Some([(format!("{prefix}pre-built-image"), image.to_owned())].into());
    let with_image = annotations(&object);
    assert_eq!(with_image[format!("{prefix}currentImage")], image);
    assert_eq!(with_image[format!("{prefix}desiredImage")], image);
    let config = serve(&object, Version::V3_5);
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["spec"]["osImageURL"], image);
}

#[test]
fn machine_config_that_is_written_down_is_what_was_served() {
    let config = serve(&rendered("rendered-a"), Version::V3_5);
    let text = written(&config, MACHINE_CONFIG_FILE);
    assert!(text.starts_with("{\n    \"apiVersion\""), "{text}");
    let object: Value = serde_json::from_str(&text).unwrap();
    let files = object["spec"]["config"]["storage"]["files"].as_array().unwrap();
    assert_eq!(files[..], config["storage"]["files"].as_array().unwrap()[..3]);
    assert_eq!(object["spec"]["config"]["systemd"], config["systemd"]);
}

#[test]
fn authority_replaces_the_bytes_of_its_file_and_how_they_were_packed() {
    let mut object = rendered("rendered-a");
    object.spec.config.as_mut().unwrap()["storage"]["files"][1]["path"] = json!(KUBELET_CA_FILE);
    let config = serve(&object, Version::V3_5);
    let file = &config["storage"]["files"][1];
    assert_eq!(file["contents"], json!({"source": "data:,ca"}));
    assert_eq!(file["mode"], 0o755, "the rest stays");
    let none = ServableConfig::new(&object, Additions::default()).unwrap().serve(Version::V3_5).unwrap();
    let config: Value = serde_json::from_slice(&none).unwrap();
    assert_eq!(written(&config, KUBELET_CA_FILE), "packed text");
}

#[test]
fn file_of_ours_takes_the_place_of_one_at_its_path() {
    let mut object = rendered("rendered-a");
    object.spec.config.as_mut().unwrap()["storage"]["files"][0]["path"] = json!(KUBECONFIG_FILE);
    let config = serve(&object, Version::V3_5);
    assert_eq!(written(&config, KUBECONFIG_FILE), additions().kubeconfig);
}

#[test]
fn machine_config_without_ignition_is_served_too() {
    let config = serve(&machine_config("rendered-a", json!({"kernelArguments": ["a"]})), Version::V2_2);
    assert_eq!(config["ignition"]["version"], "2.2.0");
    assert_eq!(paths(&config).len(), 5);
}

#[rstest]
#[case(json!({"storage": {"files": [{"path": "/a", "contents": {"source": "https://u:hunter2@h/a?sig=hunter2"}}]}}), "storage.files[0].contents.source")]
#[case(json!({"storage": {"files": [{"path": "/a", "append": [{"source": "data:,a"}, {"source": "s3://b/a"}]}]}}), "storage.files[0].append[1].source")]
#[case(json!({"storage": {"luks": [{"name": "a", "device": "/dev/a", "keyFile": {"source": "http://h/a"}}]}}), "storage.luks[0].keyFile.source")]
#[case(json!({"ignition": {"security": {"tls": {"certificateAuthorities": [{"source": "http://h/a"}]}}}}), "ignition.security.tls.certificateAuthorities[0].source")]
#[case(json!({"ignition": {"config": {"merge": [{"source": "http://h/a"}]}}}), "ignition.config.merge")]
#[case(json!({"ignition": {"config": {"replace": {"source": "data:,%7B%7D"}}}}), "ignition.config.replace")]
fn nothing_remote_is_served(#[case] mut config: Value, #[case] place: &str) {
    config["ignition"]["version"] = json!("3.5.0");
    let refusal = refused(&machine_config("rendered-a", json!({"config": config})));
    assert!(refusal.starts_with(&format!("MachineConfig rendered-a: spec.config.{place}: ")), "{refusal}");
    assert!(!refusal.contains("hunter2"), "{refusal}");
}

#[test]
fn references_that_lead_nowhere_are_none() {
    let config = json!({"ignition": {"version": "3.5.0", "config": {"merge": [], "replace": {}}},
        "storage": {"files": [{"path": "/a", "contents": {"source": ""}}]}});
    let object = machine_config("rendered-a", json!({"config": config}));
    assert!(ServableConfig::new(&object, additions()).is_ok(), "{}", refused(&object));
}

#[test]
fn config_that_is_not_valid_is_refused_by_place() {
    let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [{"path": "a"}]}});
    let refusal = refused(&machine_config("rendered-a", json!({"config": config})));
    let wanted = "MachineConfig rendered-a: spec.config is not valid: storage.files[0].path: path not absolute";
    assert!(refusal.starts_with(wanted), "{refusal}");
}

#[test]
fn recorded_configs_are_served_as_upstream_serves_them() {
    let text = include_str!("../../../../config/ignition/tests/golden/translations.jsonl");
    let mut compared = 0;
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let object = machine_config("rendered-a", json!({"config": row["config"]}));
        let servable = ServableConfig::new(&object, Additions::default()).unwrap();
        for (version, answer) in row["answers"].as_object().unwrap() {
            let version = Version::parse(version).unwrap();
            let mut ours: Value = serde_json::from_slice(&servable.serve(version).unwrap()).unwrap();
            let own = [NODE_ANNOTATIONS_FILE, KUBECONFIG_FILE, MACHINE_CONFIG_FILE, ENCAPSULATED_FILE];
            let files = ours["storage"]["files"].as_array_mut().unwrap();
            files.retain(|file| !own.contains(&file["path"].as_str().unwrap()));
            if files.is_empty() {
                ours["storage"].as_object_mut().unwrap().remove("files");
            }
            if ours["storage"].as_object().unwrap().is_empty() {
                ours.as_object_mut().unwrap().remove("storage");
            }
            assert_eq!(ours, answer["config"], "{version}");
            compared += 1;
        }
    }
    assert_eq!(compared, 360);
}
