//! Differences between two configurations.

use super::*;

#[test]
fn d01_two_empty_configs_do_not_differ_and_no_list_is_an_empty_list() {
    let nothing = (Vec::new(), Level::None);
    assert_eq!(differs(json!({}), json!({})), nothing);
    assert_eq!(differs(json!({"kernelArguments": []}), json!({})), nothing);
    assert_eq!(differs(json!({"kernelType": ""}), json!({"kernelType": "default"})), nothing);
}

#[test]
fn d02_a_new_image_is_an_update_of_the_operating_system_only() {
    let found = differs(json!({"osImageURL": "a"}), json!({"osImageURL": "b"}));
    assert_eq!(found, (vec!["osImageURL".to_owned()], Level::Reboot));
}

#[rstest]
#[case(json!({"name": "core", "sshAuthorizedKeys": ["k"]}), json!({"name": "core", "sshAuthorizedKeys": ["k", "l"]}))]
#[case(json!({"name": "core", "passwordHash": "x"}), json!({"name": "core", "passwordHash": "y"}))]
fn d03_keys_and_passwords_are_differences_of_accounts(#[case] old: Value, #[case] new: Value) {
    let account = (vec!["user core".to_owned()], Level::None);
    assert_eq!(differs(core(old), core(new.clone())), account);
    assert_eq!(differs(json!({}), core(new)), account);
}

#[test]
fn d04_built_images_are_seen() {
    let base = config("base", &spec(json!({"osImageURL": "base"})));
    let mut node = Node::new(FakeHost::new("m"), &base);
    for (name, image, differs, booted) in [
        ("enabling", Some("i"), true, "i"),
        ("the same image", Some("i"), false, "i"),
        ("another image", Some("j"), true, "j"),
        ("reverting", None, true, "base"),
    ] {
        let boots = node.boots;
        node.order.desired =
            Some(Config { image: image.map(str::to_owned), ..config(name, base.spec.found().unwrap()) });
        let disruption = node.step().disruption.unwrap();
        let causes: Vec<&str> = disruption.causes.iter().map(|cause| cause.what.as_str()).collect();
        assert_eq!(causes, if differs { vec!["image"] } else { vec![] }, "{name}");
        assert_eq!(node.settle().state, State::Done, "{name}");
        assert_eq!(node.boots - boots, usize::from(differs), "{name}");
        assert_eq!(node.host.boot().unwrap().image.as_deref(), Some(booted), "{name}");
    }
}

#[test]
fn d05_files_and_images_change_in_place() {
    let host = FakeHost::new("m");
    let first = config("a", &files(vec![file("/etc/nmstate/openshift/a", "a")]));
    let mut node = Node::new(host, &first);
    for (next, what) in [
        (
            config("b", &files(vec![file("/etc/nmstate/openshift/a", "a"), file("/etc/nmstate/openshift/b", "b")])),
            vec!["file /etc/nmstate/openshift/b"],
        ),
        (config("c", &files(vec![])), vec!["file /etc/nmstate/openshift/a", "file /etc/nmstate/openshift/b"]),
        (config("d", &spec(json!({"osImageURL": "image-2"}))), vec!["osImageURL"]),
    ] {
        let before = node.agent.on_disk_config().unwrap().unwrap();
        let found = least_disruption(&before.spec, next.spec.found().unwrap(), None);
        assert_eq!(found.causes.iter().map(|cause| cause.what.as_str()).collect::<Vec<_>>(), what);
        let report = node.obey(&next);
        assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
    }
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-2"));
    assert_eq!(node.boots, 1);
}
