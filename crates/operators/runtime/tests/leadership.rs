//! Leader election with two candidates and one lease on an API server: one leads at a time, whatever happens to the other.
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use seaworthy_runtime::{LeaderElector, Leadership, LeaseTimings, leadership};
use seaworthy_testkit::Cluster;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

const LEASE: &str = "seaworthy-controllers";

fn start_candidate(client: Client, identity: &str) -> (JoinHandle<LeaderElector>, Leadership) {
    let (mut elector, leadership) = LeaderElector::new(client, "default", LEASE, identity, LeaseTimings::default());
    let running = tokio::spawn(async move {
        elector.run().await;
        elector
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
    let (first, leads_first) = start_candidate(cluster.client(), "first");
    leads_first.acquired().await;
    let (_second, leads_second) = start_candidate(cluster.client(), "second");
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
async fn released_lease_is_taken_at_once() {
    let cluster = Cluster::start().await;
    let (mut first, leads_first) =
        LeaderElector::new(cluster.client(), "default", LEASE, "first", LeaseTimings::default());
    tokio::select! {
        () = first.run() => panic!("the lease was not acquired"),
        () = leads_first.acquired() => {}
    }
    first.release().await.unwrap();
    assert!(!leads_first.holds());
    let (_second, leads_second) = start_candidate(cluster.client(), "second");
    timeout(Duration::from_secs(3), leads_second.acquired()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lease_held_without_an_election_keeps_candidates_waiting_until_it_expires() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let of_holder = client.clone();
    let held = tokio::spawn(async move { leadership::hold_lease(of_holder, "default", LEASE, "alone").await });
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let is_held = async {
        while leases.get_opt(LEASE).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(300), is_held).await.expect("the lease is not held");
    let (_second, leads_second) = start_candidate(client.clone(), "second");
    assert!(timeout(Duration::from_secs(300), leads_second.acquired()).await.is_err(), "it is renewed");
    assert_eq!(holder(&client).await, "alone");

    held.abort();
    let takeover = tokio::time::Instant::now();
    timeout(Duration::from_secs(300), leads_second.acquired()).await.unwrap();
    assert!(takeover.elapsed() >= Duration::from_secs(30), "its holder may act for the lease duration");
    assert_eq!(holder(&client).await, "second");
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_was_taken_stops() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let (first, leads_first) = start_candidate(client.clone(), "first");
    leads_first.acquired().await;
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let taken = json!({"spec": {"holderIdentity": "thief"}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    leads_first.lost().await;
    assert!(!leads_first.holds());
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn process_without_an_election_waits_for_the_loss_without_work() {
    let leadership = Leadership::always();
    leadership.acquired().await;
    // Paused time passes only while all tasks are idle: a busy loop would stop it.
    let lost = tokio::spawn(async move { leadership.lost().await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!lost.is_finished());
    lost.abort();
}
