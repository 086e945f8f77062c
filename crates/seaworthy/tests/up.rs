//! `seaworthy up`: all parts in one process, from the first start over a change and a stop to the next start.

use crate::program;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::Program;
use crate::transcripts::page::{Answer, Page};

/// The program prints its addresses within seconds; a busy machine may take longer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Shutdown takes about a second; more than this is a failure.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

fn has_kubectl() -> bool {
    ["/usr/bin/kubectl", "/bin/kubectl"].iter().any(|path| Path::new(path).exists())
}

/// A process that is up.
struct Up<'p> {
    program: &'p Program,
    process: Child,
    /// What it has printed, by the text before the colon.
    printed: Vec<(String, String)>,
}

impl<'p> Up<'p> {
    fn start(program: &'p Program, args: &[&str]) -> Up<'p> {
        Up::run(program, program.command(["up", "--listen", "127.0.0.1:0", "--ignition-listen", "127.0.0.1:0"]), args)
    }

    fn run(program: &'p Program, mut command: Command, args: &[&str]) -> Up<'p> {
        let mut process = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (sender, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let first: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let _ = sender.send(first);
            // What it prints later must be read as well.
            lines.for_each(drop);
        });
        let mut up = Up { program, process, printed: Vec::new() };
        let lines = received.recv_timeout(START_TIMEOUT).expect("up has not printed its addresses");
        let pair =
            |line: &String| line.split_once(": ").map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        up.printed = lines.iter().map(pair).collect();
        up
    }

    fn printed(&self, key: &str) -> &str {
        &self.printed.iter().find(|(known, _)| known == key).unwrap_or_else(|| panic!("{key}: {:?}", self.printed)).1
    }

    /// A line for the shell, with the program and kubectl at hand.
    fn shell(&self, line: &str) -> Command {
        let bin = self.program.path("bin");
        if !bin.exists() {
            std::fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_seaworthy"), bin.join("seaworthy")).unwrap();
        }
        let mut command = Command::new("timeout");
        self.program.settle(&mut command);
        command.args(["--kill-after=1", "180", "bash", "-c", line]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("LC_ALL", "C.UTF-8");
        command.env("KUBECONFIG", self.printed("kubeconfig"));
        command
    }

    fn must(&self, line: &str) -> String {
        let output = self.shell(line).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refuses(&self, line: &str, why: &str) {
        let output = self.shell(line).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{line}: {output:?}");
    }

    /// Every node with its state, and whether it runs what it should.
    fn nodes(&self) -> Vec<String> {
        let it = r".metadata.annotations.machineconfiguration\.openshift\.io";
        let line = format!(
            "kubectl get nodes -o jsonpath='{{range .items[*]}}{{.metadata.name}} {{{it}/state}} \
             {{{it}/currentConfig}} {{{it}/desiredConfig}}{{\"\\n\"}}{{end}}'"
        );
        let row = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {} {}", words[0], words[1], words[2] == words[3])
        };
        self.must(&line).lines().map(row).collect()
    }

    fn signal(&self, signal: &str) {
        let number = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) {
        self.signal("-INT");
        assert_eq!(self.ended(), Some(0));
    }

    /// Its exit code. One that does not end by itself has none.
    fn ended(&mut self) -> Option<i32> {
        let asked = Instant::now();
        loop {
            match self.process.try_wait().unwrap() {
                Some(status) => return status.code(),
                None if asked.elapsed() > SHUTDOWN_TIMEOUT => panic!("still running after the stop signal"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SETTLED: [&str; 4] = ["m1 Done true", "w1 Done true", "w2 Done true", "w3 Done true"];

#[test]
fn change_reaches_every_node_and_is_still_there_after_the_next_start() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let program = Program::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/50-worker-motd.yaml");
    let up = Up::start(&program, &["--nodes", "4", "--data", "data"]);
    assert_eq!(up.printed("simulated machines"), "1 master, 3 workers");
    assert_eq!(up.printed("kubeconfig"), program.path("data/admin.kubeconfig").display().to_string());
    up.must("kubectl wait mcp --all --for=condition=Updated --timeout=120s");
    // Only from the endpoint does a machine learn which configuration it booted with first.
    let pivot = r"jsonpath='{.metadata.annotations.machineconfiguration\.openshift\.io/firstPivotConfig}'";
    assert!(up.must(&format!("kubectl get node w1 -o {pivot}")).starts_with("rendered-worker-"));
    up.must(&format!("kubectl apply -f {}", example.display()));
    up.must("kubectl wait mcp/worker --for=condition=Updating --timeout=120s");
    up.must("seaworthy rollout status worker --watch");
    up.must("kubectl wait mcp/worker --for=condition=Updated --timeout=120s");
    assert_eq!(up.nodes(), SETTLED);
    let config =
        "kubectl get node w1 -o jsonpath='{.metadata.annotations.machineconfiguration\\.openshift\\.io/currentConfig}'";
    let before = up.must(config);

    // A node does what it has to, and no more.
    let as_node = "kubectl --as system:node:w1 --as-group system:nodes";
    up.must(&format!("{as_node} annotate node w1 tried=yes"));
    up.refuses(&format!("{as_node} annotate node w2 tried=yes"), "system:node:w1 may write no Node but its own");
    up.refuses(&format!("{as_node} get secrets -A"), "Forbidden");
    up.refuses(&format!("{as_node} delete node w1"), "Forbidden");

    // Others come too late, and the error names the first.
    let number = up.process.id();
    program.run(["up", "--data", "data"]).expect(2).says(&[&format!("is in use by process {number}"), "name another"]);
    let address = up.printed("API server").trim_start_matches("https://").to_owned();
    let late = program.run(["up", "--data", "other", "--listen", &address]).expect(2);
    late.says(&[&address, &format!("in use by process {number} (seaworthy)"), "--listen"]);
    assert!(!program.path("other").exists(), "a folder is made for something that cannot run");

    // New machines find their configuration, with the token that the folder has.
    let endpoint = up.printed("Ignition endpoint").trim_start_matches("https://").to_owned();
    let free = ["--listen", "127.0.0.1:0"];
    let late = program.run(["up", "--data", "other", "--ignition-listen", &endpoint].into_iter().chain(free)).expect(2);
    late.says(&[&endpoint, &format!("in use by process {number} (seaworthy)"), "--ignition-listen"]);
    assert!(!program.path("other").exists());
    let stub = up.must(&format!(
        "seaworthy ignition stub --pool worker --server {endpoint} --ca data/pki/ca.crt --token-file data/bootstrap-token/token"
    ));
    assert!(stub.contains(&format!("https://{endpoint}/config/worker")), "{stub}");
    up.stop();

    let up = Up::start(&program, &["--data", "data"]);
    assert_eq!(up.printed("simulated machines"), "1 master, 3 workers");
    up.must("kubectl wait mcp --all --for=condition=Updated --timeout=120s");
    assert_eq!(up.nodes(), SETTLED);
    assert_eq!(up.must(config), before);
    // The machines are there again, not only what was written of them.
    up.must(&format!("kubectl delete -f {}", example.display()));
    up.must("kubectl wait mcp/worker --for=condition=Updating --timeout=120s");
    up.must("kubectl wait mcp/worker --for=condition=Updated --timeout=120s");
    assert_eq!(up.nodes(), SETTLED);
    assert_ne!(up.must(config), before);
    up.stop();
}

#[test]
fn cluster_without_machines_is_a_cluster() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let program = Program::new();
    let up = Up::start(&program, &["--nodes", "0"]);
    assert_eq!(up.printed("simulated machines"), "none");
    assert_eq!(up.must("kubectl get nodes -o name"), "");
    up.must("kubectl wait mcp/worker --for=jsonpath='{.spec.configuration.name}' --timeout=60s");
    // A list is checked by kubectl itself, with the schemas that it reads as protobuf.
    let list = |field: &str| {
        format!(
            "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, {field}: {{a: b}}}}\n\
             - {{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {{name: 50-a}}, \
             spec: {{kernelArguments: [a]}}}}\n"
        )
    };
    program.file("wrong.yaml", list("dat"));
    up.refuses("kubectl create -f wrong.yaml", "unknown field \"dat\" in io.k8s.api.core.v1.ConfigMap");
    program.file("wrong.yaml", list("data").replace("kernelArguments", "kernelArgument"));
    up.refuses(
        "kubectl create -f wrong.yaml",
        "unknown field \"kernelArgument\" in io.openshift.machineconfiguration.v1.MachineConfig",
    );
    program.file("list.yaml", list("data"));
    up.must("kubectl create -f list.yaml");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(program.path("seaworthy-data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    up.stop();
}

#[test]
fn machines_elsewhere_find_what_listens_on_every_address() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let program = Program::new();
    let command = program.command(["up", "--listen", "0.0.0.0:0", "--ignition-listen", "0.0.0.0:0"]);
    let up = Up::run(&program, command, &["--nodes", "0", "--data", "data"]);
    let (api, ignition) = (up.printed("API server").to_owned(), up.printed("Ignition endpoint").to_owned());
    assert!(!api.contains("0.0.0.0") && !ignition.contains("0.0.0.0"), "{api}, {ignition}");
    // Both certificates are for the addresses that were printed.
    up.must(&format!(
        "kubectl --server {api} wait mcp/worker --for=jsonpath='{{.spec.configuration.name}}' --timeout=60s"
    ));
    let ask = format!(
        "kubectl --kubeconfig /dev/null --server {ignition} --certificate-authority data/pki/ca.crt \
         --token $(cat data/bootstrap-token/token) get --raw /config/worker"
    );
    let served = up.must(&format!("until {ask} 2>/dev/null; do sleep 0.1; done"));
    let served: serde_json::Value = serde_json::from_str(&served).unwrap();
    let files = served["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == "/etc/kubernetes/kubeconfig").unwrap();
    let source = file["contents"]["source"].as_str().unwrap();
    let text = seaworthy_ignition::data_url::decode(source).unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(&format!("server: \"{api}\"")), "{text}");
    up.stop();
}

#[test]
fn failed_endpoint_stops_up_with_a_message() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let program = Program::new();
    program.file(
        "policy.yaml",
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-tokens}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: "object.type != 'bootstrap.kubernetes.io/token'", message: "no tokens here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-tokens}
spec: {policyName: no-tokens, validationActions: [Deny]}
"#,
    );
    let up = Up::start(&program, &["--nodes", "0", "--data", "data"]);
    up.must("kubectl create -f policy.yaml");
    up.must("kubectl -n kube-system delete secret --all");
    up.stop();
    let free = ["up", "--listen", "127.0.0.1:0", "--ignition-listen", "127.0.0.1:0"];
    let ended = program.run(free.into_iter().chain(["--nodes", "0", "--data", "data"])).expect(1);
    ended.says(&["the Ignition endpoint cannot serve new machines", "no tokens here"]);
    // The log of the start that went well is still there.
    assert!(program.path("data/seaworthy.log.old").exists());
}

#[test]
fn controllers_beside_it_stand_by() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let program = Program::new();
    let up = Up::start(&program, &["--nodes", "0", "--data", "data"]);
    let lease = "kubectl -n seaworthy-system get lease -o jsonpath='{.items[*].spec.holderIdentity}'";
    up.must(&format!("until test -n \"$({lease})\"; do sleep 0.1; done"));
    let holder = up.must(lease);
    let log = up.must(
        "seaworthy controllers 2> log & until grep 'waiting for the lease' log; do sleep 0.1; done; kill $!; wait $!",
    );
    assert!(log.contains("waiting for the lease; standby while another process holds it"), "{log}");
    assert_eq!(up.must(lease), holder);
    up.stop();
}

#[test]
fn remote_content_comes_from_a_host_that_is_allowed_and_from_no_other_beside_this_machine() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    let program = Program::new();
    program.file(
        "remote.yaml",
        format!(
            "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\n\
             metadata: {{name: 50-remote, labels: {{machineconfiguration.openshift.io/role: worker}}}}\n\
             spec: {{config: {{ignition: {{version: 3.5.0}}, storage: {{files: [{{path: /etc/motd, \
             contents: {{source: \"http://{address}/motd\"}}}}]}}}}}}\n"
        ),
    );
    let degraded = |is: &str| format!("kubectl wait mcp/worker --for=condition=RenderDegraded={is} --timeout=60s");
    let up = Up::start(&program, &["--nodes", "0", "--data", "data"]);
    up.must("kubectl apply -f remote.yaml");
    up.must(&degraded("True"));
    let why = r#"kubectl get mcp worker -o jsonpath='{.status.conditions[?(@.type=="RenderDegraded")].message}'"#;
    let why = up.must(why);
    assert!(why.contains("50-remote") && why.contains("--allow-host"), "{why}");
    up.stop();

    let up = Up::start(&program, &["--nodes", "0", "--data", "data", "--allow-host", &address]);
    up.must(&degraded("False"));
    let rendered = "kubectl get mc $(kubectl get mcp worker -o jsonpath='{.spec.configuration.name}') -o yaml";
    assert!(up.must(rendered).contains("data:,hello"));
    up.stop();
}

#[test]
fn end_of_the_terminal_is_an_orderly_end_unless_it_is_to_be_outlived() {
    let program = Program::new();
    // The suite itself may run under nohup.
    let mut command = Command::new("env");
    program.settle(&mut command);
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_seaworthy")]);
    command.args(["up", "--listen", "127.0.0.1:0", "--ignition-listen", "127.0.0.1:0"]);
    let mut up = Up::run(&program, command, &["--nodes", "2", "--data", "data"]);
    assert_eq!(up.printed("simulated machines"), "1 master, 1 worker");
    up.signal("-HUP");
    assert_eq!(up.ended(), Some(0));
    drop(up);

    let mut command = Command::new("nohup");
    program.settle(&mut command);
    command.arg(env!("CARGO_BIN_EXE_seaworthy"));
    command.args(["up", "--listen", "127.0.0.1:0", "--ignition-listen", "127.0.0.1:0"]);
    command.stderr(Stdio::piped());
    let mut up = Up::run(&program, command, &["--nodes", "1", "--data", "data"]);
    // What the folder has comes back, whatever number is requested, and that is reported.
    assert_eq!(up.printed("simulated machines"), "1 master, 1 worker");
    up.signal("-HUP");
    up.signal("-INT");
    assert_eq!(up.ended(), Some(0));
    let mut stderr = String::new();
    up.process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("--nodes 1: the data folder has 2 machines; all are started"), "{stderr}");
}

#[test]
fn demo_succeeds_and_leaves_nothing_behind() {
    let program = Program::new();
    std::fs::create_dir(program.path("tmp")).unwrap();
    // A shell becomes the program, so its number is known before: a folder of that name belongs to another user.
    let line = r#"mkdir tmp/seaworthy-demo-$$-0 && echo kept > tmp/seaworthy-demo-$$-0/file && exec "$0" up --demo"#;
    let mut command = Command::new("sh");
    program.settle(&mut command);
    command.args(["-c", line, env!("CARGO_BIN_EXE_seaworthy")]).env("TMPDIR", program.path("tmp"));
    let outcome = program::Outcome::of(command.output().unwrap()).expect(0);
    for part in [
        "w1, w2, w3, w4, w5, w6: reboot",
        "every worker now has /etc/motd",
        "cannot write /usr/share/banner: Read-only file system",
        "every worker is updated, w1 first",
        "100 %: 6 of 6 nodes updated",
    ] {
        assert!(outcome.stdout.contains(part), "no {part:?} in:\n{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains('\u{1b}'), "{}", outcome.stdout);
    let left: Vec<_> = std::fs::read_dir(program.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(std::fs::read_to_string(left[0].join("file")).unwrap(), "kept\n");
    assert!(!program.path("seaworthy-data").exists());
}

/// The blocks of the README and of the tutorial that need the machines of `seaworthy up`, each page on a fleet of its own.
#[test]
fn the_tours_of_up_work_as_printed() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["README.md", "docs/tutorial/first-fleet.md"] {
        let page = Page::fenced(&root.join(file), "```console up");
        assert!(page.steps.len() >= 3, "{file}");
        let program = Program::new();
        let up = Up::start(&program, &[]);
        up.must("kubectl wait mcp --all --for=condition=Updated --timeout=120s");
        let answers: Vec<_> = page
            .steps
            .iter()
            .map(|step| {
                let mut command = up.shell(&step.command);
                command.current_dir(&root);
                Answer::of(command, reading)
            })
            .collect();
        let wrong = page.compare(&answers, false);
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        up.stop();
    }
}

/// What is printed, without what differs from run to run: names depend on the cluster's authority.
fn reading(text: &str) -> String {
    let replaced = [(r"(rendered-[a-z]+)-[0-9a-f]{32}", "$1-…"), (r"\b\d{1,2}s {3,4}", "10s   ")];
    replaced.into_iter().fold(text.to_owned(), |text, (pattern, by)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, by).into_owned()
    })
}
