//! Status of a pool.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::machineconfiguration::{MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::Change;
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::membership::PoolSelectors;
use seaworthy_plan::fleet::{NodeView, PoolView, Target};
use seaworthy_plan::rollout;
use seaworthy_plan::status::pool_status;
use seaworthy_plan::status::remark::{Remarks, conflict_message, unsettled};
use serde_json::json;

use crate::rows::targeting::patches;
use crate::rows::worker;
use crate::support;
use crate::support::{NOW, annotate, condition, decide, inputs, node, nodes, pool, status};

/// updated, ready, unavailable, degraded; then Updated, Updating, Degraded.
type Expected = ([i32; 4], &'static str);

fn summary(pool: &MachineConfigPool, nodes: &[Node]) -> ([i32; 4], String) {
    let status = status(pool, nodes);
    let counts = [
        status.updated_machine_count,
        status.ready_machine_count,
        status.unavailable_machine_count,
        status.degraded_machine_count,
    ];
    let text = |type_: &str| {
        let conditions = status.conditions.as_ref().unwrap();
        let found = conditions.iter().find(|found| found.type_.as_deref() == Some(type_)).unwrap();
        found.status.as_deref().unwrap()[..1].to_owned()
    };
    (counts.map(Option::unwrap), ["Updated", "Updating", "Degraded"].map(text).concat())
}

#[rstest]
#[case::row_107(&["0/0R", "0/0R", "0/0R"], ([0, 0, 0, 0], "FTF"))]
#[case::row_108(&["0/1R", "0/0R", "0/0R"], ([0, 0, 1, 0], "FTF"))]
#[case::row_109(&["0/1N Degraded", "0/0R", "0/0R"], ([0, 0, 1, 1], "FTT"))]
#[case::row_110_not_ready(&["1/1N", "0/0R", "0/0R"], ([1, 0, 1, 0], "FTF"))]
#[case::row_110_two_on_their_way(&["1/1R", "0/1R", "0/1R"], ([1, 1, 2, 0], "FTF"))]
#[case::row_110_all(&["1/1R", "1/1R", "1/1R"], ([3, 3, 0, 0], "TFF"))]
fn rows_107_to_110(#[case] texts: &[&str], #[case] (counts, text): Expected) {
    assert_eq!(summary(&worker(json!(1)), &nodes(texts)), (counts, text.to_owned()));
}

#[test]
fn row_108_a_paused_pool_is_not_updating() {
    let pool = pool("worker", "1", json!({"paused": true}));
    assert_eq!(summary(&pool, &nodes(&["0/1R", "0/0R", "0/0R"])), ([0, 0, 1, 0], "FFF".to_owned()));
}

#[test]
fn row_111_states_are_counted_by_what_they_mean() {
    let pool = pool("worker", "0", json!({}));
    let texts = ["0/0R Degraded", "0/0R Done", "0/0R Unreconcilable", "0/1R Working", "0/1R Rebooting"];
    assert_eq!(summary(&pool, &nodes(&texts)).0, [1, 1, 4, 2]);
}

#[test]
fn row_112_a_layered_pool_counts_failed_nodes_as_degraded_and_available() {
    let pool = worker(json!(1));
    let nodes = nodes(&["1/0R Degraded", "1/0R Unreconcilable", "0/0R", "0/0R"]);
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let layered = PoolView { image: Some("image"), ..PoolView::of(&pool) };
    let counts = pool_status::Counts::of(&members, layered.target().unwrap());
    assert_eq!((counts.degraded, counts.unavailable, counts.updated), (2, 0, 0));
}

#[test]
fn row_113_a_node_without_annotations_is_unavailable() {
    let mut node = node("n0", "1/1R");
    node.metadata.annotations = None;
    assert_eq!(summary(&worker(json!(1)), &[node]).0, [0, 0, 1, 0]);
}

#[rstest]
#[case(&[("Ready", "True")], false, true)]
#[case(&[("Ready", "False")], false, false)]
#[case(&[("Ready", "Unknown")], false, false)]
#[case(&[("DiskPressure", "True")], false, false)]
#[case(&[("DiskPressure", "False")], false, true)]
#[case(&[("NetworkUnavailable", "True")], false, false)]
#[case(&[("MemoryPressure", "True")], false, true)]
#[case(&[("Ready", "True")], true, false)]
#[case(&[], false, true)]
fn row_114_conditions_make_a_node_ready(
    #[case] conditions: &[(&str, &str)],
    #[case] is_unschedulable: bool,
    #[case] is_ready: bool,
) {
    let mut node = node("n0", "1/1R");
    node.status.as_mut().unwrap().conditions =
        Some(conditions.iter().map(|(type_, status)| condition(type_, status)).collect());
    node.spec.as_mut().unwrap().unschedulable = Some(is_unschedulable);
    assert_eq!(NodeView::of(&node, None).is_ready(), is_ready);
}

#[test]
fn row_115_a_pool_without_configuration_writes_nothing() {
    let pool = pool("worker", "", json!({}));
    assert_eq!(patches(&pool, &nodes(&["0/0R", "0/1R"])), BTreeMap::new());
    let decided = decide(&pool, &nodes(&["0/0R"]));
    assert!(decided.chosen.is_empty());
    assert_eq!(decided.waiting["n0"], "pool worker has no rendered configuration yet");
    let inputs = pool_status::PoolStatusInputs {
        pool: PoolView::of(&pool),
        nodes: &[],
        remarks: &Default::default(),
        certificates: &[],
        now: NOW,
    };
    assert_eq!(pool_status::status(&inputs), None);
}

/// A condition of a pool with these nodes, and the events about the change.
fn remarked(nodes: &[Node], conflicting: &[String], type_: &str) -> (bool, String, String, Vec<String>) {
    let pool = worker(json!(2));
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let first_boot_pools = FirstBootPools::default();
    let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
    let remarks = Remarks::of(&members, PoolView::of(&pool).target(), &decision.waiting, conflicting);
    let mut status_of = pool_status::PoolStatusInputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        remarks: &remarks,
        certificates: &[],
        now: NOW,
    };
    let status = pool_status::status(&status_of).unwrap();
    let events = pool_status::events(status_of.pool, &status, &remarks);
    let reported = serde_json::to_value(&status).unwrap();
    let found = reported["conditions"].as_array().unwrap().iter().find(|found| found["type"] == type_).unwrap().clone();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    // One that was announced is not announced again.
    let mut after = pool.clone();
    after.status = Some(status.clone());
    status_of.pool = PoolView::of(&after);
    let again = pool_status::events(status_of.pool, &status, &remarks);
    assert!(again.iter().filter_map(Change::event).all(|event| !event.is_warning), "{again:?}");
    let warnings = events.iter().filter_map(Change::event).filter(|event| event.is_warning);
    let warnings = warnings.map(|event| event.message.clone());
    (text("status") == "True", text("reason"), text("message"), warnings.collect())
}

