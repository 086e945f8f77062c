//! From a MachineConfig to a byte on a disk: the API server, the controllers and the daemon of one machine, each a process
//! of its own, and the machine a folder.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod served;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::{Attributes, FolderHost, Host as _};
use seaworthy_node::target::Wanted;
use seaworthy_node::{Target, places};
use serde_json::{Value, json};
use served::{APPLY, JSON, MERGE, Reply, Served, TOKEN};

const NODE_TOKEN: &str = "token-of-the-node";
const NODES: &str = "/api/v1/nodes";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const PREFIX: &str = "machineconfiguration.openshift.io/";

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    folder: tempfile::TempDir,
    server: Served,
    _controllers: Running,
}

impl World {
    /// The server and the controllers, with a worker pool that has a target.
    fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.of.all");
        let lines = format!("{TOKEN},admin,1,\"system:masters\"\n{NODE_TOKEN},system:node:w0,2,\"system:nodes\"\n");
        std::fs::write(&tokens, lines).unwrap();
        let mut process =
            served::command(folder.path(), &["--token-auth-file", tokens.to_str().unwrap()]).spawn().unwrap();
        let (address, tls) = Served::wait(&mut process, folder.path()).unwrap();
        let server = Served { process, address, tls };
        let mut command = Command::new(env!("CARGO_BIN_EXE_seaworthy"));
        command.args(["controllers", "--install", "--no-leader-election", "--kubeconfig"]);
        command.arg(folder.path().join("data/admin.kubeconfig")).stdin(Stdio::null());
        let mut controllers = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(controllers.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("the controllers run")));
        std::thread::spawn(move || said.for_each(drop));
        let world = World { folder, server, _controllers: controllers };
        world.create("/apis/machineconfiguration.openshift.io/v1/controllerconfigs", &controller_config());
        world
    }

    fn create(&self, path: &str, object: &Value) {
        self.server.client().ask("POST", path, JSON, &object.to_string()).unwrap().is(201);
    }

    /// Waits until an object is as it should be.
    fn until(&self, path: &str, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{path}?watch=true&fieldSelector=metadata.name%3D{name}");
        let mut watch = self.server.client().watch(&path).unwrap();
        let mut last = Value::Null;
        loop {
            match watch.next() {
                Ok(Some(event)) => last = event["object"].clone(),
                ended => panic!("{name} does not become as it should ({ended:?}): {last:#}"),
            }
            if is(&last) {
                return last;
            }
        }
    }

    /// Waits for another target of the pool than this one.
    fn target_after(&self, old: &str) -> String {
        let name = |pool: &Value| pool["spec"]["configuration"]["name"].as_str().unwrap_or_default().to_owned();
        name(&self.until(POOLS, "worker", |pool| !name(pool).is_empty() && name(pool) != old))
    }

    /// Waits until the node runs a configuration and has said so.
    fn runs(&self, config: &str) -> Value {
        self.until(NODES, "w0", |node| said(node, "currentConfig") == config && said(node, "state") == "Done")
    }

    fn apply(&self, name: &str, path: &str, text: &str) {
        self.apply_all(name, &[path.to_owned()], text);
    }

    /// A MachineConfig with the same text in several files.
    fn apply_all(&self, name: &str, paths: &[String], text: &str) {
        let source = seaworthy_ignition::data_url::encode(text.as_bytes());
        let files: Vec<Value> =
            paths.iter().map(|path| json!({"path": path, "mode": 0o640, "contents": {"source": source}})).collect();
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}},
        });
        let path = format!("{CONFIGS}/{name}?fieldManager=test&force=true");
        let reply = self.server.client().ask("PATCH", &path, APPLY, &config.to_string()).unwrap();
        assert!(matches!(reply.code, 200 | 201), "{}", reply.body);
    }

    /// A node with its machine, which runs what the pool targets.
    fn join(&self) -> (tempfile::TempDir, String) {
        let first = self.target_after("");
        let config = self.server.client().ask("GET", &format!("{CONFIGS}/{first}"), JSON, "").unwrap().is(200);
        let root = tempfile::tempdir().unwrap();
        install(root.path(), &config);
        self.create(NODES, &node());
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
        self.server.client().ask("PATCH", &format!("{NODES}/w0/status"), MERGE, &ready).unwrap().is(200);
        self.allow_the_node();
        (root, first)
    }

    /// Ends the server without notice, and starts it again where it was.
    fn cut_the_server(&mut self) {
        self.server.kill();
        let address = self.server.address.to_string();
        let tokens = self.folder.path().join("tokens.of.all");
        let arguments = ["--token-auth-file", tokens.to_str().unwrap(), "--listen", &address];
        self.server.process = served::command(self.folder.path(), &arguments).spawn().unwrap();
        (self.server.address, self.server.tls) = Served::wait(&mut self.server.process, self.folder.path()).unwrap();
    }

    /// What a node may do, and nobody else's.
    fn allow_the_node(&self) {
        let rules = json!([
            {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["w0"], "verbs": ["get", "list", "watch", "patch"]},
            {"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfigs"], "verbs": ["get"]},
            {"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["controllerconfigs"], "resourceNames": ["machine-config-controller"], "verbs": ["list", "watch"]},
            {"apiGroups": ["operator.openshift.io"], "resources": ["machineconfigurations"], "verbs": ["get"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ]);
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        self.create(
            &format!("{roles}/clusterroles"),
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "daemon-w0"}, "rules": rules}),
        );
        self.create(
            &format!("{roles}/clusterrolebindings"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "daemon-w0"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "daemon-w0"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:node:w0"}],
            }),
        );
    }

    /// The credentials of the node, in a file.
    fn credentials(&self) -> PathBuf {
        let admin = std::fs::read_to_string(self.folder.path().join("data/admin.kubeconfig")).unwrap();
        let authority =
            admin.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: ")).unwrap();
        assert!(STANDARD.decode(authority).is_ok());
        let file = self.folder.path().join("node.kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "node",
            "clusters": [{"name": "here", "cluster": {
                "server": format!("https://{}", self.server.address), "certificate-authority-data": authority,
            }}],
            "users": [{"name": "node", "user": {"token": NODE_TOKEN}}],
            "contexts": [{"name": "node", "context": {"cluster": "here", "user": "node"}}],
        });
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        file
    }

    /// What the node itself is answered.
    fn ask_as_node(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut client = self.server.client();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {NODE_TOKEN}\r\ncontent-type: {MERGE}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write(head.as_bytes()).unwrap();
        client.reply().unwrap()
    }

    fn daemon(&self, root: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seaworthy"));
        command.args(["daemon", "--node-name", "w0", "--root"]).arg(root);
        command.arg("--kubeconfig").arg(self.credentials()).stdin(Stdio::null());
        let mut daemon = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "w0\n");
        daemon
    }
}

