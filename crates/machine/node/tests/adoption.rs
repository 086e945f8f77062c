//! Adoption of machines without a record of their configuration.
use crate::support;

use crate::support::{Config, config, file, files};
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_host::FakeHost;
use seaworthy_node::agent::{Agent, AgentOptions};
use seaworthy_node::order::{ConfigSpec, NextAttempt, Order};
use serde_json::json;

#[test]
fn unknown_machine_is_left_alone_and_reports_how_it_is_adopted() {
    let host = FakeHost::new("m");
    let mut agent = Agent::new(host.clone(), AgentOptions::default());
    let report = agent.sync(&Order::default(), &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert!(
        report.reason.contains("kubectl annotate --overwrite node NAME seaworthy.dev/adopt=true"),
        "{}",
        report.reason
    );
    assert_eq!(report.current, None);
}

#[test]
fn misspelt_consent_is_none_and_is_shown_with_the_command_that_corrects_it() {
    let host = FakeHost::new("m");
    let mut agent = Agent::new(host.clone(), AgentOptions::default());
    let order = Order { node: "w7".to_owned(), adoption: Some("ture".to_owned()), ..Order::default() };
    let report = agent.sync(&order, &mut |_| true);
    assert_eq!((report.state, report.current), (State::Degraded, None));
    for part in ["seaworthy.dev/adopt is \"ture\"", "kubectl annotate --overwrite node w7 seaworthy.dev/adopt=true"] {
        assert!(report.reason.contains(part), "{}", report.reason);
    }
}

#[test]
fn machine_whose_node_is_recreated_before_its_pools_configuration_came_is_adopted_again() {
    let mut agent = Agent::new(FakeHost::new("m"), AgentOptions::default());
    let nothing = Config { name: UNCONFIGURED.to_owned(), spec: ConfigSpec::NotFound, image: None };
    let mut order = Order { current: Some(nothing), ..Order::default() };
    let report = agent.sync(&order, &mut |_| true);
    assert!(report.state == State::Degraded && report.reason.contains("seaworthy.dev/adopt=true"), "{}", report.reason);
    order.adoption = Some("true".to_owned());
    let report = agent.sync(&order, &mut |_| true);
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, UNCONFIGURED), "{}", report.reason);
}

#[test]
fn adopted_machine_has_nothing_yet_and_follows_its_pool_with_originals_kept() {
    const PATH: &str = "/etc/nmstate/openshift/a";
    let host = FakeHost::new("m");
    host.put(PATH, b"the owner's", 0o644);
    let mut agent = Agent::new(host.clone(), AgentOptions::default());
    let adopted = Order { adoption: Some("true".to_owned()), ..Order::default() };
    let report = agent.sync(&adopted, &mut |_| true);
    assert_eq!(report.state, State::Done, "{}", report.reason);
    let current = report.current.unwrap();
    assert_eq!(current.name, UNCONFIGURED);
    assert_eq!(host.text(PATH).unwrap(), "the owner's", "nothing is touched before an order");

    // Its pool's configuration is an order like any other, and the way back leads to what was there.
    let mut target = config("rendered-worker-1", &files(vec![file(PATH, "ours")]));
    for (name, text) in [("rendered-worker-1", "ours"), ("rendered-worker-2", "the owner's")] {
        let order = Order {
            desired: Some(target.clone()),
            current: Some(current.clone()),
            state: Some(State::Done),
            adoption: Some("true".to_owned()),
            ..Order::default()
        };
        let mut report = agent.sync(&order, &mut |_| true);
        for _ in 0..5 {
            if report.next_attempt == NextAttempt::Now {
                report = agent.sync(&order, &mut |_| true);
            }
        }
        assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, name), "{}", report.reason);
        assert_eq!(host.text(PATH).unwrap(), text);
        target = config("rendered-worker-2", &support::spec(json!({"config": {}})));
    }
}
