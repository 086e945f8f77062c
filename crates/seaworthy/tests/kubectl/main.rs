//! kubectl sessions against the embedded server: the pages in `pages`, one for each topic.
//!
//! - The answers are those of the real kube-apiserver. `KUBECONFIG_UNDER_TEST=FILE` runs the pages on the server that
//!   the file leads to; `cargo xtask test` does that, where it has the real server. With `TRANSCRIPTS=overwrite` as well, what that
//!   server answers is written into the pages. Never record from our own server.
//! - Each page has a namespace of its own, named after it, and all run at once: what a page makes outside of its
//!   namespace carries the page's name, and is gone at its end.
//! - kubectl is the program that `KUBECTL` names, or that of `cargo xtask kube`, or the installed one. Releases differ
//!   in their wording here and there; the pages keep to what 1.32 and 1.37 agree on.
//! - `KUBECTL_ONLY=drain` runs one page.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

#[path = "../transcripts/page.rs"]
mod page;

mod reading;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use page::{Answer, Page, is_recording};
use server::Server;
use tempfile::TempDir;

/// How long a command of a page may take, in seconds. It is never reached unless something is wrong.
const COMMAND_TIMEOUT_SECONDS: &str = "60";

#[test]
fn kubectl_prints_what_the_pages_say() {
    let Some(kubectl) = kubectl() else {
        return seaworthy_trial::skip("kubectl", "not found: set KUBECTL, install it, or run `cargo xtask kube`");
    };
    let folder = folder().join("pages");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    if let Some(only) = std::env::var_os("KUBECTL_ONLY") {
        files.retain(|file| file.file_stem() == Some(&only));
    }
    assert!(!files.is_empty());
    let server = Server::under_test();
    let kubeconfig = server.kubeconfig();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let pages: Vec<_> = files
            .iter()
            .map(|file| {
                let desk = Desk::new(file, &kubectl, &kubeconfig);
                scope.spawn(move || desk.differences())
            })
            .collect();
        pages.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What the embedded server promises to kubectl.
const PROMISED: [&str; 17] = [
    "kubectl apply",
    "kubectl explain",
    "kubectl diff",
    "kubectl wait",
    "kubectl edit",
    "kubectl get .*-o wide",
    "kubectl get .*-w",
    "kubectl patch",
    "kubectl label",
    "kubectl annotate",
    "kubectl taint",
    "kubectl cordon",
    "kubectl drain",
    "kubectl scale",
    "kubectl (--context=\\S+ )?auth can-i",
    "kubectl create token",
    "kubectl api-resources",
];

#[test]
fn every_promised_verb_is_on_a_page() {
    let pages = fs::read_dir(folder().join("pages")).unwrap().map(|entry| Page::read(&entry.unwrap().path()));
    let commands: Vec<String> = pages.flat_map(|page| page.steps).map(|step| step.command).collect();
    for verb in PROMISED {
        let verb = regex::Regex::new(verb).unwrap();
        assert!(commands.iter().any(|command| verb.is_match(command)), "no page shows {verb}");
    }
}

/// Where the commands of one page run.
struct Desk {
    page: Page,
    /// The namespace.
    name: String,
    home: TempDir,
    kubectl: PathBuf,
}

impl Desk {
    fn new(file: &Path, kubectl: &Path, kubeconfig: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::copy(kubeconfig, home.path().join("kubeconfig")).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        Desk { page: Page::read(file), name, home, kubectl: kubectl.to_owned() }
    }

    /// Runs the page, and compares.
    fn differences(&self) -> Vec<String> {
        self.must(&format!("kubectl create namespace {}", self.name));
        self.must(&format!("kubectl config set-context --current --namespace {}", self.name));
        let answers: Vec<_> =
            self.page.steps.iter().map(|step| Answer::of(self.command(&step.command), reading::of)).collect();
        self.must(&format!("kubectl delete namespace {} --wait=false", self.name));
        assert!(!is_recording() || Server::is_given(), "record from the real server: set KUBECONFIG_UNDER_TEST");
        self.page.compare(&answers, true)
    }

    /// A line for the shell, with kubectl at hand and nothing of the caller's environment.
    fn command(&self, line: &str) -> Command {
        let bin = self.home.path().join("bin");
        if !bin.exists() {
            fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(&self.kubectl, bin.join("kubectl")).unwrap();
        }
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", COMMAND_TIMEOUT_SECONDS, "bash", "-c", line]);
        command.env_clear().env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.env("KUBECONFIG", self.home.path().join("kubeconfig")).env("LC_ALL", "C.UTF-8");
        command.env("BASH_ENV", folder().join("functions.sh"));
        command.current_dir(folder().join("given")).stdin(Stdio::null());
        command
    }

    /// Something that the page does not show and cannot do without.
    fn must(&self, line: &str) {
        let output = self.command(line).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

/// The program, if there is one.
fn kubectl() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("KUBECTL") {
        return Some(path.into());
    }
    // The test's binary is in `<target>/<profile>/deps`.
    let this = std::env::current_exe().unwrap();
    let ours = this.ancestors().nth(3).unwrap().join("kube/kubectl");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    std::iter::once(ours).chain(installed).find(|candidate| candidate.is_file())
}
