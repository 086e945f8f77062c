//! Test cluster: the embedded server, the controllers, and nodes without daemons.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::program::{Outcome, Program};

/// A server with controllers, each a process of its own.
pub struct Fleet {
    pub program: Program,
    server: Child,
    /// Where it listens.
    address: String,
    controllers: Option<Child>,
}

pub fn has_kubectl() -> bool {
    std::path::Path::new("/usr/bin/kubectl").exists() || std::path::Path::new("/bin/kubectl").exists()
}

fn first_line(process: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

impl Fleet {
    /// A server whose administrator's kubeconfig is in the home, where commands look for one.
    pub fn server() -> Fleet {
        let program = Program::new();
        std::fs::create_dir(program.path(".kube")).unwrap();
        let mut command = program.command(["apiserver", "--data", "data", "--listen", "127.0.0.1:0"]);
        command.args(["--kubeconfig-out", ".kube/config"]);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line = first_line(&mut server);
        let address = line.trim_end().strip_prefix("https://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Fleet { program, server, address, controllers: None }
    }

    /// Ends the server, as a power cut would.
    pub fn end_server(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Starts the server again with its data, at the same address.
    pub fn start_server_again(&mut self) {
        let mut command = self.program.command(["apiserver", "--data", "data", "--listen", &self.address]);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(first_line(&mut server).trim_end(), format!("https://{}", self.address));
        self.server = server;
    }

    /// A server with the controllers at work.
    pub fn start() -> Fleet {
        let mut fleet = Fleet::server();
        fleet.start_controllers(&["--install"], "controllers running");
        fleet
    }

    /// Starts the controllers, and gives the first line of their log that contains this.
    pub fn start_controllers(&mut self, options: &[&str], part: &str) -> String {
        let mut command = self.program.command(["controllers", "--no-leader-election"]);
        let mut controllers = command.args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(controllers.stderr.take().unwrap()).lines().map_while(Result::ok);
        self.controllers = Some(controllers);
        let line = log.find(|line| line.contains(part));
        // What it logs later must go somewhere.
        std::thread::spawn(move || log.for_each(drop));
        line.unwrap_or_else(|| panic!("the controllers ended without {part:?} in their log"))
    }

    /// The fleet that pages begin with: the worker pool of the source document's example, and three nodes that run what it
    /// targets and stay where they are, so that a roll-out can be looked at.
    pub fn begin(&self) {
        let given = crate::program::given("live/given");
        self.must(&format!(
            "kubectl create -f {}",
            given.join("../../../../../examples/controller-config.yaml").display()
        ));
        self.must("kubectl wait mcp/worker --for=create --timeout=60s");
        self.must("kubectl wait mcp/worker --for=jsonpath='{.spec.configuration.name}' --timeout=60s");
        for node in ["w1", "w2", "w3"] {
            self.must(&format!(
                "config=$(kubectl get mcp worker -o jsonpath='{{.spec.configuration.name}}') && \
                 sed \"s/NODE/{node}/; s/CONFIG/$config/\" {} | kubectl create -f -",
                given.join("node.yaml").display()
            ));
        }
        self.must("kubectl wait mcp/worker --for=condition=Updated --timeout=60s");
        self.must("kubectl wait mcp/worker --for=jsonpath='{.status.machineCount}'=3 --timeout=60s");
    }

    /// A line for the shell, with the program and kubectl at hand.
    pub fn shell(&self, line: &str) -> Command {
        let bin = self.program.path("bin");
        if !bin.exists() {
            std::fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_seaworthy"), bin.join("seaworthy")).unwrap();
        }
        let mut command = Command::new("timeout");
        self.program.settle(&mut command);
        command.args(["--kill-after=1", "90", "bash", "-c", line]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("LC_ALL", "C.UTF-8");
        command
    }

    pub fn must(&self, line: &str) -> String {
        let output = self.shell(line).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn run(&self, words: &[&str]) -> Outcome {
        self.program.run(words)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in self.controllers.iter_mut().chain([&mut self.server]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
