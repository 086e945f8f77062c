//! Capacity: how many nodes may move, which, and in which order.

use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::{Value, json};

use crate::rows::worker;
use crate::support::{annotate, created, decide, node, nodes};

#[rstest]
#[case::row_93(json!(1), &["1/1R", "1/1R", "1/1R"], &[], 1)]
#[case::row_94_not_ready(json!(1), &["1/1R", "1/1R", "1/1N"], &[], 0)]
#[case::row_94_two_away(json!(1), &["1/1R", "1/1N", "0/1R"], &[], 0)]
#[case::row_94_one_on_its_way(json!(1), &["1/1R", "1/1R", "0/1R", "0/0R", "0/0R"], &[], 0)]
#[case::row_95(json!(2), &["0/0N", "0/0R", "0/0R"], &["n1", "n2"], 1)]
#[case::row_96(json!(3), &["1/1R", "1/1N", "0/1R", "0/0R", "0/0R"], &["n3", "n4"], 1)]
#[case::row_97(json!(1), &["1/1R", "x/yR Degraded", "0/0R"], &["n1", "n2"], 1)]
#[case::row_98(json!(1), &["1/1R", "1/1R Degraded", "0/0R"], &[], 0)]
#[case::row_99(json!(1), &["1/1R", "1/1R", "1/2R Degraded", "1/1R"], &["n2"], 1)]
// The node that has not begun holds the budget; that it may be given another order is beyond upstream, see `eligibility`.
#[case::row_100(json!(1), &["1/1R", "1/2R Done", "1/1R"], &["n1"], 0)]
#[case::row_101(
    json!(4),
    &["1/1R", "1/1N", "0/1R", "0/0R", "0/0R", "0/0R", "0/0R", "1/1R", "1/1R"],
    &["n3", "n4", "n5", "n6"],
    2
)]
#[case::a_failing_target_takes_its_part(json!(2), &["0/1R Degraded", "0/0R", "0/0R"], &["n1", "n2"], 1)]
#[case::a_failing_target_that_is_not_ready_counts_once(json!(2), &["0/1N Degraded", "0/0R"], &["n1"], 1)]
#[case::failing_targets_use_up_the_budget(json!(1), &["0/1R Unreconcilable", "0/0R"], &[], 0)]
#[case::never(json!(-1), &["0/0R"], &[], 0)]
fn rows_93_to_101(#[case] max: Value, #[case] texts: &[&str], #[case] candidates: &[&str], #[case] capacity: usize) {
    let decided = decide(&worker(max), &nodes(texts));
    assert_eq!(decided.candidates, candidates);
    assert_eq!(decided.capacity, capacity);
}

#[rstest]
fn row_102_an_image_on_one_side_only_is_unfinished(
    #[values(annotation::DESIRED_IMAGE, annotation::CURRENT_IMAGE)] key: seaworthy_api::vocabulary::Annotation,
    #[values("Done", "Working")] state: &str,
) {
    let mut nodes = nodes(&[&format!("1/1R {state}"), "1/1R"]);
    annotate(&mut nodes[0], key, "image");
    assert_eq!(decide(&worker(json!(1)), &nodes).capacity, 0);
}

#[test]
fn row_103_zone_by_zone_the_oldest_first() {
    let rows = [("ZZZ", &[100, 1500, 0][..]), ("RRR", &[100, 0]), ("", &[200, 900, 0]), ("QQQ", &[0])];
    let mut fleet = Vec::new();
    for (zone, seconds) in rows {
        for second in seconds {
            let mut node = node(&format!("{}{second}", if zone.is_empty() { "none" } else { zone }), "0/0R");
            created(&mut node, *second);
            if !zone.is_empty() {
                let labels = node.metadata.labels.as_mut().unwrap();
                labels.insert("topology.kubernetes.io/zone".into(), zone.into());
            }
            fleet.push(node);
        }
    }
    let all = ["QQQ0", "RRR0", "RRR100", "ZZZ0", "ZZZ100", "ZZZ1500", "none0", "none200", "none900"];
    for max in 1..=all.len() {
        assert_eq!(decide(&worker(json!(max)), &fleet).chosen, all[..max]);
    }
}
