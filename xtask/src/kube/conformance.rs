//! Conformance steps: the same suites on our server and on the real one. The real one is the reference, so every difference is
//! a failure.
//!
//! | suite | ours | the real one |
//! |---|---|---|
//! | recorded conversations | [`ours`], over TLS; also in the process, with cargo's tests | [`real`] |
//! | kubectl's pages | with cargo's tests, if [`real`] provided a kubectl | [`real`] |
//! | [`SUITES`], on a cluster of the test kit | with cargo's tests | [`real`] |
//! | the controller in `tests/kubernetes/boatman` | [`real`], beside the other | [`real`] |

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail};

use crate::bench::binary;
use crate::kube::binaries::{Binaries, CONTROLLER_MANAGER, Policy};
use crate::kube::build::{self, BOATMAN};
use crate::kube::control_plane::{ControlPlane, Folder};
use crate::kube::embedded::Embedded;
use crate::step::{Outcome, Run};
use crate::suite::cargo_test;
use crate::workspace::shown;

/// Test binaries that start their clusters with `Cluster::start` of the test kit and must hold on both servers.
const SUITES: [&str; 8] = ["cluster", "controller", "operators", "plane", "endpoint", "orders", "fleet", "machinepool"];
/// Those of them that can do without the controllers of Kubernetes.
const BARE_SUITES: [&str; 4] = ["controller", "endpoint", "operators", "orders"];

/// Variables that name the server which the test kit starts, and this program.
const CLUSTER: &str = "SEAWORTHY_CLUSTER";
const XTASK: &str = "SEAWORTHY_XTASK";

/// A server that conversations are held with.
struct ReplayServer<'a> {
    url: &'a str,
    token: &'a str,
    authority: &'a Path,
    has_controllers: bool,
    /// What it may answer differently.
    known: Option<PathBuf>,
}

/// The recorded conversations with `seaworthy apiserver`: the program, TLS, a file of tokens, all controllers.
pub fn ours(run: &mut Run<'_>) -> Result<Outcome> {
    let folder = Folder::make(None)?;
    let mut server = Embedded::start(&binary::tested(run.workspace)?, &folder.path)?;
    let (url, token) = (server.url.clone(), server.token.clone());
    let authority = server.authority.clone();
    let replay = ReplayServer { url: &url, token: &token, authority: &authority, has_controllers: true, known: None };
    let outcome = converse(run, &replay)?;
    server.check()?;
    server.stop()?;
    Ok(outcome)
}

