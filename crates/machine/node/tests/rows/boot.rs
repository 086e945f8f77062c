//! Changes of the next boot, including the first boot.

use super::*;

#[test]
fn a_kernel_argument_that_no_boot_brings_sends_the_machine_back_and_is_not_tried_again() {
    let (old, new) = (config("old", &spec(json!({}))), config("new", &spec(json!({"kernelArguments": ["a=1"]}))));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new);
    let mut last = None;
    for _ in 0..40 {
        let report = node.step();
        if report.is_rebooting || node.host.is_reboot_requested() {
            // The staged deployment is lost each time.
            node.host.cut();
            node.host.power_on(seaworthy_host::Unsynced::Kept);
            node.boots += 1;
            node.restart();
        }
        last = Some(report);
    }
    let report = last.unwrap();
    assert_eq!((report.state, report.next_attempt), (State::Degraded, NextAttempt::OnChange));
    assert!(report.reason.contains("kernel argument a=1"), "{}", report.reason);
    assert_eq!(report.current.unwrap().name, "old");
    assert_eq!(node.boots, 5, "one for the update, three more, one back");
    assert_eq!(node.obey(&old).state, State::Done);
}

#[rstest]
#[case::extension_that_comes(json!({}), json!({"extensions": ["sysstat"]}), Some("e-2"))]
#[case::extension_that_goes(json!({"extensions": ["sysstat"]}), json!({}), Some("e-2"))]
#[case::kernel(json!({}), json!({"kernelType": "realtime"}), Some("e-2"))]
#[case::image_below_extensions(json!({"extensions": ["sysstat"]}), json!({"extensions": ["sysstat"], "osImageURL": "i-2"}), Some("e-2"))]
#[case::image_alone(json!({}), json!({"osImageURL": "i-2"}), None)]
#[case::arguments_alone(json!({"extensions": ["sysstat"]}), json!({"extensions": ["sysstat"], "kernelArguments": ["a"]}), None)]
fn packages_are_taken_from_the_image_that_the_new_configuration_names(
    #[case] old: Value,
    #[case] new: Value,
    #[case] image: Option<&str>,
) {
    let named = |mut value: Value, name: &str| {
        value["baseOSExtensionsContainerImage"] = json!(name);
        target(value)
    };
    let host = FakeHost::new("m");
    let (old, new) = (named(old, "e-1"), named(new, "e-2"));
    host.change_boot(|boot| boot.packages.extend(old.extensions.clone()));
    let found = steps(&old, &new, &observe(&host, &old, &new).unwrap()).unwrap();
    let [Step::Boot(change)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(change.extensions_image.as_deref(), image);
}

#[test]
fn another_kernel_is_installed_again_into_the_next_image() {
    let of = |image: &str| target(json!({"kernelType": "realtime", "osImageURL": image}));
    let host = FakeHost::new("m");
    let (old, new) = (of("image-1"), of("image-2"));
    let found = steps(&old, &new, &observe(&host, &old, &new).unwrap()).unwrap();
    let [Step::Boot(change)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(change.kernel, Some((Kernel::Realtime, Kernel::Realtime)));
}

/// Lets a node go on, booting whenever it asks for it, until it waits for another order.
fn at_rest(node: &mut Node) -> seaworthy_node::Report {
    for _ in 0..40 {
        let report = node.step();
        if node.host.is_reboot_requested() {
            node.host.boot_orderly();
            node.boots += 1;
            node.restart();
        } else if report.next_attempt == NextAttempt::OnChange && report.drain_request.is_none() {
            return report;
        }
    }
    panic!("the node does not come to rest: {:#?}", node.host.calls());
}

/// Lets a node go on until it has asked for a boot.
fn asks_for_boot(node: &mut Node) {
    for _ in 0..40 {
        if node.host.is_reboot_requested() {
            return;
        }
        node.step();
    }
    panic!("the node asks for no boot: {:#?}", node.host.calls());
}

fn boots() -> (Config, Config) {
    let old = json!({"kernelArguments": ["a=1"], "osImageURL": "image-1"});
    let new = json!({
        "kernelArguments": ["b=2", "c=3"], "osImageURL": "image-2", "kernelType": "realtime", "extensions": ["sysstat"],
    });
    (config("old", &spec(old)), config("new", &spec(new)))
}

#[test]
fn a_machine_that_boots_into_part_of_a_change_and_is_sent_back_boots_what_it_had() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    let before = node.host.snapshot().boot;
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    let report = at_rest(&mut node);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.ends_with("lacks kernel argument c=3"), "{}", report.reason);
    assert_eq!(node.host.snapshot().boot, before);
    assert_eq!(node.boots, 5, "one for the update, three more, one back");
    assert_eq!(node.obey(&old).state, State::Done);
}

