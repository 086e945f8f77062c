//! Nodes that booted for a custom pool.

use std::collections::BTreeMap;

use rstest::rstest;
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_change::{Action, Change};
use seaworthy_plan::fleet::first_boot::FirstBootPools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rollout;
use seaworthy_plan::rollout::targeting;
use serde_json::{Value, json};

use crate::rows::worker;
use crate::support::{NOW, annotate, inputs, node, nodes, owned};

#[rstest]
#[case(json!({"matchLabels": {"k": "v"}}), &[("k", "v")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}), &[("k", "v")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}), &[])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]}), &[("k", "")])]
#[case(json!({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}]}), &[])]
#[case(
    json!({"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}),
    &[("k", "v")]
)]
fn row_117_the_labels_come_from_the_selector(#[case] selector: Value, #[case] labels: &[(&str, &str)]) {
    let selector: LabelSelector = serde_json::from_value(selector).unwrap();
    let first_boot_pools = FirstBootPools {
        owners: BTreeMap::from([("rendered-infra-1", "infra")]),
        selectors: BTreeMap::from([("infra", Some(&selector)), ("none", None)]),
    };
    let expected: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(first_boot_pools.labels("infra"), Ok(expected.clone()));
    assert_eq!(first_boot_pools.labels("none"), Ok(BTreeMap::new()));
    assert!(first_boot_pools.labels("other").unwrap_err().to_string().starts_with("MachineConfigPool other not found"));
    // The annotation is there only when labels were applied.
    let mut node = node("n0", "0/0R");
    annotate(&mut node, annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    assert_eq!(
        first_boot_pools.missing_labels(&NodeView::of(&node, None)).map(|missing_labels| missing_labels.labels),
        Some(expected).filter(|labels| !labels.is_empty())
    );
}

#[test]
fn row_118_a_node_that_booted_for_a_custom_pool_is_labelled_before_anything_else() {
    let pool = worker(json!(3));
    let mut fleet = nodes(&["0/0R", "0/0R", "0/0R"]);
    annotate(&mut fleet[0], annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    annotate(&mut fleet[1], annotation::FIRST_PIVOT_CONFIG, "rendered-infra-1");
    annotate(&mut fleet[1], annotation::CUSTOM_POOL_LABELS_APPLIED, "");
    annotate(&mut fleet[2], annotation::FIRST_PIVOT_CONFIG, "rendered-worker-1");
    let selector: LabelSelector = serde_json::from_value(json!({"matchLabels": {"infra": "yes"}})).unwrap();
    let first_boot_pools = FirstBootPools {
        owners: BTreeMap::from([("rendered-infra-1", "infra"), ("rendered-worker-1", "worker")]),
        selectors: BTreeMap::from([("infra", Some(&selector)), ("worker", Some(&selector))]),
    };
    let views: Vec<NodeView<'_>> = fleet.iter().map(|node| NodeView::of(node, None)).collect();
    let members: Vec<&NodeView<'_>> = views.iter().collect();
    let decision = rollout::decide(&inputs(&pool, &members, &first_boot_pools));
    let decided = owned(&decision);
    assert_eq!(decided.chosen, ["n1", "n2"]);
    assert_eq!(decided.waiting["n0"], "booted for pool infra; the labels of the pool are applied first");
    let changes = targeting::changes(&targeting::TargetingInputs {
        pool: PoolView::of(&pool),
        nodes: &members,
        decision: &decision,
        topology: None,
        now: NOW,
    });
    let labelled = changes.iter().find_map(|change| match change {
        Change { object, action: Action::Patch(patch) } if object.name == "n0" => Some(patch),
        _ => None,
    });
    let metadata = &labelled.unwrap()["metadata"];
    assert_eq!(metadata["labels"], json!({"infra": "yes"}));
    assert_eq!(metadata["annotations"], json!({annotation::CUSTOM_POOL_LABELS_APPLIED.as_str(): ""}));
}
