//! Answers from the bootstrap folder.

use std::path::Path;
use std::sync::Arc;

use seaworthy_ignition::Version;
use seaworthy_serve::bootstrap_folder::BootstrapFolder;
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::servable_config::{ENCAPSULATED_FILE, KUBECONFIG_FILE, NODE_ANNOTATIONS_FILE};
use seaworthy_serve::{Access, AnswerStore, Endpoint};
use serde_json::{Value, json};

use crate::support::{Reply, accepts, ask, controller_config_json, paths, rendered, written};

struct Bootstrap {
    folder: tempfile::TempDir,
}

impl Bootstrap {
    fn new() -> Bootstrap {
        let bootstrap = Bootstrap { folder: tempfile::tempdir().unwrap() };
        bootstrap.write("machine-pools/master.yaml", &pool("rendered-master-1"));
        let config = serde_json::to_value(rendered("rendered-master-1")).unwrap();
        bootstrap.write("machine-configs/rendered-master-1.yaml", &config);
        bootstrap.write("controller-config/machine-config-controller.yaml", &controller_config_json());
        std::fs::write(bootstrap.path().join("kubeconfig"), "kind: Config\n").unwrap();
        std::fs::write(bootstrap.path().join("bar.crt"), "bar").unwrap();
        bootstrap
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, object: &Value) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, object.to_string()).unwrap();
    }

    fn folder(&self) -> BootstrapFolder {
        BootstrapFolder {
            base: self.path().to_owned(),
            kubeconfig: self.path().join("kubeconfig"),
            registries: vec![("foo".to_owned(), self.path().join("bar.crt"))],
        }
    }

    fn get(&self, pool: &str) -> Reply {
        let answers = Arc::new(AnswerStore::default());
        answers.publish(self.folder().read().unwrap());
        let endpoint =
            Endpoint { answers, access: Access::Open, rate_limits: RateLimits::default(), metrics: Arc::default() };
        ask(&endpoint, "GET", &format!("/config/{pool}"), &[("accept", &accepts("3.3.0"))])
    }
}

fn pool(config: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "master"},
        "spec": {},
        "status": {"configuration": {"name": config}},
    })
}

#[test]
fn s_19_master_gets_its_config_and_what_is_added() {
    let reply = Bootstrap::new().get("master");
    assert_eq!(reply.status, 200);
    let config = reply.json();
    let paths = paths(&config);
    for path in ["/etc/motd", "/usr/local/bin/tune", NODE_ANNOTATIONS_FILE] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    assert_eq!(config["systemd"]["units"][0]["name"], "tune.service");
    assert_eq!(written(&config, "/etc/docker/certs.d/foo/ca.crt"), "bar");
    assert_eq!(written(&config, KUBECONFIG_FILE), "kind: Config\n");
    assert!(written(&config, NODE_ANNOTATIONS_FILE).contains("\"rendered-master-1\""));
    assert_eq!(paths.last(), Some(&ENCAPSULATED_FILE));
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    let version = &encapsulated["spec"]["config"]["ignition"]["version"];
    assert_eq!(version, Version::V3_3.as_str(), "the version that was asked for, not always the newest");
}

#[test]
fn s_20_other_pools_wait_for_the_cluster() {
    let bootstrap = Bootstrap::new();
    bootstrap.write("machine-pools/worker.yaml", &pool("rendered-master-1"));
    assert_eq!(bootstrap.get("worker").status, 404);
    assert_eq!(bootstrap.get("arbiter").status, 404);
    bootstrap.write("machine-pools/arbiter.yaml", &pool("rendered-master-1"));
    assert_eq!(bootstrap.get("arbiter").status, 200);
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let bootstrap = Bootstrap::new();
    let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: rendered-master-1}\n\
                spec:\n  config:\n    ignition: {version: 3.2.0}\n    storage:\n      files:\n      - path: /a\n        \
                mode: 0600\n        contents: {source: 'data:,a'}\n";
    std::fs::write(bootstrap.path().join("machine-configs/rendered-master-1.yaml"), text).unwrap();
    let reply = bootstrap.get("master");
    assert_eq!(reply.status, 200, "{}", reply.header("seaworthy-reason"));
    assert_eq!(reply.json()["storage"]["files"][0]["mode"], 0o600);
}

