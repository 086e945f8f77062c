//! The platform's own MachineConfigs.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use rstest::rstest;
use seaworthy_api::machineconfiguration::{ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::label;
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_change::Tables;
use seaworthy_change::memory::perform;
use seaworthy_change::{Action, Change};
use seaworthy_generate::base::{self, BaseDecision, Templates, built_in_pools, is_complete};
use seaworthy_generate::container_runtime;
use seaworthy_generate::container_runtime::STORAGE_CONF;
use seaworthy_generate::kubelet::{KUBELET_CONF, LOGGING, SIZING};
use seaworthy_ignition::{Node, Version, translate_down};
use serde_json::{Value, json};

use crate::support::{BUILD, Cluster, built_in, controller_config, file_of};

fn full() -> ControllerConfig {
    controller_config(json!({
        "clusterDNSIP": "10.96.0.10",
        "kubeAPIServerServingCAData": "LS0tCg==",
        "rootCAData": "LS0tCg==",
        "images": {"pause": "registry.example/pause:1"},
        "proxy": {"httpProxy": "http://proxy:3128", "noProxy": ".local"},
    }))
}

fn made(controller_config: &ControllerConfig) -> BTreeMap<String, MachineConfig> {
    let made = base::machine_configs(controller_config, &Templates::default(), None, BUILD).unwrap();
    made.into_iter().map(|made| (made.metadata.name.clone().unwrap(), made)).collect()
}

fn file(machine_config: &MachineConfig, path: &str) -> String {
    file_of(machine_config.spec.config.as_ref().unwrap(), path).unwrap_or_else(|| panic!("no {path}"))
}

fn document(role: &str) -> Value {
    serde_saphyr::from_str(&file(&made(&full())[&format!("01-{role}-kubelet")], KUBELET_CONF)).unwrap()
}

/// Everything that is decided about, to be decided about again.
struct World {
    controller_config: ControllerConfig,
    templates: Templates,
    pools: Vec<Arc<MachineConfigPool>>,
    deleted_pools: BTreeMap<String, MachineConfigPool>,
    machine_configs: BTreeMap<String, Arc<MachineConfig>>,
}

impl World {
    fn new() -> Self {
        World {
            controller_config: full(),
            templates: Templates::default(),
            pools: Vec::new(),
            deleted_pools: BTreeMap::new(),
            machine_configs: BTreeMap::new(),
        }
    }

    fn decide(&self, second: i64) -> BaseDecision {
        let machine_configs: Vec<_> = self.machine_configs.values().cloned().collect();
        base::desired(&base::BaseInputs {
            controller_config: &self.controller_config,
            templates: &self.templates,
            cluster_tls: None,
            pools: &self.pools,
            deleted_pools: &self.deleted_pools,
            machine_configs: &machine_configs,
            build: BUILD,
            now: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::from_second(second).unwrap()),
        })
    }

    fn sync(&mut self) -> BaseDecision {
        let decision = self.decide(1);
        let mut tables = Tables::default()
            .with_objects(self.machine_configs.values().cloned().collect())
            .with_objects(self.pools.clone())
            .with_objects(vec![Arc::new(self.controller_config.clone())]);
        perform(&decision, &mut tables, jiff::Timestamp::UNIX_EPOCH).result().unwrap();
        self.controller_config = ControllerConfig::clone(&tables.of()[0]);
        self.pools = tables.of().to_vec();
        let machine_configs = tables.of::<MachineConfig>().iter().cloned();
        self.machine_configs = machine_configs.map(|found| (found.metadata.name.clone().unwrap(), found)).collect();
        let again = self.decide(99);
        assert!(again.is_empty(), "a decision that was performed leaves nothing to do: {again:?}");
        decision
    }
}

#[test]
fn each_role_has_three_machine_configs() {
    let made = made(&full());
    let names: Vec<&str> = made.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "00-master",
            "00-worker",
            "01-master-container-runtime",
            "01-master-kubelet",
            "01-worker-container-runtime",
            "01-worker-kubelet",
        ]
    );
    let metadata = serde_json::to_value(&made["01-worker-kubelet"].metadata).unwrap();
    assert_eq!(metadata["labels"][label::ROLE.as_str()], "worker");
    assert_eq!(metadata["ownerReferences"][0]["kind"], "ControllerConfig");
    assert_eq!(metadata["ownerReferences"][0]["controller"], true);
}

