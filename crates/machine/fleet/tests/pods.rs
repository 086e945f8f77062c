//! Pods that exist before their machine: they are started when it is added, without a change of theirs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use seaworthy_fleet::{FleetTimings, pods};
use seaworthy_testkit::Embedded;
use serde_json::json;

/// Time passes only while all tasks wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(3600);

async fn create(pods: &Api<Pod>, name: &str, node: &str) {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "simulated"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

async fn until(pods: &Api<Pod>, name: &str, is_it: impl Fn(&Pod) -> bool + Copy) {
    let found = |pod: Option<&Pod>| pod.is_some_and(is_it);
    let waited = tokio::time::timeout(WAIT_TIMEOUT, await_condition(pods.clone(), name, found)).await;
    assert!(waited.is_ok(), "{name}: {:?}", pods.get(name).await.unwrap().status);
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_machine_that_comes_later_are_started_and_ended_when_it_is_there() {
    let cluster = Embedded::start().await;
    let client = cluster.client();
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&api, "new", "late").await;
    create(&api, "old", "late").await;
    create(&api, "foreign", "elsewhere").await;
    api.delete("old", &DeleteParams::default().grace_period(30)).await.unwrap();
    assert!(api.get("old").await.unwrap().metadata.deletion_timestamp.is_some(), "its kubelet has the last word");

    let ours: Arc<Mutex<BTreeSet<&str>>> = Arc::new(Mutex::new(["first"].into()));
    let known = Arc::clone(&ours);
    let is_ours = move |node: &str| known.lock().unwrap().contains(node);
    let running = tokio::spawn(pods::run(client, FleetTimings::default(), Arc::new(Timestamp::now), is_ours));
    // It comes after the others, so they have been seen when it runs.
    create(&api, "last", "first").await;
    until(&api, "last", is_running).await;
    assert!(!is_running(&api.get("new").await.unwrap()));
    assert!(api.get_opt("old").await.unwrap().is_some());

    // The machine is there, and its pods do not change.
    ours.lock().unwrap().insert("late");
    until(&api, "new", is_running).await;
    let gone = |pod: Option<&Pod>| pod.is_none();
    let waited = tokio::time::timeout(WAIT_TIMEOUT, await_condition(api.clone(), "old", gone)).await;
    assert!(waited.is_ok(), "a pod that was deleted before its machine was added still exists");
    assert!(!is_running(&api.get("foreign").await.unwrap()), "it is of another node");
    running.abort();
}
