//! Plans against a cluster, compared with what kubectl then causes.

use serde_json::{Value, json};

use crate::live::fleet::{Fleet, has_kubectl};
use crate::program::given;

fn pool(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn custom_pool(name: &str, roles: &[&str]) -> Value {
    pool(
        name,
        &json!({
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles},
            ]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        }),
    )
}

fn node(name: &str, role: &str) -> Value {
    let labels = json!({format!("node-role.kubernetes.io/{role}"): ""});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

/// What a plan prints, for people and for programs.
fn planned(fleet: &Fleet, manifest: &Value, more: &[&str], code: i32) -> (String, Value) {
    fleet.program.file("planned.json", manifest.to_string());
    let words: Vec<&str> = ["plan", "-f", "planned.json"].into_iter().chain(more.iter().copied()).collect();
    let text = fleet.run(&words).expect(code).stdout;
    let json = fleet.run(&[&words[..], &["-o", "json"]].concat()).expect(code).json();
    (text, json)
}

fn apply(fleet: &Fleet, manifest: &Value, how: &str) {
    fleet.program.file("applied.json", manifest.to_string());
    fleet.must(&format!("kubectl apply {how} -f applied.json"));
}

fn in_pool<'j>(plan: &'j Value, name: &str) -> &'j Value {
    plan["pools"].as_array().unwrap().iter().find(|pool| pool["pool"] == name).unwrap()
}

#[test]
fn manifest_of_a_part_is_planned_as_kubectl_applies_it() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.begin();
    for how in ["", "--server-side --force-conflicts"] {
        // The selector was written by the controllers, and stays.
        let both = pool("worker", &json!({"maxUnavailable": 2, "paused": true}));
        let budget = pool("worker", &json!({"maxUnavailable": 2}));
        let (text, _) = planned(&fleet, &budget, &[], 0);
        assert!(text.contains("pool worker: no change"), "{text}");
        apply(&fleet, &both, how);
        // What was applied and is left out goes.
        let (_, json) = planned(&fleet, &budget, &[], 0);
        let worker = in_pool(&json, "worker");
        assert_eq!((&worker["maxUnavailable"], &worker["paused"]), (&json!(2), &json!(false)), "{how}");
        apply(&fleet, &budget, how);
        let spec: Value = serde_json::from_str(&fleet.must("kubectl get mcp worker -o json")).unwrap();
        assert_eq!(spec["spec"].get("paused"), None, "{how}");
        assert!(spec["spec"]["machineConfigSelector"].is_object(), "{how}");
    }
}

#[test]
fn what_is_wrong_in_the_cluster_beside_the_manifests_is_no_news() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.begin();
    let infra = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "60-infra", "labels": {"machineconfiguration.openshift.io/role": "infra"}},
        "spec": {"kernelArguments": ["quiet"]},
    });
    let (text, _) = planned(&fleet, &infra, &[], 1);
    assert!(text.contains("warning[not-selected]: planned.json:1:"), "{text}");
    apply(&fleet, &infra, "");
    let unrelated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for manifest in [unrelated, pool("worker", &json!({"maxUnavailable": 2}))] {
        let (text, json) = planned(&fleet, &manifest, &[], 0);
        assert!(!text.contains("60-infra"), "{text}");
        assert_eq!(json["findings"], json!([]));
    }
    fleet.program.file("empty.yaml", "# nothing\n");
    fleet.run(&["plan", "-f", "empty.yaml"]).expect(2).says(&["note: no objects in empty.yaml\n", "nothing to plan"]);
}

#[test]
fn field_that_kubectl_refuses_is_an_error_although_nothing_changes() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.begin();
    let misspelt = pool("worker", &json!({"maxUnavailabel": 2}));
    let (text, json) = planned(&fleet, &misspelt, &[], 1);
    assert!(text.contains("error[unknown-field]: planned.json:1:"), "{text}");
    assert!(text.contains("pool worker: no change"), "{text}");
    assert_eq!(
        (&json["manifests"][0]["code"], &json["manifests"][0]["severity"]),
        (&json!("unknown-field"), &json!("error"))
    );
    fleet.program.file("applied.json", misspelt.to_string());
    let refused = fleet.must("! kubectl apply -f applied.json 2>&1");
    assert!(refused.contains("maxUnavailabel"), "{refused}");
}