#[test]
fn kc_48_swap_fails_the_control_plane_and_no_pod_uses_it() {
    for (role, fails) in [("master", true), ("worker", false)] {
        let document = document(role);
        assert_eq!(document["failSwapOn"], fails, "{role}");
        assert_eq!(document["memorySwap"]["swapBehavior"], "NoSwap", "{role}");
    }
}

#[test]
fn the_kubelet_has_the_values_of_the_page() {
    let worker = document("worker");
    let expected = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "maxPods": 250, "podPidsLimit": 4096, "cgroupDriver": "systemd", "cgroupRoot": "/", "containerLogMaxSize": "50Mi",
        "kubeAPIQPS": 50, "kubeAPIBurst": 100, "serverTLSBootstrap": true, "rotateCertificates": true,
        "nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "5m", "systemReservedCgroup": "/system.slice",
        "systemCgroups": "/system.slice", "enforceNodeAllocatable": ["pods", "system-reserved-compressible"],
        "tlsMinVersion": "VersionTLS12", "clusterDomain": "cluster.local", "clusterDNS": ["10.96.0.10"],
        "enableSystemLogQuery": true, "protectKernelDefaults": true, "serializeImagePulls": false,
        "staticPodPath": "/etc/kubernetes/manifests",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&worker[key], value, "{key}");
    }
    assert_eq!(worker["authentication"]["anonymous"]["enabled"], false);
    assert_eq!(worker["authentication"]["x509"]["clientCAFile"], "/etc/kubernetes/kubelet-ca.crt");
    let master = document("master");
    assert_eq!((master.get("systemReservedCgroup"), master.get("enforceNodeAllocatable")), (None, None));
}

#[test]
fn a_kubelet_config_changes_no_line_of_the_base_but_its_own() {
    let mut cluster = Cluster::<KubeletConfig>::new();
    let base = made(&full())["01-worker-kubelet"].clone();
    cluster.put(base.clone());
    cluster.create("a", built_in("worker"), json!({"kubeletConfig": {"maxPods": 11}}));
    cluster.settle();
    let (before, after) = (file(&base, KUBELET_CONF), cluster.rendered("worker", KUBELET_CONF).unwrap());
    let differing: Vec<_> = before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    assert_eq!(differing, [("maxPods: 250", "maxPods: 11")]);
    assert_eq!(before.lines().count(), after.lines().count());
}

#[test]
fn the_small_files_are_as_the_page_says() {
    let made = made(&full());
    for (role, is_sized) in [("master", false), ("worker", true)] {
        let kubelet = &made[&format!("01-{role}-kubelet")];
        let sizing = format!(
            "NODE_SIZING_ENABLED={is_sized}\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"
        );
        assert_eq!(file(kubelet, SIZING), sizing);
        assert_eq!(file(kubelet, LOGGING), "[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=2\"\n");
        let config = kubelet.spec.config.as_ref().unwrap();
        let unit = config["systemd"]["units"].as_array().unwrap().iter().find(|unit| unit["name"] == "kubelet.service");
        let unit = unit.unwrap();
        assert_eq!(unit["enabled"], true);
        let text = unit["contents"].as_str().unwrap();
        assert!(text.contains("--config=/etc/kubernetes/kubelet.conf \\\n"), "{text}");
        assert!(text.contains(&format!("--node-labels={}={role} ", label::ROLE)), "{text}");

        let runtime = &made[&format!("01-{role}-container-runtime")];
        let crio: toml_edit::DocumentMut =
            file(runtime, &format!("{}/00-default", container_runtime::DROP_INS)).parse().unwrap();
        assert_eq!(crio["crio"]["runtime"]["default_runtime"].as_str(), Some("crun"));
        assert_eq!(crio["crio"]["runtime"]["log_level"].as_str(), Some("info"));
        assert_eq!(crio["crio"]["image"]["pause_image"].as_str(), Some("registry.example/pause:1"));
        assert_eq!(crio["crio"]["image"]["global_auth_file"].as_str(), Some("/var/lib/kubelet/config.json"));
        let storage: toml_edit::DocumentMut = file(runtime, STORAGE_CONF).parse().unwrap();
        assert_eq!(storage["storage"]["driver"].as_str(), Some("overlay"));
        assert_eq!(storage["storage"]["options"]["overlay"]["skip_mount_home"].as_str(), Some("true"));
        let registries: toml_edit::DocumentMut = file(runtime, "/etc/containers/registries.conf").parse().unwrap();
        assert!(registries["unqualified-search-registries"].is_array());
        let policy: Value = serde_json::from_str(&file(runtime, "/etc/containers/policy.json")).unwrap();
        assert_eq!(policy["default"][0]["type"], "insecureAcceptAnything");
    }
}