#[test]
fn pools_that_conflict_over_a_node_report_it() {
    let (infra, edge) = (custom("infra"), custom("edge"));
    let pools = PoolSelectors::new([PoolView::of(&infra), PoolView::of(&edge)]);
    let labels = ["infra", "edge"].map(|name| (format!("node-role.kubernetes.io/{name}"), String::new()));
    let membership = pools.of_labels(Some(&labels.into()));
    let conflicting: Vec<String> = conflict_message("w6", &membership).into_iter().collect();
    let (is_degraded, reason, message, events) = remarked(&nodes(&["1/1R"]), &conflicting, "Degraded");
    assert_eq!((is_degraded, reason.as_str()), (true, "NodesInSeveralPools"));
    assert!(message.starts_with("Node w6 is in no pool") && message.contains("edge, infra"), "{message}");
    assert_eq!(events, [message]);
    assert_eq!(remarked(&nodes(&["1/1R"]), &[], "Degraded").3, [""; 0]);
    assert!(!remarked(&nodes(&["1/1R"]), &[], "Degraded").0);
}

fn custom(name: &str) -> MachineConfigPool {
    let selector = json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}});
    pool(name, "1", json!({"nodeSelector": selector}))
}

#[test]
fn node_that_a_user_cordoned_is_why_a_pool_is_still_updating() {
    let mut fleet = nodes(&["1/1R", "1/1R", "0/0R"]);
    assert_eq!(remarked(&fleet[..1], &[], "Updating").2, "");
    for node in &mut fleet[1..] {
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    let (is_updating, _, message, _) = remarked(&fleet, &[], "Updating");
    assert!(is_updating);
    assert_eq!(
        message,
        "All nodes are updating to MachineConfig 1; Node n1: runs the target, and is cordoned by a user or another controller; run \
         `kubectl uncordon n1`; Node n2: cordoned by a user or another controller; `kubectl uncordon` allows its update"
    );
    let views: Vec<NodeView<'_>> = fleet.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let found = unsettled(&members, Target { config: "1", image: None });
    assert_eq!(found.iter().map(|(node, _)| node.name).collect::<Vec<_>>(), ["n1"], "n2 waits, and says why itself");
}

#[test]
fn row_116_certificates_of_the_api_server_are_reported() {
    let certificate = |bundle: &str| -> ControllerCertificate {
        let json = json!({
            "bundleFile": bundle, "signer": "s", "subject": "CN=x",
            "notAfter": "2030-01-01T00:00:00Z", "notBefore": "2020-01-01T00:00:00Z",
        });
        serde_json::from_value(json).unwrap()
    };
    let pool = worker(json!(1));
    let certificates = ["KubeAPIServerServingCAData", "CloudProviderCAData"].map(certificate);
    let inputs = pool_status::PoolStatusInputs {
        pool: PoolView::of(&pool),
        nodes: &[],
        remarks: &Default::default(),
        certificates: &certificates,
        now: NOW,
    };
    let reported = pool_status::status(&inputs).unwrap().cert_expirys.unwrap();
    let reported = serde_json::to_value(reported).unwrap();
    let bundle = "KubeAPIServerServingCAData";
    assert_eq!(reported, json!([{"bundle": bundle, "subject": "CN=x", "expiry": "2030-01-01T00:00:00Z"}]));
}

#[test]
fn pool_reports_failures_however_many_nodes_fail() {
    let pool = worker(json!(1));
    let texts = vec!["0/0R Degraded"; 3000];
    let mut nodes = nodes(&texts);
    let reason = "the disk is full; ".repeat(30);
    for node in &mut nodes {
        annotate(node, annotation::REASON, &reason);
    }
    let reported: MachineConfigNode = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": "n"},
        "spec": {"configVersion": {"desired": "0"}, "node": {"name": "n"}, "pool": {"name": "worker"}},
    }))
    .unwrap();
    let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, Some(&reported))).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let inputs = pool_status::PoolStatusInputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        remarks: &Default::default(),
        certificates: &[],
        now: NOW,
    };
    let status = serde_json::to_string(&pool_status::status(&inputs).unwrap()).unwrap();
    assert!(status.len() < 100_000, "{}", status.len());
    assert!(status.contains("Node n0 is reporting") && status.contains(" more"), "{status}");
}

#[test]
fn pool_whose_selector_cannot_be_read_names_the_expression() {
    let selector =
        json!({"nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}});
    for target in ["1", ""] {
        let pool = pool("infra", target, selector.clone());
        let status = status(&pool, &[]);
        let text = |type_: &str| {
            let found = status.conditions.iter().flatten().find(|found| found.type_.as_deref() == Some(type_)).unwrap();
            let text = |text: &Option<String>| text.clone().unwrap();
            (text(&found.status), text(&found.reason), text(&found.message))
        };
        let message = "spec.nodeSelector cannot be read, so the pool has no nodes: label selector, key \"zone\": \
            operator \"Near\"; expected one of In, NotIn, Exists, DoesNotExist";
        for (type_, is) in [("Updated", "False"), ("Degraded", "True")] {
            assert_eq!(text(type_), (is.to_owned(), "InvalidNodeSelector".to_owned(), message.to_owned()));
        }
        assert_eq!(text("Updating").0, "False");
        assert_eq!(status.configuration, None, "nothing was reached");
    }
    let sound = pool("infra", "1", json!({}));
    assert!(support::status(&sound, &[]).configuration.is_some());
}