fn said(node: &Value, key: &str) -> String {
    node["metadata"]["annotations"][format!("{PREFIX}{key}")].as_str().unwrap_or_default().to_owned()
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "w0", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/os": "linux"}},
    })
}

fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "clusterDNSIP": "10.96.0.10", "cloudProviderConfig": "", "etcdDiscoveryDomain": "", "ipFamilies": "IPv4",
            "baseOSContainerImage": "", "kubeAPIServerServingCAData": "Y2E=", "osImageURL": "", "releaseImage": "", "rootCAData": "Y2E=",
            "additionalTrustBundle": null, "cloudProviderCAData": null, "network": null, "proxy": null, "images": {},
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {},
                      "spec": {"cloudConfig": {"name": ""}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {},
                    "spec": {"baseDomain": "example.com"}},
        },
    })
}

/// A machine as Ignition leaves it: the files and units of its first configuration, and the annotations to begin with.
fn install(root: &Path, config: &Value) {
    let name = config["metadata"]["name"].as_str().unwrap();
    let spec: MachineConfigSpec = serde_json::from_value(config["spec"].clone()).unwrap();
    let target = Target::parse(name, &spec, None).unwrap();
    let host = FolderHost::open(root).unwrap();
    for (path, wanted) in &target.paths {
        if let Wanted::File { bytes, mode, .. } = wanted {
            host.write(path, bytes, Attributes::of_root(*mode)).unwrap();
        }
    }
    for (unit, wanted) in &target.units {
        if wanted.is_enabled == Some(true) && wanted.has_contents {
            host.enable(&[unit]).unwrap();
        }
    }
    let annotations = json!({format!("{PREFIX}currentConfig"): name, format!("{PREFIX}desiredConfig"): name, format!("{PREFIX}state"): "Done"});
    host.write(places::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), Attributes::of_root(0o644)).unwrap();
    std::fs::write(root.join("etc/kept"), "theirs").unwrap();
}