#[test]
fn what_a_cluster_does_not_have_is_left_out() {
    let made = made(&controller_config(json!({})));
    let document: Value = serde_saphyr::from_str(&file(&made["01-worker-kubelet"], KUBELET_CONF)).unwrap();
    assert_eq!((document.get("clusterDNS"), document["authentication"].get("x509")), (None, None));
    let config = made["00-worker"].spec.config.as_ref().unwrap();
    for path in ["/etc/kubernetes/ca.crt", "/etc/kubernetes/kubelet-ca.crt", "/etc/kubernetes/proxy.env"] {
        assert_eq!(file_of(config, path), None);
    }
    let full = self::made(&full());
    assert_eq!(file(&full["00-worker"], "/etc/kubernetes/ca.crt"), "---\n");
    assert_eq!(
        file(&full["00-worker"], "/etc/kubernetes/proxy.env"),
        "HTTP_PROXY=http://proxy:3128\nNO_PROXY=.local\n"
    );
}

#[test]
fn pools_and_machine_configs_are_made_and_reported() {
    let mut world = World::new();
    assert!(!is_complete(&world.controller_config));
    let decision = world.sync();
    assert_eq!(decision.report.problems, Vec::<String>::new());
    assert_eq!((world.pools.len(), world.machine_configs.len()), (2, 6));
    assert!(is_complete(&world.controller_config));
    let conditions = world.controller_config.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let completed = conditions.iter().find(|condition| condition.type_ == "TemplateControllerCompleted").unwrap();
    assert_eq!(
        completed.message.as_deref(),
        Some("sync completed towards (1) generation using controller version build-1")
    );
    world.controller_config.metadata.generation = Some(2);
    assert!(!is_complete(&world.controller_config), "an edit is not complete until it was looked at");
    world.sync();
    assert!(is_complete(&world.controller_config));
}

#[test]
fn what_is_edited_or_deleted_is_restored() {
    let mut world = World::new();
    world.sync();
    let whole = world.machine_configs.clone();
    let mut edited = world.machine_configs["00-worker"].as_ref().clone();
    edited.spec.kernel_arguments = Some(vec!["quiet".into()]);
    edited.metadata.labels.as_mut().unwrap().insert("team".into(), "x".into());
    world.machine_configs.insert("00-worker".into(), Arc::new(edited));
    world.machine_configs.remove("01-master-kubelet");
    let decision = world.sync();
    assert_eq!(decision.changes().filter(|change| change.event().is_none()).count(), 2, "{decision:?}");
    assert_eq!(world.machine_configs["00-worker"].spec, whole["00-worker"].spec);
    assert_eq!(world.machine_configs["00-worker"].metadata.labels.as_ref().unwrap()["team"], "x");
    assert_eq!(world.machine_configs.len(), whole.len());
}

/// Differs: upstream overwrites whatever has the name, here it is kept, because an object that no controller has made belongs to
/// a user.
#[test]
fn machine_config_of_a_user_is_not_overwritten_and_nothing_is_created_beside_it() {
    let mut world = World::new();
    let own: MachineConfig = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "00-worker", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"kernelArguments": ["precious"]},
    }))
    .unwrap();
    world.machine_configs.insert("00-worker".into(), Arc::new(own.clone()));
    let decision = world.sync();
    assert_eq!(decision.report.taken, ["00-worker"]);
    assert_eq!(*world.machine_configs["00-worker"], own);
    assert_eq!(world.machine_configs.len(), 1);
    assert!(!is_complete(&world.controller_config));
    let reported = base::failure(&world.controller_config).unwrap();
    assert!(
        reported.contains("MachineConfig 00-worker was not generated by the controllers")
            && reported.contains("kubectl delete mc"),
        "{reported}"
    );

    // What a controller has once written stays the platform's, although a user has replaced all of it.
    let mut replaced = own;
    replaced.metadata.managed_fields =
        Some(vec![ManagedFieldsEntry { manager: Some(base::MANAGER.to_owned()), ..ManagedFieldsEntry::default() }]);
    world.machine_configs.insert("00-worker".into(), Arc::new(replaced));
    assert_eq!(world.sync().report.taken, [""; 0]);
    assert!(is_complete(&world.controller_config));
}