#[test]
fn what_a_boot_has_of_a_change_does_not_come_a_second_time() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    for _ in 0..2 {
        asks_for_boot(&mut node);
        node.host.boot_orderly();
        node.restart();
    }
    node.host.lose_no_argument();
    assert_eq!(at_rest(&mut node).state, State::Done);
    let (image, arguments, kernel, packages) = node.host.snapshot().boot;
    assert_eq!((image.as_deref(), kernel, packages), (Some("image-2"), Kernel::Realtime, vec!["sysstat".to_owned()]));
    assert_eq!(arguments, ["root=/dev/vda", "quiet", "b=2", "c=3"]);
}

#[test]
fn a_rollback_that_is_lost_is_repeated_and_one_that_changes_nothing_is_reported() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new.clone());
    for _ in 0..5 {
        asks_for_boot(&mut node);
        if !node.host.calls().last().unwrap().starts_with("reboot returns to old") {
            node.host.boot_orderly();
            node.restart();
        }
    }
    assert_eq!(node.host.calls().last().unwrap(), "reboot returns to old");
    // The deployment that leads back is lost with the power, and then the registry is away for a while.
    node.host.cut();
    node.host.power_on(seaworthy_host::Unsynced::Kept);
    node.restart();
    node.host.fail_times("stage", "registry is away", 5);
    for _ in 0..5 {
        let report = node.step();
        assert!(report.reason.contains("registry is away"), "{}", report.reason);
    }
    node.host.lose_argument("a=1");
    let mut reasons = Vec::new();
    for _ in 0..40 {
        let report = node.step();
        reasons.push(report.reason);
        if node.host.is_reboot_requested() {
            node.host.boot_orderly();
            node.restart();
        }
    }
    let expected = "after 3 more boots back into old this machine still lacks kernel argument a=1";
    assert!(reasons.iter().any(|reason| reason == expected), "{reasons:#?}");
    // Nothing is under way any more: it is drift, and another order counts.
    assert!(reasons.last().unwrap().contains("missing expected kernel arguments: a=1"), "{reasons:#?}");
    node.host.lose_no_argument();
    assert!(node.host.snapshot().boot.0.as_deref() == Some("image-1"));
}

/// A node that has asked for its boot into the new configuration, and lost what was prepared for it with the power; the registry
/// comes up later than the machine.
fn cut_before_its_boot() -> (Node, Config, Config) {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new.clone());
    asks_for_boot(&mut node);
    node.host.cut();
    node.host.power_on(seaworthy_host::Unsynced::Kept);
    node.restart();
    (node, old, new)
}

#[test]
fn a_registry_that_is_away_after_a_power_cut_is_waited_for_and_condemns_nothing() {
    let (mut node, ..) = cut_before_its_boot();
    node.host.fail_times("stage", "registry is away", 9);
    for _ in 0..9 {
        let report = node.step();
        assert_eq!((report.state, report.next_attempt), (State::Degraded, NextAttempt::Backoff));
        assert!(report.reason.contains("missing image image-2") && report.reason.contains("registry is away"));
        assert!(!node.host.is_reboot_requested());
    }
    assert_eq!((at_rest(&mut node).state, node.boots), (State::Done, 1));
}

