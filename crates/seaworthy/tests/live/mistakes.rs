//! User mistakes: each error names the cause and the next step.

use crate::live::fleet::{Fleet, has_kubectl};
use crate::program::Program;

#[test]
fn without_a_kubeconfig_the_option_is_named() {
    for words in [&["rollout", "status", "worker"][..], &["controllers"]] {
        Program::new().run(words).expect(2).says(&["no kubeconfig found", "--kubeconfig FILE", "KUBECONFIG"]);
    }
    let missing = ["rollout", "history", "worker", "--kubeconfig", "nowhere"];
    Program::new().run(missing).expect(2).says(&["--kubeconfig nowhere cannot be read"]);
}

#[test]
fn misspelt_controller_is_answered_with_all_names() {
    let outcome = Program::new().run(["controllers", "--only", "rendr"]).expect(2);
    outcome.says(&[
        "--only rendr: no operator or controller has that name",
        "machineconfig, machinepool, base, kubelet, container-runtime, render, rollout, garbage",
    ]);
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: home, context: {{cluster: c, user: u}}}}]\ncurrent-context: home\n"
    )
}

#[test]
fn server_that_cannot_be_reached_is_reported_as_unreachable() {
    let program = Program::new();
    // Nothing listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    program.file("config", kubeconfig(&format!("https://127.0.0.1:{port}")));
    let outcome = program.run(["rollout", "status", "worker", "--kubeconfig", "config"]).expect(2);
    outcome.says(&["cannot list machineconfigpools", "cannot be reached", "refused", "kubectl config view --minify"]);
}

#[test]
fn context_that_is_not_there_is_answered_with_those_that_are() {
    let program = Program::new();
    program.file("config", kubeconfig("https://127.0.0.1:1"));
    let words = ["rollout", "pause", "worker", "--kubeconfig", "config", "--context", "hoem"];
    program.run(words).expect(2).says(&["no context \"hoem\"", "its contexts are: home"]);
}

#[test]
fn missing_definitions_are_named_with_the_command_that_installs_them() {
    let mut fleet = Fleet::server();
    let line = fleet.start_controllers(&[], "operator is off");
    for part in ["machineconfiguration.openshift.io not found", "seaworthy crds | kubectl apply", "--install"] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    fleet.run(&["rollout", "status", "worker"]).expect(2).says(&["cannot list machineconfigpools", "seaworthy crds"]);
}

#[test]
fn wrong_pool_and_missing_rights_are_reported() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.run(&["rollout", "status", "wroker"]).expect(2).says(&["pool \"wroker\" not found"]);
    fleet.must("kubectl apply -f - <<< '{\"apiVersion\": \"machineconfiguration.openshift.io/v1\", \"kind\": \"MachineConfigPool\", \
                \"metadata\": {\"name\": \"worker\"}, \"spec\": {}}'");
    fleet
        .run(&["rollout", "status", "wroker"])
        .expect(2)
        .says(&["available pools: worker", "did you mean \"worker\"?"]);
    fleet.must(
        "kubectl create serviceaccount unprivileged && \
                kubectl config set-credentials unprivileged --token=$(kubectl create token unprivileged) && \
                kubectl config set-context unprivileged --cluster=seaworthy --user=unprivileged",
    );
    let outcome = fleet.run(&["rollout", "pause", "worker", "--context", "unprivileged"]).expect(2);
    outcome.says(&["cannot list machineconfigpools", "forbidden", "ask for a role"]);
}