#[test]
fn a_machine_config_lands_on_the_disk_of_a_machine_and_its_node_says_so() {
    let world = World::start();
    let (root, first) = world.join();
    world.create(NODES, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}}));

    let mut daemon = world.daemon(root.path());
    world.runs(&first);
    assert!(!root.path().join("etc/machine-config-daemon/node-annotations.json").exists());

    // A file that nobody knows anything of: the node is drained, and boots.
    world.apply("50-motd", "/etc/motd", "aye\n");
    let second = world.target_after(&first);
    let node = world.runs(&second);
    assert_eq!(std::fs::read_to_string(root.path().join("etc/motd")).unwrap(), "aye\n");
    assert_eq!(said(&node, "lastAppliedDrain"), format!("uncordon-{second}"));
    assert_eq!((said(&node, "reason"), said(&node, "post-config-action")), (String::new(), String::new()));
    let boots = || std::fs::read_to_string(root.path().join("var/lib/seaworthy/boots")).unwrap();
    assert_eq!(boots(), "2\n");

    // One that is known to need less gets less; what stood there is kept, and comes back.
    world.apply("60-chrony", "/etc/chrony.d/pool.conf", "pool example.org\n");
    let third = world.target_after(&second);
    world.runs(&third);
    assert_eq!(std::fs::read_to_string(root.path().join("etc/chrony.d/pool.conf")).unwrap(), "pool example.org\n");
    assert_eq!(boots(), "2\n");
    let progress = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes";
    world.until(progress, "w0", |object| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = |type_: &str, status: &str| conditions.iter().any(|it| it["type"] == type_ && it["status"] == status);
        object["status"]["configVersion"]["current"] == third.as_str()
            && is("Updated", "True")
            && is("NodeDegraded", "False")
    });

    // A secret comes without any order.
    let path = "/etc/mco/internal-registry-pull-secret.json".to_owned();
    let secret = root.path().join(path.trim_start_matches('/'));
    let (sender, heard) = std::sync::mpsc::channel();
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    let changed = std::sync::Arc::new(move || sender.send(()).unwrap_or_default());
    let _watch = FolderHost::open(root.path()).unwrap().watch(&[path], changed).unwrap();
    let renewed = json!({"spec": {"internalRegistryPullSecret": "e30="}}).to_string();
    let configs = "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller";
    world.server.client().ask("PATCH", configs, MERGE, &renewed).unwrap().is(200);
    heard.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "{}");

    // Somebody changes a file: it is heard of, and when it is right again, that is heard of too.
    let motd = root.path().join("etc/motd");
    std::fs::write(&motd, "nay\n").unwrap();
    let node = world.until(NODES, "w0", |node| said(node, "state") == "Degraded");
    assert!(said(&node, "reason").contains("/etc/motd"), "{node:#}");
    std::fs::write(&motd, "aye\n").unwrap();
    world.runs(&third);

    // The node's credentials are good for nothing else.
    let patch = json!({"metadata": {"annotations": {"a": "b"}}}).to_string();
    world.ask_as_node("PATCH", &format!("{NODES}/other"), &patch).is(403);
    world.ask_as_node("GET", &format!("{NODES}/other"), "").is(403);
    world.ask_as_node("GET", "/api/v1/secrets", "").is(403);
    world.ask_as_node("DELETE", &format!("{CONFIGS}/{third}"), "").is(403);

    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));

    // The next one begins where this one ended: what is ordered meanwhile is done.
    world.server.client().ask("DELETE", &format!("{CONFIGS}/50-motd"), JSON, "").unwrap().is(200);
    let fourth = world.target_after(&third);
    let _daemon = world.daemon(root.path());
    world.runs(&fourth);
    assert!(!motd.exists());
    assert_eq!(std::fs::read_to_string(root.path().join("etc/kept")).unwrap(), "theirs");
}

#[test]
fn a_daemon_that_is_killed_in_the_middle_and_a_server_that_goes_away_change_nothing_in_the_end() {
    let mut world = World::start();
    let (root, mut target) = world.join();
    let mut daemon = world.daemon(root.path());
    world.runs(&target);
    let paths: Vec<String> = (0..200).map(|nth| format!("/etc/chrony.d/{nth}.conf")).collect();
    for round in 0..6 {
        let text = format!("pool {round}.example.org\n");
        if round == 3 {
            world.cut_the_server();
        }
        world.apply_all("50-many", &paths, &text);
        target = world.target_after(&target);
        // It has begun, or is done already, and is killed wherever it is.
        world.until(NODES, "w0", |node| {
            let is_begun = said(node, "state") != "Done" || said(node, "currentConfig") == target;
            said(node, "desiredConfig") == target && is_begun
        });
        daemon.0.kill().unwrap();
        assert_eq!(daemon.0.wait().unwrap().code(), None);
        daemon = world.daemon(root.path());
        world.runs(&target);
        for path in &paths {
            let found = std::fs::read_to_string(root.path().join(path.trim_start_matches('/'))).unwrap();
            assert_eq!(found, text, "{path} in round {round}");
        }
        assert!(!root.path().join("etc/machine-config-daemon/journal").exists(), "round {round}");
    }
    assert!(!root.path().join("var/lib/seaworthy/boots").exists(), "nothing of it needs a boot");
}