#[rstest]
#[case::order_that_is_taken_back("old", "image-1")]
#[case::newer_order("newer", "image-3")]
fn another_order_is_followed_while_the_boot_of_the_last_one_cannot_be_prepared(
    #[case] name: &str,
    #[case] image: &str,
) {
    let (mut node, old, _) = cut_before_its_boot();
    node.host.fail("stage", "image-2 is gone");
    for _ in 0..3 {
        assert!(node.step().reason.contains("image-2 is gone"));
    }
    let newer = config("newer", &spec(json!({"osImageURL": "image-3"})));
    node.order.desired = Some(if name == "old" { old } else { newer });
    let report = node.step();
    assert!(report.reason.contains("new is no longer ordered"), "{}", report.reason);
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, name), "{}", report.reason);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some(image));
}

#[rstest]
#[case::that_was_withdrawn_meanwhile(json!({"osImageURL": "image-3"}), false, State::Working)]
#[case::that_no_running_machine_takes_over(json!({"osImageURL": "image-3", "fips": true}), true, State::Unreconcilable)]
fn nothing_is_taken_back_for_an_order(#[case] newer: Value, #[case] is_claimed: bool, #[case] state: State) {
    let (mut node, ..) = cut_before_its_boot();
    node.host.fail("stage", "image-2 is gone");
    node.order.desired = Some(config("newer", &spec(newer)));
    node.order.state = Some(State::Working);
    let mut asked = 0;
    let report = node.agent.sync(&node.order, &mut |_| {
        asked += 1;
        is_claimed
    });
    assert_eq!((report.state, asked), (state, usize::from(!is_claimed)), "{}", report.reason);
    assert_eq!(report.next_attempt, if is_claimed { NextAttempt::Backoff } else { NextAttempt::Now });
    assert!(!node.host.is_reboot_requested());
    assert_eq!(node.agent.on_disk_config().unwrap().unwrap().name, "new");
    // The boot that is lacking is still tried.
    node.host.clear_faults();
    asks_for_boot(&mut node);
    assert_eq!(node.host.calls().last().unwrap(), "reboot boots into new");
}

#[rstest]
#[case::that_was_withdrawn_meanwhile(json!({"osImageURL": "image-3"}), false)]
#[case::that_no_running_machine_takes_over(json!({"osImageURL": "image-3", "fips": true}), true)]
fn no_way_back_is_left_for_an_order(#[case] newer: Value, #[case] is_claimed: bool) {
    let (mut node, _) = sent_back_in_vain();
    node.order.desired = Some(config("newer", &spec(newer)));
    let report = node.agent.sync(&node.order, &mut |_| is_claimed);
    assert_eq!(
        report.next_attempt,
        if is_claimed { NextAttempt::Backoff } else { NextAttempt::Now },
        "{}",
        report.reason
    );
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap());
    node.host.clear_faults();
    asks_for_boot(&mut node);
    assert_eq!(node.host.calls().last().unwrap(), "reboot returns to old");
}

/// A node that runs the image of a configuration that it is sent back from, and the way back is not to be had.
fn sent_back_in_vain() -> (Node, Config) {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    for _ in 0..4 {
        asks_for_boot(&mut node);
        node.host.boot_orderly();
        node.restart();
    }
    // Its image runs, and now it is to be sent back.
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-2"));
    node.host.fail("stage", "image-1 is gone");
    for _ in 0..5 {
        let report = node.step();
        assert_eq!(report.state, State::Degraded);
        assert!(report.reason.contains("image-1 is gone"), "{}", report.reason);
    }
    assert_eq!(node.agent.on_disk_config().unwrap().unwrap().name, "old");
    (node, old)
}

/// The same, and what is ordered then cannot be had either.
fn without_a_way_back() -> (Node, Config) {
    let (mut node, old) = sent_back_in_vain();
    // That takes nothing away from it.
    let newer = json!({"kernelArguments": ["a=1"], "osImageURL": "image-3"});
    node.order.desired = Some(config("newer", &spec(newer)));
    for _ in 0..5 {
        node.step();
    }
    assert!(node.step().reason.contains("update from old to newer"), "{:?}", node.order);
    node.restart();
    node.host.lose_no_argument();
    (node, old)
}