#[test]
fn the_spec_of_a_built_in_pool_is_the_users_and_its_labels_are_ours() {
    let mut world = World::new();
    world.sync();
    let pool = Arc::make_mut(&mut world.pools[1]);
    pool.spec.paused = Some(true);
    pool.spec.node_selector = None;
    pool.metadata.labels.as_mut().unwrap().remove(label::BUILT_IN.as_str());
    let decision = world.sync();
    let changes: Vec<Change> = decision.changes().collect();
    let [Change { object, action: Action::Patch(patch) }] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(object.name, "worker");
    assert_eq!(patch, &json!({"metadata": {"labels": {label::BUILT_IN.as_str(): ""}}}));
    assert_eq!((world.pools[1].spec.paused, &world.pools[1].spec.node_selector), (Some(true), &None));
}

#[test]
fn built_in_pools_do_not_vanish_unseen() {
    let mut world = World::new();
    world.sync();
    let is_held = |pool: &Arc<MachineConfigPool>| BUILT_IN.is_on(&pool.metadata);
    assert!(world.pools.iter().all(is_held), "they are made so");
    // As a pool of an earlier build, or of the upstream, is taken over.
    Arc::make_mut(&mut world.pools[1]).metadata.finalizers = Some(vec!["theirs".to_owned()]);
    world.sync();
    assert_eq!(world.pools[1].metadata.finalizers, Some(vec!["theirs".to_owned(), BUILT_IN.into()]));
    // What is on its way out takes no finalizer.
    let going = &mut Arc::make_mut(&mut world.pools[1]).metadata;
    (going.finalizers, going.deletion_timestamp) =
        (None, serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert!(world.decide(1).is_empty());
}

#[test]
fn the_built_in_pools_are_as_the_page_says() {
    let pools = serde_json::to_value(built_in_pools()).unwrap();
    assert_eq!(
        pools[0]["metadata"]["labels"],
        json!({
            "operator.machineconfiguration.openshift.io/required-for-upgrade": "",
            "machineconfiguration.openshift.io/mco-built-in": "",
            "pools.operator.machineconfiguration.openshift.io/master": "",
        })
    );
    assert_eq!(
        pools[1]["spec"],
        json!({
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}},
        })
    );
}

#[test]
fn a_folder_overrides_adds_and_takes_away() {
    let folder = BTreeMap::from([
        ("common/01-kubelet/files/etc/systemd/system/kubelet.service.d/20-logging.conf".into(), Vec::new()),
        ("worker/00/files/etc/motd".into(), b"a {{role}}\n".to_vec()),
        (
            "common/01-container-runtime/files/etc/containers/registries.conf".into(),
            b"unqualified-search-registries = []\n".to_vec(),
        ),
    ]);
    let templates = Templates::default().overridden_by(folder);
    let made = base::machine_configs(&full(), &templates, None, BUILD).unwrap();
    let config = |name: &str| {
        let found = made.iter().find(|made| made.metadata.name.as_deref() == Some(name)).unwrap();
        found.spec.config.clone().unwrap()
    };
    assert_eq!(file_of(&config("01-worker-kubelet"), LOGGING), None);
    assert_eq!(file_of(&config("00-worker"), "/etc/motd").as_deref(), Some("a worker\n"));
    assert_eq!(file_of(&config("00-master"), "/etc/motd"), None);
    let registries = file_of(&config("01-master-container-runtime"), "/etc/containers/registries.conf");
    assert_eq!(registries.as_deref(), Some("unqualified-search-registries = []\n"));
}