#[test]
fn missing_machine_config_is_not_found() {
    let bootstrap = Bootstrap::new();
    bootstrap.write("machine-pools/master.yaml", &pool("rendered-master-2"));
    let reply = bootstrap.get("master");
    assert_eq!(reply.status, 404);
    // The pool exists; the missing file is named by its path.
    let path = bootstrap.path().join("machine-configs/rendered-master-2.yaml");
    assert_eq!(reply.header("seaworthy-reason"), format!("{}: there is no MachineConfig", path.display()));
}

#[test]
fn missing_controller_config_is_a_failure() {
    let bootstrap = Bootstrap::new();
    let path = bootstrap.path().join("controller-config/machine-config-controller.yaml");
    std::fs::remove_file(&path).unwrap();
    let reply = bootstrap.get("master");
    let reason = format!("{}: there is no ControllerConfig", path.display());
    assert_eq!((reply.status, reply.header("seaworthy-reason")), (500, reason.as_str()));
}

#[test]
fn name_that_leads_out_of_the_folder_is_refused() {
    let bootstrap = Bootstrap::new();
    bootstrap.write("secret.yaml", &serde_json::to_value(rendered("x")).unwrap());
    bootstrap.write("machine-pools/master.yaml", &pool("../secret"));
    let reply = bootstrap.get("master");
    assert_eq!(reply.status, 500);
    let reason = "machine-pools/master.yaml: status.configuration.name \"../secret\" is not a valid name";
    assert!(reply.header("seaworthy-reason").ends_with(reason), "{}", reply.header("seaworthy-reason"));
}

#[test]
fn broken_files_are_failures_that_name_the_file() {
    let bootstrap = Bootstrap::new();
    std::fs::write(bootstrap.path().join("machine-configs/rendered-master-1.yaml"), "spec: [").unwrap();
    let reply = bootstrap.get("master");
    assert_eq!(reply.status, 500);
    let says = "machine-configs/rendered-master-1.yaml: the MachineConfig cannot be read: ";
    assert!(reply.header("seaworthy-reason").contains(says), "{}", reply.header("seaworthy-reason"));
    std::fs::write(bootstrap.path().join("machine-pools/master.yaml"), "\u{0}").unwrap();
    let reply = bootstrap.get("master");
    let says = "machine-pools/master.yaml: the MachineConfigPool cannot be read: ";
    assert!(reply.status == 500 && reply.header("seaworthy-reason").contains(says));
}

#[test]
fn what_must_be_there_from_the_start_is_named() {
    let bootstrap = Bootstrap::new();
    bootstrap.folder().check().unwrap();
    let error_of = |folder: BootstrapFolder| folder.check().unwrap_err().to_string();
    let missing = bootstrap.path().join("nowhere");
    assert!(
        error_of(BootstrapFolder { kubeconfig: missing.clone(), ..bootstrap.folder() })
            .contains("nowhere: cannot be read: ")
    );
    assert!(
        error_of(BootstrapFolder { base: missing, ..bootstrap.folder() })
            .contains("nowhere/machine-pools: cannot be read: ")
    );
    let registries = vec![("../../etc".to_owned(), bootstrap.path().join("bar.crt"))];
    assert!(
        error_of(BootstrapFolder { registries, ..bootstrap.folder() })
            .starts_with("\"../../etc\" is not a registry; expected")
    );
}

#[tokio::test(start_paused = true)]
async fn what_changes_in_the_folder_is_served() {
    let bootstrap = Bootstrap::new();
    let answers = Arc::new(AnswerStore::default());
    let following = tokio::spawn(bootstrap.folder().run(Arc::clone(&answers)));
    let hour = std::time::Duration::from_secs(3600);
    let has = async |name: &str| {
        tokio::time::timeout(hour, answers.wait_until(|pools| pools.contains_key(name))).await.unwrap()
    };
    let first = has("master").await;
    bootstrap.write("machine-pools/arbiter.yaml", &pool("rendered-master-1"));
    let second = has("arbiter").await;
    assert_eq!((first.len(), second.len()), (1, 2));
    following.abort();
}
