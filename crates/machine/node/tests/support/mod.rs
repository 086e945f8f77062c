//! Configurations, orders, and a node with its machine and agent.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::FakeHost;
use seaworthy_node::clock::{ClockReading, DaemonClock};
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{Agent, AgentOptions, Order, Report};
pub use seaworthy_node::{Config, ConfigSpec};
use serde_json::{Value, json};

pub fn source(text: &str) -> String {
    seaworthy_ignition::data_url::encode(text.as_bytes())
}

pub fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "mode": 0o644, "contents": {"source": source(text)}})
}

pub fn spec(value: Value) -> MachineConfigSpec {
    let mut value = value;
    if value.get("config").is_some_and(Value::is_object) {
        value["config"]["ignition"] = json!({"version": "3.5.0"});
    }
    serde_json::from_value(value).unwrap()
}

pub fn files(files: Vec<Value>) -> MachineConfigSpec {
    spec(json!({"config": {"storage": {"files": files}}}))
}

pub fn config(name: &str, spec: &MachineConfigSpec) -> Config {
    Config { name: name.to_owned(), spec: ConfigSpec::Found(Arc::new(spec.clone())), image: None }
}

/// An order to go on to `desired`, on a node that runs `current`.
pub fn order(current: &Config, desired: &Config) -> Order {
    Order {
        desired: Some(desired.clone()),
        current: Some(current.clone()),
        state: Some(State::Done),
        ..Order::default()
    }
}

/// A clock that only a test moves.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<(Duration, i64)>>);

impl ManualClock {
    pub fn source(&self) -> DaemonClock {
        let clock = self.clone();
        Arc::new(move || {
            let (passed, date) = *clock.0.lock().unwrap();
            ClockReading::new(passed, date)
        })
    }

    /// Advances the time and the date.
    pub fn advance_minutes(&self, minutes: u32) {
        let mut clock = self.0.lock().unwrap();
        clock.0 += Duration::from_secs(60) * minutes;
        clock.1 += 60 * i64::from(minutes);
    }

    /// Sets the date.
    pub fn set(&self, date: i64) {
        self.0.lock().unwrap().1 = date;
    }
}

/// A node: its machine, its daemon, and what the cluster knows of it. Drains are granted when they are asked for.
pub struct Node {
    pub host: FakeHost,
    pub agent: Agent<FakeHost>,
    pub order: Order,
    pub reported: Vec<State>,
    pub drains: Vec<String>,
    pub boots: usize,
}

impl Node {
    /// A machine that Ignition has written with `config`, joined.
    pub fn new(host: FakeHost, first: &Config) -> Node {
        let agent = Agent::new(host.clone(), AgentOptions::default());
        let mut node =
            Node { host, agent, order: order(first, first), reported: Vec::new(), drains: Vec::new(), boots: 0 };
        node.order.state = None;
        // What Ignition writes.
        let target =
            seaworthy_node::TargetState::parse(&first.name, first.spec.found().unwrap().clone(), None).unwrap();
        for (path, wanted) in &target.paths {
            if let seaworthy_node::target::TargetEntry::File { bytes, mode, .. } = wanted {
                node.host.put(path, bytes, *mode);
            }
        }
        for (name, unit) in &target.units {
            if unit.is_enabled == Some(true) {
                use seaworthy_host::Host as _;
                node.host.enable(&[name]).unwrap();
                node.host.sync().unwrap();
            }
        }
        let first_keys = target.core.as_ref().map(|core| core.keys.join("\n")).unwrap_or_default();
        if !first_keys.is_empty() {
            use seaworthy_host::Host as _;
            let own = |mode| seaworthy_host::Attributes { mode, uid: 1000, gid: 1000 };
            node.host.make_directory("/home/core/.ssh", own(0o700)).unwrap();
            node.host.make_directory("/home/core/.ssh/authorized_keys.d", own(0o700)).unwrap();
            node.host.put_owned(
                "/home/core/.ssh/authorized_keys.d/ignition",
                format!("{first_keys}\n").as_bytes(),
                own(0o600),
            );
        }
        let boot = target.clone();
        node.host.change_boot(|it| {
            it.arguments.extend(boot.arguments.clone());
            it.kernel = boot.kernel;
            if !boot.image().is_empty() {
                it.image = Some(boot.image().to_owned());
            }
        });
        node.host.put(seaworthy_node::paths::INITIAL_ANNOTATIONS, b"{}", 0o644);
        node.host.boot_orderly();
        let report = node.settle();
        assert_eq!(report.state, State::Done, "{}", report.reason);
        seaworthy_host::Host::sync(&node.host).unwrap();
        node.reported.clear();
        node.host.forget_calls();
        node
    }

    /// One attempt, with what it reports written to the cluster.
    pub fn step(&mut self) -> Report {
        let mut reported = Vec::new();
        let report = self.agent.sync(&self.order, &mut |state| {
            reported.push(state);
            true
        });
        self.reported.extend(reported);
        self.note(&report);
        report
    }

    pub fn note(&mut self, report: &Report) {
        if let Some(request) = &report.drain_request {
            self.drains.push(request.clone());
            self.order.desired_drain = Some(request.clone());
            self.order.last_applied_drain = Some(request.clone());
        }
        if !report.is_rebooting {
            self.order.state = Some(report.state);
        }
        if report.state == State::Done {
            self.order.current = report.current.clone();
        }
    }

    /// Until nothing more happens by itself, or something has failed.
    pub fn settle(&mut self) -> Report {
        for _ in 0..60 {
            let report = self.step();
            if self.host.is_off() {
                return report;
            }
            if report.is_rebooting {
                self.host.boot_orderly();
                self.boots += 1;
                self.restart();
                continue;
            }
            if report.drain_request.is_some() || report.next_attempt == NextAttempt::Now {
                continue;
            }
            return report;
        }
        panic!("the node does not come to rest: {:?}", self.order);
    }

    /// Lets the daemon recover without any order, however often it boots for that.
    pub fn recover(&mut self) -> Result<(), String> {
        for _ in 0..40 {
            if !self.agent.recover()? {
                return Ok(());
            }
            self.host.boot_orderly();
            self.restart();
        }
        panic!("the machine reboots endlessly: {:#?}", self.host.calls());
    }

    /// Restarts the daemon.
    pub fn restart(&mut self) {
        self.agent = Agent::new(self.host.clone(), AgentOptions::default());
    }

    pub fn obey(&mut self, desired: &Config) -> Report {
        self.order.desired = Some(desired.clone());
        self.settle()
    }
}
