//! The step that holds the recorded conversations with a real kube-apiserver, and runs kubectl's pages on it: what
//! passes here is what ours must do.

use anyhow::Result;

use crate::kube::binaries::{Binaries, CONTROLLER_MANAGER, Policy};
use crate::kube::control_plane::ControlPlane;
use crate::step::{Outcome, Run};
use crate::suite::cargo_test;

/// Runs every conversation; those that a release answers differently from the recording are listed, with reasons, in
/// `tests/kubernetes/known-differences.txt`.
pub fn step(run: &mut Run<'_>) -> Result<Outcome> {
    let policy = if run.tools.may_install() { Policy::Build } else { Policy::Find };
    let binaries = match Binaries::provide(run.workspace, policy)? {
        Ok(binaries) => binaries,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    print!("{}", binaries.report()?);
    let known = run.workspace.root.join("tests").join("kubernetes").join("known-differences.txt");
    let mut running = ControlPlane::start(&binaries, None)?;
    let mut command = run.workspace.cargo(&["test", "--package", "seaworthy-apiserver", "--test", "replay"]);
    command.args(["scenarios_on_a_server", "--", "--nocapture"]);
    command.env("SEAWORTHY_REPLAY_SERVER", &running.url).env("SEAWORTHY_REPLAY_TOKEN", &running.token);
    command.env("SEAWORTHY_REPLAY_CA", &running.authority).env("SEAWORTHY_REPLAY_KNOWN", known);
    if !running.has_controllers {
        run.skips.add(CONTROLLER_MANAGER, "not among the programs: conversations that need it are left out");
        command.env("SEAWORTHY_REPLAY_NO_CONTROLLERS", "1");
    }
    let mut outcome = cargo_test(run, command)?;
    // Some pages wait for the garbage collector.
    if running.has_controllers && matches!(outcome, Outcome::Passed) {
        let mut command = run.workspace.cargo(&["test", "--package", "seaworthy", "--test", "kubectl"]);
        command.env("KUBECONFIG_UNDER_TEST", &running.kubeconfig).env("KUBECTL", &binaries.kubectl);
        outcome = cargo_test(run, command)?;
    }
    running.check()?;
    running.stop()?;
    Ok(outcome)
}