#[test]
fn a_newer_order_is_followed_while_the_way_back_cannot_be_prepared() {
    let (mut node, _) = without_a_way_back();
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, "newer"), "{}", report.reason);
    let (image, arguments, kernel, packages) = node.host.snapshot().boot;
    assert_eq!((image.as_deref(), kernel), (Some("image-3"), Kernel::Default));
    assert_eq!((arguments, packages), (vec!["root=/dev/vda".to_owned(), "quiet".to_owned(), "a=1".to_owned()], vec![]));
    // It is where it should be, and drift is drift again.
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
    node.host.change_boot(|boot| boot.image = Some("other".to_owned()));
    node.order.desired = Some(config("newest", &spec(json!({"osImageURL": "image-4"}))));
    let report = node.step();
    assert!(report.reason.contains("expected target osImageURL"), "{}", report.reason);
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap());
}

#[test]
fn an_order_back_to_what_the_disk_is_in_is_followed_as_soon_as_its_boot_can_be_had() {
    let (mut node, old) = without_a_way_back();
    node.order.desired = Some(old);
    node.drains.clear();
    for _ in 0..5 {
        let report = node.step();
        assert!(report.drain_request.is_some() || report.reason.contains("image-1 is gone"), "{}", report.reason);
    }
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    assert_eq!(node.drains, ["drain-old", "uncordon-old"]);
    let (image, arguments, kernel, packages) = node.host.snapshot().boot;
    assert_eq!((image.as_deref(), kernel, packages), (Some("image-1"), Kernel::Default, vec![]));
    assert_eq!(arguments, ["root=/dev/vda", "quiet", "a=1"]);
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap());
}

#[test]
fn a_boot_back_that_does_not_come_is_not_tried_indefinitely_and_the_way_out_is_named() {
    let (mut node, old) = without_a_way_back();
    node.order.desired = Some(old);
    node.host.clear_faults();
    node.host.lose_argument("a=1");
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Degraded, 4), "one and three more: {}", report.reason);
    assert!(
        report.reason.contains("lacks kernel argument a=1; not retried until another order arrives"),
        "{}",
        report.reason
    );
    assert!(report.reason.contains(paths::FORCE), "{}", report.reason);
    // It is not sent to where it was led by mistake.
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-1"));
    node.host.lose_no_argument();
    assert_eq!((at_rest(&mut node).state, node.boots), (State::Degraded, 4), "it stays so");
    node.host.put(paths::FORCE, b"", 0o644);
    assert_eq!((at_rest(&mut node).state, node.boots), (State::Done, 5));
    assert!(node.host.boot().unwrap().arguments.contains(&"a=1".to_owned()));
}

/// Gives a record the name that it had in earlier versions.
fn rename_to_legacy(node: &Node, path: &str, legacy_path: &str) {
    let text = node.host.text(path).unwrap();
    node.host.delete_file(path);
    node.host.put(legacy_path, text.as_bytes(), 0o644);
}

#[test]
fn boot_mismatch_that_an_earlier_version_recorded_counts_and_is_removed_when_the_boot_matches() {
    let (mut node, _) = without_a_way_back();
    rename_to_legacy(&node, paths::BOOT_MISMATCH, paths::LEGACY_BOOT_MISMATCH);
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, "newer"), "{}", report.reason);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-3"));
    assert!(!node.host.exists(paths::LEGACY_BOOT_MISMATCH).unwrap());
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap());
}

#[test]
fn boot_mismatch_that_an_earlier_version_recorded_is_recorded_again_under_the_new_name() {
    let (mut node, old) = without_a_way_back();
    let recorded = node.host.text(paths::BOOT_MISMATCH).unwrap();
    let names: std::collections::BTreeSet<String> =
        serde_json::from_str::<serde_json::Map<String, Value>>(&recorded).unwrap().keys().cloned().collect();
    assert!(names.iter().eq(["arguments", "config", "packages"]), "not those of the first version: {names:?}");
    rename_to_legacy(&node, paths::BOOT_MISMATCH, paths::LEGACY_BOOT_MISMATCH);
    node.order.desired = Some(old);
    node.host.clear_faults();
    node.host.lose_argument("a=1");
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Degraded, 4), "{}", report.reason);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-1"), "it is not sent back");
    assert!(!node.host.exists(paths::LEGACY_BOOT_MISMATCH).unwrap());
    // What was left of the update that was reverted is still known.
    let packages = |text: &str| serde_json::from_str::<Value>(text).unwrap()["packages"].clone();
    assert_eq!(packages(&node.host.text(paths::BOOT_MISMATCH).unwrap()), packages(&recorded));
}