#[test]
fn a_template_that_fails_leaves_everything_as_it_is_and_is_named() {
    let mut world = World::new();
    world.sync();
    let before = world.machine_configs.clone();
    let folder = BTreeMap::from([
        ("worker/00/files/etc/motd".into(), b"x\n{{cluster}}\n".to_vec()),
        ("common/00/files/bin".into(), vec![0xff]),
        ("common/00/odd/etc/x".into(), b"x".to_vec()),
        ("common/00/files/../x".into(), b"x".to_vec()),
    ]);
    world.templates = world.templates.overridden_by(folder);
    let decision = world.sync();
    assert_eq!(world.machine_configs, before);
    assert!(!is_complete(&world.controller_config));
    let reported = decision.report.problems.join("\n");
    for expected in [
        "template worker/00/files/etc/motd, line 2: there is no variable \"cluster\"; expected one of apiServerCA, ",
        "template common/00/files/bin is not text",
        "template common/00/odd/etc/x is misplaced",
        "template common/00/files/../x is misplaced",
    ] {
        assert!(reported.contains(expected), "{expected} in {reported}");
    }
    assert_eq!(decision.report.problems.len(), 4, "{reported}");
}

#[rstest]
#[case(json!({"clusterDNSIP": "1\"\nx: y"}), "ControllerConfig spec.clusterDNSIP: found ")]
#[case(json!({"rootCAData": "%%"}), "ControllerConfig spec.rootCAData: it is not base64")]
fn a_value_that_would_break_a_file_is_refused(#[case] spec: Value, #[case] expected: &str) {
    let errors = base::machine_configs(&controller_config(spec), &Templates::default(), None, BUILD).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().starts_with(expected), "{}", errors[0]);
}

#[test]
fn the_base_renders() {
    let cluster = Cluster::<KubeletConfig>::new();
    for pool in ["master", "worker"] {
        assert!(cluster.rendered(pool, KUBELET_CONF).is_some());
    }
}

// === Real counterparts ===

#[test]
fn the_real_validator_accepts_the_base() {
    let found = seaworthy_trial::program("SEAWORTHY_IGNITION_VALIDATE", "ignition-validate", &["/usr/bin"], "ignition");
    let Some(program) = found else { return };
    for (name, made) in made(&full()) {
        // The newest version that Debian's package knows.
        let config = made.spec.config.unwrap();
        let lowered = translate_down(&Node::from_json(&config), Version::V3_3).unwrap().to_json();
        let mut child = Command::new(&program)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lowered.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Runs the program that sizes a node: GiB of memory and processors in, what is reserved out.
fn sized(env: &str, gib: u64, cpus: u32) -> Value {
    let config = made(&full())["01-worker-kubelet"].spec.config.clone().unwrap();
    let script = file_of(&config, "/usr/local/sbin/node-sizing").unwrap();
    let entry = config["storage"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"] == "/usr/local/sbin/node-sizing");
    assert_eq!(entry.unwrap()["mode"], 0o755);
    let folder = std::env::temp_dir().join(format!("node-sizing-{}-{gib}-{cpus}-{}", std::process::id(), env.len()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    std::fs::write(path("script"), script).unwrap();
    std::fs::write(path("env"), env).unwrap();
    std::fs::write(path("meminfo"), format!("MemFree: 1 kB\nMemTotal:  {} kB\n", gib * 1_048_576)).unwrap();
    let mut command = Command::new("/bin/sh");
    command.arg(path("script")).arg(path("env")).arg(path("meminfo")).arg(path("out/20.conf")).arg(cpus.to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(path("out/20.conf")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(document["kind"], "KubeletConfiguration");
    document["systemReserved"].clone()
}

#[rstest]
#[case(4, 2, "1Gi", "500m")]
#[case(8, 4, "1Gi", "500m")]
#[case(64, 16, "4Gi", "500m")]
#[case(128, 64, "8Gi", "816m")]
#[case(512, 128, "16Gi", "1584m")]
fn a_node_sizes_itself_by_the_formula(#[case] gib: u64, #[case] cpus: u32, #[case] memory: &str, #[case] cpu: &str) {
    let env =
        "NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=2Gi\n";
    assert_eq!(sized(env, gib, cpus), json!({"memory": memory, "cpu": cpu, "ephemeral-storage": "2Gi"}));
}

#[test]
fn a_node_takes_amounts_set_by_hand() {
    let env = "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=3Gi\nSYSTEM_RESERVED_CPU=1\nSYSTEM_RESERVED_ES=2Gi\n";
    assert_eq!(sized(env, 64, 4), json!({"memory": "3Gi", "cpu": "1", "ephemeral-storage": "2Gi"}));
    assert_eq!(sized("", 64, 4), json!({"memory": "1Gi", "cpu": "500m", "ephemeral-storage": "1Gi"}));
}
