//! The environment of the daemon tests: API server, controllers, and a machine as Ignition leaves it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::{Attributes, FolderHost, Host as _};
use seaworthy_node::target::TargetEntry;
use seaworthy_node::{TargetState, paths};
use serde_json::{Value, json};

use crate::served::{self, APPLY, JSON, MERGE, Reply, Served, TOKEN};

const NODE_TOKEN: &str = "token-of-the-node";
pub const NODES: &str = "/api/v1/nodes";
pub const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
pub const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const PREFIX: &str = "machineconfiguration.openshift.io/";

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_seaworthy");

pub struct World {
    program: PathBuf,
    folder: tempfile::TempDir,
    pub server: Served,
    _controllers: Running,
}

impl World {
    /// The server and the controllers, with a worker pool that has a target.
    pub fn start() -> World {
        World::start_with(tempfile::tempdir().unwrap(), Path::new(PROGRAM))
    }

    /// The same with another build of the program, in an empty folder.
    pub fn start_with(folder: tempfile::TempDir, program: &Path) -> World {
        let world = World::start_processes(folder, program);
        world.create("/apis/machineconfiguration.openshift.io/v1/controllerconfigs", &controller_config());
        world
    }

    /// The server and the controllers, on the data that a folder has.
    pub fn start_in(folder: tempfile::TempDir) -> World {
        World::start_processes(folder, Path::new(PROGRAM))
    }

    fn start_processes(folder: tempfile::TempDir, program: &Path) -> World {
        let tokens = folder.path().join("tokens.of.all");
        let lines = format!("{TOKEN},admin,1,\"system:masters\"\n{NODE_TOKEN},system:node:w0,2,\"system:nodes\"\n");
        std::fs::write(&tokens, lines).unwrap();
        let arguments = ["--token-auth-file", tokens.to_str().unwrap()];
        let mut process = served::command_of(program, folder.path(), &arguments).spawn().unwrap();
        let (address, tls) = Served::wait(&mut process, folder.path()).unwrap();
        let server = Served { process, address, tls };
        let mut command = Command::new(program);
        command.args(["controllers", "--install", "--no-leader-election", "--kubeconfig"]);
        command.arg(folder.path().join("data/admin.kubeconfig")).stdin(Stdio::null());
        let mut controllers = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut stderr = BufReader::new(controllers.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(stderr.any(|line| line.contains("controllers run")));
        std::thread::spawn(move || stderr.for_each(drop));
        World { program: program.to_owned(), folder, server, _controllers: controllers }
    }

    /// Where the data is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stops the server and the controllers, and gives the folder with the data.
    pub fn stop(mut self) -> tempfile::TempDir {
        self.server.terminate();
        self.server.process.wait().unwrap();
        self.folder
    }

    pub fn create(&self, path: &str, object: &Value) {
        self.server.client().ask("POST", path, JSON, &object.to_string()).unwrap().is(201);
    }

    /// Waits until an object is as it should be.
    pub fn until(&self, path: &str, name: &str, is: impl Fn(&Value) -> bool) -> Value {
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
    pub fn target_after(&self, old: &str) -> String {
        let name = |pool: &Value| pool["spec"]["configuration"]["name"].as_str().unwrap_or_default().to_owned();
        name(&self.until(POOLS, "worker", |pool| !name(pool).is_empty() && name(pool) != old))
    }

    /// Waits until the node runs a configuration and has reported it.
    pub fn runs(&self, config: &str) -> Value {
        self.until(NODES, "w0", |node| {
            annotation(node, "currentConfig") == config && annotation(node, "state") == "Done"
        })
    }

    pub fn apply(&self, name: &str, path: &str, text: &str) {
        self.apply_all(name, &[path.to_owned()], text);
    }

    /// A MachineConfig with the same text in several files.
    pub fn apply_all(&self, name: &str, paths: &[String], text: &str) {
        let source = seaworthy_ignition::data_url::encode(text.as_bytes());
        let files: Vec<Value> =
            paths.iter().map(|path| json!({"path": path, "mode": 0o640, "contents": {"source": source}})).collect();
        self.apply_config(name, &json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}}));
    }

    /// A MachineConfig with this Ignition config.
    pub fn apply_config(&self, name: &str, config: &Value) {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": {"config": config},
        });
        let path = format!("{CONFIGS}/{name}?fieldManager=test&force=true");
        let reply = self.server.client().ask("PATCH", &path, APPLY, &config.to_string()).unwrap();
        assert!(matches!(reply.code, 200 | 201), "{}", reply.body);
    }

    /// A node with its machine, which runs what the pool targets.
    pub fn join(&self) -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let first = self.join_at(root.path());
        (root, first)
    }

    /// The same, with the root filesystem of the machine here.
    pub fn join_at(&self, root: &Path) -> String {
        let first = self.target_after("");
        let config = self.server.client().ask("GET", &format!("{CONFIGS}/{first}"), JSON, "").unwrap().is(200);
        install(root, &config);
        self.create(NODES, &node());
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
        self.server.client().ask("PATCH", &format!("{NODES}/w0/status"), MERGE, &ready).unwrap().is(200);
        self.allow_the_node();
        first
    }

    /// Ends the server without notice, and starts it again where it was.
    pub fn cut_the_server(&mut self) {
        self.server.kill();
        let address = self.server.address.to_string();
        let tokens = self.folder.path().join("tokens.of.all");
        let arguments = ["--token-auth-file", tokens.to_str().unwrap(), "--listen", &address];
        self.server.process = served::command(self.folder.path(), &arguments).spawn().unwrap();
        (self.server.address, self.server.tls) = Served::wait(&mut self.server.process, self.folder.path()).unwrap();
    }

    /// The rights of a node, limited to its own objects.
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

    /// What a command line prints that asks the server.
    pub fn asked(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--kubeconfig").arg(self.folder.path().join("data/admin.kubeconfig"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The credentials of the node, in a file.
    pub fn credentials(&self) -> PathBuf {
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
    pub fn ask_as_node(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut client = self.server.client();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {NODE_TOKEN}\r\ncontent-type: {MERGE}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write(head.as_bytes()).unwrap();
        client.reply().unwrap()
    }

    pub fn daemon(&self, root: &Path) -> Running {
        let mut command = Command::new(&self.program);
        command.args(["daemon", "--node-name", "w0", "--root"]).arg(root);
        command.arg("--kubeconfig").arg(self.credentials()).stdin(Stdio::null());
        let mut daemon = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "w0\n");
        daemon
    }
}

pub fn annotation(node: &Value, key: &str) -> String {
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
    let target = TargetState::parse(name, spec.into(), None).unwrap();
    let host = FolderHost::open(root).unwrap();
    for (path, wanted) in &target.paths {
        if let TargetEntry::File { bytes, mode, .. } = wanted {
            host.write(path, bytes, Attributes::of_root(*mode)).unwrap();
        }
    }
    for (unit, wanted) in &target.units {
        if wanted.is_enabled == Some(true) && wanted.has_contents {
            host.enable(&[unit]).unwrap();
        }
    }
    let annotations = json!({format!("{PREFIX}currentConfig"): name, format!("{PREFIX}desiredConfig"): name, format!("{PREFIX}state"): "Done"});
    host.write(paths::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), Attributes::of_root(0o644)).unwrap();
    std::fs::write(root.join("etc/kept"), "theirs").unwrap();
}