#[test]
fn configuration_that_an_earlier_version_gave_up_is_not_tried_until_another_one_is_ordered() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    assert_eq!((at_rest(&mut node).state, node.boots), (State::Degraded, 5));
    rename_to_legacy(&node, paths::REBOOT_REQUIRED, paths::LEGACY_REBOOT_REQUIRED);
    node.host.lose_no_argument();
    node.restart();
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Degraded, 5), "{}", report.reason);
    assert!(report.reason.ends_with("lacks kernel argument c=3"), "{}", report.reason);
    assert!(node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
    assert_eq!(node.obey(&old).state, State::Done);
    assert!(!node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
    assert!(!node.host.exists(paths::REBOOT_REQUIRED).unwrap());
}

#[test]
fn failure_that_an_earlier_version_recorded_is_replaced_by_the_next_one() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    let record = br#"{"config":"new","why":"crio.service has failed","is_final":false}"#;
    node.host.put(paths::LEGACY_REBOOT_REQUIRED, record, 0o644);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    assert_eq!((at_rest(&mut node).state, node.boots), (State::Degraded, 5));
    assert!(!node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
    let record = node.host.text(paths::REBOOT_REQUIRED).unwrap();
    assert!(record.contains("kernel argument c=3") && record.contains(r#""is_final":true"#), "{record}");
}

#[test]
fn boot_mismatch_that_an_earlier_version_recorded_counts_beside_an_outdated_one() {
    let (mut node, _) = without_a_way_back();
    rename_to_legacy(&node, paths::BOOT_MISMATCH, paths::LEGACY_BOOT_MISMATCH);
    node.host.put(paths::BOOT_MISMATCH, br#"{"config":"stale","arguments":["quiet"],"packages":[]}"#, 0o644);
    node.step();
    assert!(node.host.exists(paths::LEGACY_BOOT_MISMATCH).unwrap());
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap(), "it would count when its configuration is ordered again");
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, "newer"), "{}", report.reason);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-3"));
    assert!(!node.host.exists(paths::LEGACY_BOOT_MISMATCH).unwrap());
}

#[test]
fn boot_mismatch_under_the_new_name_counts_beside_one_about_the_same_or_another_configuration() {
    for legacy in
        [r#"{"config":"stale","arguments":[],"packages":[]}"#, r#"{"config":"old","arguments":[],"packages":[]}"#]
    {
        let (mut node, _) = without_a_way_back();
        let recorded = node.host.text(paths::BOOT_MISMATCH).unwrap();
        node.host.put(paths::LEGACY_BOOT_MISMATCH, legacy.as_bytes(), 0o644);
        node.step();
        assert_eq!(node.host.text(paths::BOOT_MISMATCH).unwrap(), recorded);
        node.host.clear_faults();
        let report = at_rest(&mut node);
        assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, "newer"), "{}", report.reason);
        // What was left of the update that was reverted is gone.
        assert_eq!(node.host.boot().unwrap().arguments, ["root=/dev/vda", "quiet", "a=1"]);
        assert!(!node.host.exists(paths::LEGACY_BOOT_MISMATCH).unwrap());
    }
}

