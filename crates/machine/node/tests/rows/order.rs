//! The next action for an order.

use super::*;

fn next(order: &Order, disk: (&str, Option<&str>), desired: (&str, Option<&str>)) -> NextAction {
    decide(order, DecisionInputs { disk, desired, must_update: false, needs_drain: false })
}

#[test]
fn d34_d35_d36_the_disk_decides_what_the_node_runs() {
    let [one, two] = ["test1", "test2"].map(named);
    assert_eq!(next(&order(&one, &two), ("test1", None), ("test2", None)), NextAction::Update);
    assert_eq!(next(&order(&one, &one), ("test1", None), ("test1", None)), NextAction::Nothing);
    assert_eq!(next(&order(&one, &two), ("test3", None), ("test2", None)), NextAction::Update);
    // In full: the update is from what the disk says.
    let of = |text: &str| files(vec![file("/etc/nmstate/openshift/a", text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("test3", &of("3")));
    node.order.current = Some(config("test1", &of("1")));
    let report = node.obey(&config("test2", &of("2")));
    assert_eq!(report.state, State::Done, "{}", report.reason);
    assert_eq!(node.host.text("/etc/nmstate/openshift/a").unwrap(), "2");
}

#[test]
fn d37_d38_images_count_like_configurations() {
    let one = named("test1");
    let mut fresh = order(&one, &one);
    fresh.state = None;
    assert_eq!(next(&fresh, ("test1", Some("i")), ("test1", Some("i"))), NextAction::ReportDone);
    assert_eq!(next(&order(&one, &one), ("test1", Some("i")), ("test1", Some("i"))), NextAction::Nothing);
    assert_eq!(next(&order(&one, &one), ("test1", Some("image2")), ("test1", Some("image1"))), NextAction::Update);
    let mut node = Node::new(FakeHost::new("m"), &config("a", &spec(json!({}))));
    let built = Config { image: Some("built-1".to_owned()), ..config("a", &spec(json!({}))) };
    assert_eq!(node.obey(&built).state, State::Done);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("built-1"));
    assert_eq!(node.host.text(paths::CURRENT_IMAGE).unwrap(), "built-1");
}

#[test]
fn a_drain_is_asked_for_once_waited_for_and_ended_with_an_uncordon() {
    let [old, new] = ["old", "new"].map(named);
    let mut order = order(&old, &new);
    let inputs =
        |disk| DecisionInputs { disk: (disk, None), desired: ("new", None), must_update: false, needs_drain: true };
    assert_eq!(decide(&order, inputs("old")), NextAction::RequestDrain("drain-new".to_owned()));
    order.desired_drain = Some("drain-new".to_owned());
    assert_eq!(decide(&order, inputs("old")), NextAction::WaitForDrain("drain-new".to_owned()));
    order.last_applied_drain = Some("drain-new".to_owned());
    assert_eq!(decide(&order, inputs("old")), NextAction::Update);
    assert_eq!(decide(&order, inputs("new")), NextAction::RequestDrain("uncordon-new".to_owned()));
    order.desired_drain = Some("uncordon-new".to_owned());
    assert_eq!(decide(&order, inputs("new")), NextAction::WaitForDrain("uncordon-new".to_owned()));
    order.last_applied_drain = Some("uncordon-new".to_owned());
    assert_eq!(decide(&order, inputs("new")), NextAction::ReportDone);
}

#[test]
fn a_revert_while_the_drain_is_under_way_ends_it() {
    let (old, new) = (config("old", &files(vec![])), config("new", &files(vec![file("/etc/random", "")])));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new);
    assert_eq!(node.agent.sync(&node.order, &mut |_| true).drain_request.as_deref(), Some("drain-new"));
    node.order.desired_drain = Some("drain-new".to_owned());
    let report = node.agent.sync(&node.order, &mut |_| true);
    assert_eq!((report.drain_request, report.state), (None, State::Working));
    let report = node.obey(&old);
    assert_eq!(report.state, State::Done);
    assert_eq!((node.drains.as_slice(), node.boots), (&["uncordon-old".to_owned()][..], 0));
}

#[test]
fn a_revert_while_an_update_fails_is_followed_at_the_next_attempt() {
    let of = |text: &str| files(vec![file("/etc/nmstate/openshift/a", text)]);
    let (old, new) = (config("old", &of("old")), config("new", &of("new")));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.fail("write /etc/nmstate/openshift/a", "Input/output error");
    assert_eq!(node.obey(&new).state, State::Degraded);
    let report = node.obey(&old);
    assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
}

#[test]
fn hundreds_of_nodes_follow_their_orders_in_one_process() {
    let spec_of =
        |text: &str| Arc::new(files((0..20).map(|n| file(&format!("/etc/nmstate/openshift/{n}"), text)).collect()));
    let of = |name: &str| Config { name: name.to_owned(), spec: ConfigSpec::Found(spec_of(name)), image: None };
    let (old, new) = (of("old"), of("new"));
    let mut nodes: Vec<Node> = (0..300).map(|n| Node::new(FakeHost::new(&format!("n{n}")), &old)).collect();
    assert!(nodes.iter_mut().all(|node| node.obey(&new).state == State::Done));
}
