//! Conversations with the real kube-apiserver, recorded once, must go the same way with this server.
//!
//! - `tests/golden/scenarios` holds the requests, `tests/golden/expected` the answers of the reference: a
//!   kube-apiserver (development version of 1.37, August 2026) on etcd 3.7 with its default admission plugins except
//!   `ServiceAccount`, RBAC, and the garbage collector and the namespace controller of kube-controller-manager. Those
//!   about more kinds and their rules were recorded from 1.37.1 set up in the same way, without controllers.
//! - In this process each scenario has a server of its own. What does not pass yet is listed in `pending.txt`; a
//!   listed scenario that passes is a failure, so the list only shrinks.
//! - `REPLAY_ONLY='apply-*,watch'` runs the scenarios with such names or topics, pending or not, and shows the
//!   differences. `REPLAY_PENDING=shrink` takes what passes off the list.
//! - `SEAWORTHY_REPLAY_SERVER` is the address of a server to run them against instead, with `SEAWORTHY_REPLAY_TOKEN`
//!   of a user in `system:masters`, and `SEAWORTHY_REPLAY_CA` (a file) or `SEAWORTHY_REPLAY_INSECURE`. There
//!   `SEAWORTHY_REPLAY_KNOWN` names the list, and `SEAWORTHY_REPLAY_NO_CONTROLLERS` leaves out what needs them.

#![allow(clippy::unwrap_used)]

mod compare;
mod connection;
mod fill;
mod normal;
mod path;
mod report;
mod reshape;
mod run;
mod scenario;
mod text;
mod transport;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seaworthy_apiserver::{Server, ServerOptions, SystemClock};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::compare::differences;
use crate::connection::{Connection, Trust};
use crate::report::{Exceptions, Report};
use crate::run::{TargetServer, run};
use crate::scenario::Scenario;
use crate::transport::InProcess;

/// Longer than any scenario waits.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(300);
/// A scenario that is known to fail gets little time: if it passes, it does so at once.
const PENDING_SCENARIO_TIMEOUT: Duration = Duration::from_millis(1500);

/// The reference delays the first write to a new definition by two seconds, so scenarios run concurrently.
const MAX_CONCURRENT_SCENARIOS: usize = 8;

/// Whether a bookmark comes at the end of a watch depends on what is written meanwhile: nothing, in the recording.
/// So these run first, without concurrent writes.
const SEQUENTIAL_SCENARIOS: [&str; 1] = ["watch-bookmarks"];

fn golden() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden"].iter().collect()
}

/// The scenarios that `REPLAY_ONLY` selects, with what is expected; all of them without it.
fn selected() -> Vec<(Scenario, Value)> {
    let only = env::var("REPLAY_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden().join("scenarios")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
        .into_iter()
        .map(|file| {
            let shown = file.display();
            let scenario = Scenario::parse(&fs::read_to_string(&file).unwrap());
            let scenario = scenario.unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(file.file_stem().unwrap(), scenario.name.as_str(), "{shown} has another name than its scenario");
            let expected = golden().join("expected").join(file.file_name().unwrap());
            let expected = fs::read(&expected).unwrap_or_else(|error| panic!("{}: {error}", expected.display()));
            (scenario, serde_json::from_slice(&expected).unwrap())
        })
        .filter(|(scenario, _)| report::is_selected(&only, scenario))
        .collect()
}

/// Each scenario with a server of its own, all at once: most of the time of those that fail is waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_in_process_pass_unless_they_are_pending() {
    let list: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "replay", "pending.txt"].iter().collect();
    let pending = if env::var_os("REPLAY_ONLY").is_some() { Exceptions::default() } else { Exceptions::load(&list) };
    let mut running = Vec::new();
    for (scenario, expected) in selected() {
        let max_wait = if pending.contains(&scenario.name) { PENDING_SCENARIO_TIMEOUT } else { SCENARIO_TIMEOUT };
        let name = scenario.name.clone();
        let task = tokio::spawn(async move {
            let server = Server::open(ServerOptions::in_memory(Arc::new(SystemClock)).unwrap()).unwrap();
            server.prepare().await.unwrap();
            let _housekeeping = server.start();
            let (transport, token) = (Arc::new(InProcess(server)), InProcess::TOKEN.to_owned());
            let target = TargetServer { transport, token, has_controllers: true, max_wait };
            differences(&scenario, &expected, &run(&target, &scenario).await)
        });
        running.push((name, task));
    }
    let mut report = Report::new(pending);
    for (name, task) in running {
        report.add(&name, task.await.unwrap_or_else(|error| vec![format!("the server panicked: {error}")]));
    }
    if env::var("REPLAY_PENDING").is_ok_and(|how| how == "shrink") {
        report.shrink(&list);
    }
    report.finish();
}

/// All on one server, at most [`MAX_CONCURRENT_SCENARIOS`] at a time. The suite that starts the server reports when
/// there is none, so that this is not listed as skipped in a run that has it as a step of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_on_a_server_elsewhere_pass_unless_their_difference_is_known() {
    let Ok(url) = env::var("SEAWORTHY_REPLAY_SERVER") else {
        eprintln!("SEAWORTHY_REPLAY_SERVER is not set: nothing to run against");
        return;
    };
    let token = env::var("SEAWORTHY_REPLAY_TOKEN").expect("SEAWORTHY_REPLAY_TOKEN is set");
    let trust = match env::var_os("SEAWORTHY_REPLAY_CA") {
        Some(file) => Trust::Authority(fs::read_to_string(file).unwrap()),
        None if env::var_os("SEAWORTHY_REPLAY_INSECURE").is_some() => Trust::Any,
        None => Trust::Authority(String::new()),
    };
    let known = env::var_os("SEAWORTHY_REPLAY_KNOWN").map(|file| Exceptions::load(&PathBuf::from(file)));
    let has_controllers = env::var_os("SEAWORTHY_REPLAY_NO_CONTROLLERS").is_none();
    let transport = Arc::new(Connection::new(&url, &trust).unwrap());
    let target = TargetServer { transport, token, has_controllers, max_wait: SCENARIO_TIMEOUT };
    let mut report = Report::new(known.unwrap_or_default());
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_SCENARIOS));
    let (first, others): (Vec<_>, Vec<_>) =
        selected().into_iter().partition(|(scenario, _)| SEQUENTIAL_SCENARIOS.contains(&scenario.name.as_str()));
    for (scenario, expected) in first {
        report.add(&scenario.name, differences(&scenario, &expected, &run(&target, &scenario).await));
    }
    let mut running = Vec::new();
    for (scenario, expected) in others {
        if !has_controllers && scenario.needs_controllers() {
            report.leave_out(&scenario.name);
            continue;
        }
        let (name, target, permits) = (scenario.name.clone(), target.clone(), permits.clone());
        let task = tokio::spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            differences(&scenario, &expected, &run(&target, &scenario).await)
        });
        running.push((name, task));
    }
    for (name, task) in running {
        report.add(&name, task.await.unwrap());
    }
    report.finish();
}