#[test]
fn configuration_that_an_earlier_version_gave_up_is_not_tried_because_of_an_outdated_record() {
    let (old, new) = boots();
    for stale in [&br#"{"config":"stale","why":"crio.service has failed","is_final":false}"#[..], b"{"] {
        let mut node = Node::new(FakeHost::new("m"), &old);
        node.host.put(paths::REBOOT_REQUIRED, stale, 0o644);
        let record = br#"{"config":"new","why":"it lacks c=3","is_final":true}"#;
        node.host.put(paths::LEGACY_REBOOT_REQUIRED, record, 0o644);
        node.order.desired = Some(new.clone());
        let report = at_rest(&mut node);
        assert_eq!((report.state, node.boots), (State::Degraded, 0), "{}", report.reason);
        assert!(report.reason.contains("it lacks c=3"), "{}", report.reason);
        assert!(node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
        assert_eq!(node.obey(&old).state, State::Done);
        assert!(!node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
    }
}

#[test]
fn of_two_records_about_one_configuration_the_one_under_the_new_name_counts() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    let record = |why: &str| format!(r#"{{"config":"new","why":"{why}","is_final":true}}"#).into_bytes();
    // As a power cut leaves them while the newer one is written.
    node.host.put(paths::REBOOT_REQUIRED, &record("newer"), 0o644);
    node.host.put(paths::LEGACY_REBOOT_REQUIRED, &record("older"), 0o644);
    node.order.desired = Some(new);
    assert!(at_rest(&mut node).reason.contains("newer"));
    assert_eq!(node.obey(&old).state, State::Done);
    assert!(!node.host.exists(paths::REBOOT_REQUIRED).unwrap());
    assert!(!node.host.exists(paths::LEGACY_REBOOT_REQUIRED).unwrap());
}

#[test]
fn a_newer_order_is_followed_while_the_boot_back_lacks_something_and_cannot_be_prepared() {
    let (mut node, old) = without_a_way_back();
    node.order.desired = Some(old);
    node.host.clear_faults();
    node.host.lose_argument("a=1");
    asks_for_boot(&mut node);
    node.host.boot_orderly();
    node.restart();
    node.host.lose_no_argument();
    node.host.fail("stage", "registry is away");
    assert!(node.step().reason.contains("missing kernel argument a=1, and the next boot could not be prepared"));
    node.order.desired = Some(config("newest", &spec(json!({"kernelArguments": ["d=4"], "osImageURL": "image-1"}))));
    node.step();
    assert!(!node.host.is_reboot_requested());
    node.host.clear_faults();
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    let (image, arguments, kernel, packages) = node.host.snapshot().boot;
    assert_eq!((image.as_deref(), kernel, packages), (Some("image-1"), Kernel::Default, vec![]));
    assert_eq!(arguments, ["root=/dev/vda", "quiet", "d=4"]);
}

/// A node that boots part of a change in vain, and each deployment that leads back is lost with the power. What is booted lacks
/// nothing of the old configuration and has too much.
fn with_too_much_booted() -> (Node, Config) {
    let old = config("old", &spec(json!({})));
    let new = json!({"kernelArguments": ["quiet", "x=1", "y=2"], "kernelType": "realtime", "extensions": ["sysstat"]});
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("y=2");
    node.order.desired = Some(config("new", &spec(new)));
    for _ in 0..4 {
        asks_for_boot(&mut node);
        node.host.boot_orderly();
        node.restart();
    }
    for _ in 0..4 {
        asks_for_boot(&mut node);
        assert_eq!(node.host.calls().last().unwrap(), "reboot returns to old");
        node.host.cut();
        node.host.power_on(seaworthy_host::Unsynced::Kept);
        node.restart();
    }
    assert!(node.step().reason.starts_with("after 3 more boots back into old"));
    node.host.lose_no_argument();
    // What is refused does not make it forgotten.
    for _ in 0..3 {
        assert!(node.step().reason.contains("kernel argument y=2"));
    }
    (node, old)
}

#[rstest]
#[case::order_that_is_taken_back("old")]
#[case::order_without_any_boot("newer")]
#[case::one_after_the_other("both")]
fn what_is_left_of_a_change_that_was_given_up_goes_with_the_next_order(#[case] name: &str) {
    let (mut node, old) = with_too_much_booted();
    let (_, arguments, kernel, _) = node.host.snapshot().boot;
    assert!(arguments.contains(&"x=1".to_owned()) && kernel == Kernel::Realtime, "{arguments:?}");
    let newer = config("newer", &files(vec![file("/etc/newer", "text")]));
    if name == "both" {
        // It is begun with a drain and taken back.
        node.order.desired = Some(newer.clone());
        assert!(node.step().drain_request.is_some());
    }
    node.order.desired = Some(if name == "newer" { newer } else { old });
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    let (_, arguments, kernel, packages) = node.host.snapshot().boot;
    // The machine's own `quiet` must stay. A second one does no harm, and the two cannot be distinguished.
    assert_eq!((arguments, kernel, packages), (texts(&["root=/dev/vda", "quiet", "quiet"]), Kernel::Default, vec![]));
    assert_eq!(node.host.text("/etc/newer").is_some(), name == "newer");
    assert!(!node.host.exists(paths::BOOT_MISMATCH).unwrap());
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn an_update_that_was_cut_off_before_it_counted_boots_only_for_what_is_lacking() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new);
    // Everything is written and staged, and the journal is still in the phase before; then the machine is rebooted.
    let journal = format!("{}/journal.json", paths::JOURNAL);
    node.step();
    let before = node.host.calls().len();
    node.host.fail_times("reboot ", "systemd is busy", 1);
    node.step();
    assert!(node.host.calls().len() > before);
    let text = node.host.text(&journal).unwrap();
    assert!(text.contains(r#""phase": "committed""#), "{text}");
    node.host.put(&journal, text.replace(r#""committed""#, r#""acting""#).as_bytes(), 0o600);
    node.host.boot_orderly();
    node.restart();
    let report = at_rest(&mut node);
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}: {:#?}", report.reason, node.host.calls());
}

#[test]
fn a_first_boot_brings_what_ignition_cannot_and_survives_a_cut() {
    use seaworthy_node::first_boot::{FirstBoot, first_boot};
    let host = FakeHost::new("m");
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    let given = json!({"metadata": {"name": "rendered-a"}, "spec": {
        "kernelArguments": ["quiet", "a=1"], "kernelType": "realtime", "osImageURL": "image-2", "extensions": ["usbguard"],
    }});
    host.put(paths::ENCAPSULATED, given.to_string().as_bytes(), 0o644);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Rebooting);
    // What was staged is lost.
    host.cut();
    host.power_on(seaworthy_host::Unsynced::Lost);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Rebooting);
    host.boot_orderly();
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    let boot = host.boot().unwrap();
    assert_eq!(
        (boot.image.as_deref(), boot.kernel, boot.packages),
        (Some("image-2"), Kernel::Realtime, vec!["usbguard".to_owned()])
    );
    assert_eq!(boot.arguments.iter().filter(|it| *it == "quiet" || *it == "a=1").count(), 2);
    assert!(!host.exists(paths::ENCAPSULATED).unwrap() && host.exists(paths::ENCAPSULATED_DONE).unwrap());
}

#[test]
fn a_first_boot_that_lacks_nothing_does_not_boot_again_and_a_broken_one_is_named() {
    use seaworthy_node::first_boot::{FirstBoot, first_boot};
    let host = FakeHost::new("m");
    host.put(paths::ENCAPSULATED, json!({"spec": {"kernelArguments": ["quiet"]}}).to_string().as_bytes(), 0o644);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    host.put(paths::ENCAPSULATED, b"<html>", 0o644);
    assert!(first_boot(&host).unwrap_err().to_string().contains(paths::ENCAPSULATED));
}

#[test]
fn a_machine_that_joined_without_its_kernel_arguments_gets_them_before_it_is_done() {
    let first = config("first", &spec(json!({"kernelArguments": ["a=1"]})));
    let host = FakeHost::new("m");
    let mut node = Node {
        agent: Agent::new(host.clone(), AgentOptions::default()),
        host,
        order: Order { state: None, ..order(&first, &first) },
        reported: Vec::new(),
        drains: Vec::new(),
        boots: 0,
    };
    node.host.put(paths::INITIAL_ANNOTATIONS, b"{}", 0o644);
    assert_eq!(node.settle().state, State::Done);
    assert_eq!(node.boots, 1);
    assert!(node.host.boot().unwrap().arguments.contains(&"a=1".to_owned()));
    assert!(!node.host.exists(paths::INITIAL_ANNOTATIONS).unwrap());
}