#[test]
fn node_that_changes_its_pool_does_so_because_of_the_manifest() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.begin();
    fleet.must("kubectl create -f - <<< '{\"apiVersion\": \"machineconfiguration.openshift.io/v1\", \"kind\": \"MachineConfig\", \
                \"metadata\": {\"name\": \"60-infra\", \"labels\": {\"machineconfiguration.openshift.io/role\": \"infra\"}}, \
                \"spec\": {\"kernelArguments\": [\"quiet\"]}}'");
    apply(&fleet, &custom_pool("infra", &["worker", "infra"]), "");
    fleet.must("kubectl wait mcp/infra --for=jsonpath='{.spec.configuration.name}' --timeout=60s");
    let (text, json) = planned(&fleet, &node("w2", "infra"), &[], 1);
    assert!(text.contains("because of these manifests:\nw2 comes from pool worker\nw2: reboot\n"), "{text}");
    assert!(!text.contains("already pending"), "{text}");
    let w2 = &in_pool(&json, "infra")["nodes"][0];
    assert_eq!((&w2["node"], &w2["byManifests"], &w2["poolBefore"]), (&json!("w2"), &json!(true), &json!("worker")));

    // Once that is so, it is nothing new.
    apply(&fleet, &node("w2", "infra"), "--server-side --force-conflicts");
    fleet.must("kubectl wait mcp/infra --for=jsonpath='{.status.machineCount}'=1 --timeout=60s");
    let (text, json) = planned(&fleet, &node("w2", "infra"), &[], 0);
    assert!(text.contains("already pending, not because of these manifests:\n"), "{text}");
    assert!(!text.contains("\nbecause of these manifests"), "{text}");
    assert_eq!(in_pool(&json, "infra")["nodes"][0]["byManifests"], json!(false));

    // The pool that is taken away gives its node back. It runs what that pool has, and is not moved.
    // What it alone selected is left without a pool, and the manifests are the cause.
    let (text, json) = planned(&fleet, &custom_pool("infra", &[]), &["--delete"], 1);
    assert!(!text.contains("because of these manifests"), "{text}");
    assert!(text.contains("warning[not-selected]: MachineConfig 60-infra"), "{text}");
    assert_eq!(in_pool(&json, "worker")["nodes"][1]["byManifests"], json!(false));
    fleet.must(
        "config=$(kubectl get mcp infra -o jsonpath='{.spec.configuration.name}') && for key in current desired; do \
         kubectl annotate --overwrite node w2 machineconfiguration.openshift.io/${key}Config=$config; done",
    );
    let (text, json) = planned(&fleet, &custom_pool("infra", &[]), &["--delete"], 1);
    assert!(text.contains("because of these manifests:\nw2 comes from pool infra\nw2: reboot\n"), "{text}");
    assert_eq!(in_pool(&json, "worker")["nodes"][1]["byManifests"], json!(true));

    // Two pools that want it leave it alone, and that is news.
    fleet.program.file("edge.json", custom_pool("edge", &["worker"]).to_string());
    let mut wanted = node("w2", "edge");
    wanted["metadata"]["labels"]["node-role.kubernetes.io/infra"] = json!("");
    let (text, json) = planned(&fleet, &wanted, &["-f", "edge.json"], 1);
    assert!(
        text.contains("because of these manifests: w2 leaves pool infra; the running configuration stays\n"),
        "{text}"
    );
    assert_eq!(json["withoutPool"][0]["poolBefore"], "infra");
}

#[test]
fn error_about_a_pool_without_machine_configs_names_what_there_is() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::start();
    fleet.begin();
    let gpu = custom_pool("gpu", &["gpu"]);
    fleet.program.file("node.json", node("w2", "gpu").to_string());
    let (text, json) = planned(&fleet, &gpu, &["-f", "node.json"], 1);
    let count = fleet.must("kubectl get mc -o name | grep -vc /rendered-");
    let truth = format!("there are {} MachineConfigs, and none of them matches: ", count.trim());
    let reported = "pool gpu gets no configuration (NoMachineConfigs): ";
    assert!(text.contains(&truth) && text.contains(reported), "{text}");
    assert!(text.contains("its nodes are not updated until it has one: w2\n"), "{text}");
    assert!(!text.contains("reboot") && !text.contains("already pending"), "{text}");
    assert_eq!(in_pool(&json, "gpu")["nodes"][0]["byManifests"], json!(false));

    // The controllers say the same, and keep to it when the number changes.
    apply(&fleet, &gpu, "");
    let wait_for = |of: &str| fleet.must(&format!("grep -m1 '{of}' < <(kubectl get mcp gpu -w -o json 2> /dev/null)"));
    wait_for(&truth);
    fleet.must(&format!("kubectl create -f {}", given("live/given").join("50-motd.yaml").display()));
    let more = count.trim().parse::<usize>().unwrap() + 1;
    wait_for(&format!("there are {more} MachineConfigs, and none of them matches: "));
}
