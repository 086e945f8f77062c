//! In which respects two configurations differ.

use super::*;

#[test]
fn d01_two_empty_configs_do_not_differ_and_no_list_is_an_empty_list() {
    assert_eq!(diff(json!({}), json!({})), Flags::default());
    assert_eq!(diff(json!({"kernelArguments": []}), json!({})), Flags::default());
    assert_eq!(diff(json!({"kernelType": ""}), json!({"kernelType": "default"})), Flags::default());
}

#[test]
fn d02_a_new_image_is_an_update_of_the_operating_system_only() {
    let found = diff(json!({"osImageURL": "a"}), json!({"osImageURL": "b"}));
    assert_eq!(found, Flags { os_update: true, ..Flags::default() });
}

#[rstest]
#[case(json!({"name": "core", "sshAuthorizedKeys": ["k"]}), json!({"name": "core", "sshAuthorizedKeys": ["k", "l"]}))]
#[case(json!({"name": "core", "passwordHash": "x"}), json!({"name": "core", "passwordHash": "y"}))]
fn d03_keys_and_passwords_are_differences_of_accounts(#[case] old: Value, #[case] new: Value) {
    let passwd = Flags { passwd: true, ..Flags::default() };
    assert_eq!(diff(core(old), core(new.clone())), passwd);
    assert_eq!(diff(json!({}), core(new)), passwd);
}

#[rstest]
#[case(Some("i"), Some("i"), (true, false, false))]
#[case(Some("i"), Some("j"), (true, true, false))]
#[case(None, Some("j"), (true, true, false))]
#[case(Some("i"), None, (true, true, true))]
fn d04_built_images_are_seen(#[case] old: Option<&str>, #[case] new: Option<&str>, #[case] is: (bool, bool, bool)) {
    let of = |image| Target::parse("r", &spec(json!({"osImageURL": "base"})), image).unwrap();
    let found = flags(&of(old), &of(new), false);
    assert_eq!((found.ocl_enabled, found.os_update, found.revert_from_ocl), is);
}

#[test]
fn d05_files_and_images_change_in_place() {
    let host = FakeHost::new("m");
    let first = config("a", &files(vec![file("/etc/nmstate/openshift/a", "a")]));
    let mut node = Node::new(host, &first);
    assert!(diff(json!({}), with(json!({"storage": {"files": [file("/etc/a", "a")]}}))).files);
    for next in [
        config("b", &files(vec![file("/etc/nmstate/openshift/a", "a"), file("/etc/nmstate/openshift/b", "b")])),
        config("c", &files(vec![])),
        config("d", &spec(json!({"osImageURL": "image-2"}))),
    ] {
        let report = node.obey(&next);
        assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
    }
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-2"));
    assert_eq!(node.boots, 1);
}