/// All of it on the real control plane. Every suite runs, even if an earlier one failed.
pub fn real(run: &mut Run<'_>) -> Result<Outcome> {
    let policy = if run.tools.may_install() { Policy::Build } else { Policy::Find };
    let binaries = match Binaries::provide(run.workspace, policy)? {
        Ok(binaries) => binaries,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    print!("{}", binaries.report()?);
    if let Some(reason) = binaries.of_another_release(&build::version(run.workspace)?)? {
        return Ok(Outcome::Skipped(reason));
    }
    let mut running = ControlPlane::start(&binaries, None)?;
    let known = run.workspace.root.join("tests").join("kubernetes").join("known-differences.txt");
    let (url, token, authority) = (running.url.clone(), running.token.clone(), running.authority.clone());
    let has_controllers = running.has_controllers;
    if !has_controllers {
        run.skips.add(CONTROLLER_MANAGER, "not among the programs: what needs it is left out on the real server");
    }
    let replay = ReplayServer { url: &url, token: &token, authority: &authority, has_controllers, known: Some(known) };
    let mut outcomes = vec![("conversations", converse(run, &replay)?)];
    if has_controllers {
        outcomes.push(("kubectl", pages(run, &running.kubeconfig, &binaries.kubectl)?));
        outcomes.push((BOATMAN, boatman(run, policy, &running.kubeconfig)?));
    }
    running.check()?;
    running.stop()?;
    outcomes.push(("suites", suites(run, if has_controllers { &SUITES } else { &BARE_SUITES })?));
    Ok(sum(run, outcomes))
}

/// Holds the recorded conversations.
fn converse(run: &mut Run<'_>, replay: &ReplayServer<'_>) -> Result<Outcome> {
    let mut command = test(run, &["replay"]);
    command.args(["scenarios_on_a_server", "--", "--nocapture"]);
    command.env("SEAWORTHY_REPLAY_SERVER", replay.url).env("SEAWORTHY_REPLAY_TOKEN", replay.token);
    command.env("SEAWORTHY_REPLAY_CA", replay.authority);
    if let Some(known) = &replay.known {
        command.env("SEAWORTHY_REPLAY_KNOWN", known);
    }
    if !replay.has_controllers {
        command.env("SEAWORTHY_REPLAY_NO_CONTROLLERS", "1");
    }
    cargo_test(run, command)
}

fn pages(run: &mut Run<'_>, kubeconfig: &Path, kubectl: &Path) -> Result<Outcome> {
    let mut command = test(run, &["kubectl"]);
    command.env("KUBECONFIG_UNDER_TEST", kubeconfig).env("KUBECTL", kubectl);
    cargo_test(run, command)
}

/// Each test starts a control plane of its own, by calling this program.
fn suites(run: &mut Run<'_>, names: &[&str]) -> Result<Outcome> {
    let mut command = test(run, names);
    // Each takes 400 MB.
    command.args(["--", "--test-threads", "2"]);
    command.env(CLUSTER, "kubernetes").env(XTASK, std::env::current_exe()?);
    cargo_test(run, command)
}

/// Our controller on both servers, in both languages of client-go: four runs that must print the same.
fn boatman(run: &mut Run<'_>, policy: Policy, kubeconfig: &Path) -> Result<Outcome> {
    let program = match build::boatman(run.workspace, policy)? {
        Ok(program) => program,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let folder = Folder::make(None)?;
    let mut server = Embedded::start(&binary::tested(run.workspace)?, &folder.path)?;
    let mut outputs = Vec::new();
    for language in ["json", "protobuf"] {
        let on = |kubeconfig: &Path| output_of(&program, kubeconfig, language);
        let (ours, real) = thread::scope(|scope| {
            let ours = scope.spawn(|| on(&server.kubeconfig));
            let real = on(kubeconfig);
            (ours.join(), real)
        });
        let Ok(ours) = ours else { bail!("{BOATMAN} on our server: the thread that waits for it panicked") };
        outputs.push((format!("ours, {language}"), ours?));
        outputs.push((format!("real, {language}"), real?));
    }
    server.check()?;
    server.stop()?;
    Ok(compare(&outputs))
}

/// The controller's output.
fn output_of(program: &Path, kubeconfig: &Path, language: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--language").arg(language);
    let output =
        command.stderr(Stdio::piped()).output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        text.push_str(&format!("ended with {}\n", output.status));
    }
    Ok(text)
}

/// Passed if all runs finished with the same output; prints it.
fn compare(outputs: &[(String, String)]) -> Outcome {
    let Some((_, reference)) = outputs.iter().find(|(name, _)| name.starts_with("real")) else {
        return Outcome::Failed(format!("{BOATMAN} did not run on the real server"));
    };
    print!("{reference}");
    let mut wrong = Vec::new();
    for (name, output) in outputs {
        if !output.lines().last().is_some_and(|line| line.starts_with("end: ")) {
            println!("{BOATMAN} ({name}) did not finish:\n{output}");
            wrong.push(format!("{name} did not finish"));
        } else if output != reference {
            println!("{BOATMAN} ({name}) printed something else:\n{output}");
            wrong.push(format!("{name} differs"));
        }
    }
    println!("{BOATMAN}: {} runs, {} wrong", outputs.len(), wrong.len());
    if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong.join(", ")) }
}

/// One outcome of all, with the name of what failed; what was skipped is listed.
fn sum(run: &mut Run<'_>, outcomes: Vec<(&str, Outcome)>) -> Outcome {
    let mut failed = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed(what) => failed.push(format!("{name}: {what}")),
            Outcome::Skipped(reason) => run.skips.add(name, &reason),
        }
    }
    if failed.is_empty() { Outcome::Passed } else { Outcome::Failed(failed.join("; ")) }
}

/// Cargo's call for test binaries with these names. Of the whole workspace: for one package alone cargo would choose
/// other features, and compile everything again.
fn test(run: &Run<'_>, names: &[&str]) -> Command {
    let mut command = run.workspace.cargo(&["test", "--workspace"]);
    for name in names {
        command.args(["--test", name]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::step::Outcome;

    fn outcome(outputs: &[(&str, &str)]) -> Outcome {
        let outputs: Vec<_> = outputs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        compare(&outputs)
    }

    #[test]
    fn same_story_to_the_end_passes() {
        assert_eq!(outcome(&[("ours", "a\nend: x\n"), ("real", "a\nend: x\n")]), Outcome::Passed);
    }

    #[test]
    fn another_story_and_half_a_story_fail() {
        let failed = |ours, real| matches!(outcome(&[("ours", ours), ("real", real)]), Outcome::Failed(_));
        assert!(failed("b\nend: x\n", "a\nend: x\n"));
        assert!(failed("a\n", "a\n"));
        assert!(failed("", ""));
    }

    #[test]
    fn nothing_to_compare_with_fails() {
        assert!(matches!(outcome(&[("ours", "end: x\n")]), Outcome::Failed(_)));
    }
}
