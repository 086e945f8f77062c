//! Two candidates and one lease on a real API server: one acts at a time, whatever happens to the other.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use seaworthy_runtime::{Campaign, Leadership, Terms, leadership};
use seaworthy_testkit::Cluster;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

const LEASE: &str = "seaworthy-controllers";

fn stand(client: Client, identity: &str) -> (JoinHandle<Campaign>, Leadership) {
    let (mut campaign, leadership) = Campaign::new(client, "default", LEASE, identity, Terms::default());
    let running = tokio::spawn(async move {
        campaign.run().await;
        campaign
    });
    (running, leadership)
}

async fn holder(client: &Client) -> String {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.get(LEASE).await.unwrap().spec.unwrap().holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn second_candidate_leads_when_the_first_has_stopped() {
    let cluster = Cluster::start().await;
    let (first, leads_first) = stand(cluster.client(), "first");
    leads_first.acquired().await;
    let (_second, leads_second) = stand(cluster.client(), "second");
    assert!(timeout(Duration::from_secs(60), leads_second.acquired()).await.is_err(), "the first renews its lease");
    assert!(leads_first.holds());

    first.abort();
    advance(Duration::from_secs(1)).await;
    let takeover = tokio::time::Instant::now();
    leads_second.acquired().await;
    assert!(!leads_first.holds());
    assert!(takeover.elapsed() >= Duration::from_secs(10), "the first may act until its deadline");
    assert_eq!(holder(&cluster.client()).await, "second");
}

#[tokio::test(start_paused = true)]
async fn lease_that_was_given_back_is_taken_at_once() {
    let cluster = Cluster::start().await;
    let (mut first, leads_first) = Campaign::new(cluster.client(), "default", LEASE, "first", Terms::default());
    tokio::select! {
        () = first.run() => panic!("nobody took it"),
        () = leads_first.acquired() => {}
    }
    first.resign().await.unwrap();
    assert!(!leads_first.holds());
    let (_second, leads_second) = stand(cluster.client(), "second");
    timeout(Duration::from_secs(3), leads_second.acquired()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_merely_held_keeps_candidates_waiting_until_it_lapses() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let of_holder = client.clone();
    let held = tokio::spawn(async move { leadership::hold(of_holder, "default", LEASE, "alone").await });
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let is_held = async {
        while leases.get_opt(LEASE).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(300), is_held).await.expect("nobody holds it");
    let (_second, leads_second) = stand(client.clone(), "second");
    assert!(timeout(Duration::from_secs(300), leads_second.acquired()).await.is_err(), "it is renewed");
    assert_eq!(holder(&client).await, "alone");

    held.abort();
    let takeover = tokio::time::Instant::now();
    timeout(Duration::from_secs(300), leads_second.acquired()).await.unwrap();
    assert!(takeover.elapsed() >= Duration::from_secs(30), "whoever held it may act for as long as it says");
    assert_eq!(holder(&client).await, "second");
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_was_taken_stops() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let (first, leads_first) = stand(client.clone(), "first");
    leads_first.acquired().await;
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let taken = json!({"spec": {"holderIdentity": "thief"}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    leads_first.lost().await;
    assert!(!leads_first.holds());
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_alone_waits_for_the_loss_of_its_leadership_without_work() {
    let leadership = Leadership::alone();
    leadership.acquired().await;
    // Time passes only while nobody works: who asks without end would keep it from passing.
    let lost = tokio::spawn(async move { leadership.lost().await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!lost.is_finished());
    lost.abort();
}
