//! Decisions performed on an API server: what a failure ends, and what it does not.
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use seaworthy_runtime::{Applier, CacheSet, Leadership, Metrics};
use seaworthy_testkit::Embedded;
use serde_json::json;

struct Nodes {
    cluster: Embedded,
    applier: Applier,
}

impl Nodes {
    async fn create(names: &[&str]) -> Nodes {
        let cluster = Embedded::start().await;
        for name in names {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            Api::<Node>::all(cluster.client()).create(&PostParams::default(), &node).await.unwrap();
        }
        let applier = Applier::new(
            cluster.client(),
            "test",
            Leadership::always(),
            Arc::<Metrics>::default(),
            CacheSet::default(),
        );
        Nodes { cluster, applier }
    }

    /// The patch of a node at its present revision.
    async fn patch(&self, name: &str) -> Change {
        let node = Api::<Node>::all(self.cluster.client()).get(name).await.unwrap();
        Change::patch(ObjectRef::of(&node), json!({"metadata": {"annotations": {"seaworthy.dev/test": "ordered"}}}))
    }

    /// The same at a revision that is long gone.
    async fn outdated(&self, name: &str) -> Change {
        let mut change = self.patch(name).await;
        change.object.resource_version = Some("1".to_owned());
        change
    }

    async fn ordered(&self) -> Vec<String> {
        let nodes = Api::<Node>::all(self.cluster.client()).list(&ListParams::default()).await.unwrap();
        let ordered = nodes.items.iter().filter(|node| node.annotations().contains_key("seaworthy.dev/test"));
        ordered.map(ResourceExt::name_any).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_of_one_object_ends_neither_the_changes_of_others_nor_later_stages() {
    let nodes = Nodes::create(&["w0", "w1", "w2"]).await;
    let changes = [nodes.outdated("w0").await, nodes.patch("w1").await];
    let stages =
        [Stage::per_object(Purpose::Order, changes), Stage::sequence(Purpose::Status, [nodes.patch("w2").await])];
    let performed = nodes.applier.perform(&Decision::of(stages)).await;
    assert!(!performed.is_done(&ObjectRef::named::<Node>("w0")) && performed.is_done(&ObjectRef::named::<Node>("w1")));
    assert_eq!((performed.stopped_at, nodes.ordered().await), (None, vec!["w1".to_owned(), "w2".to_owned()]));
    assert!(performed.failures[0].is_conflict());
}

#[tokio::test(start_paused = true)]
async fn failure_in_a_sequence_ends_the_decision_and_one_of_independent_changes_does_not() {
    let nodes = Nodes::create(&["w0", "w1"]).await;
    let reserve = || async { [nodes.outdated("w0").await] };
    let order = nodes.patch("w1").await;
    let sequence = [Stage::sequence(Purpose::Reserve, reserve().await), Stage::each(Purpose::Order, [order.clone()])];
    let performed = nodes.applier.perform(&Decision::of(sequence)).await;
    assert_eq!((performed.stopped_at, nodes.ordered().await.len()), (Some(Purpose::Reserve), 0));
    let each = [Stage::each(Purpose::Reserve, reserve().await), Stage::each(Purpose::Order, [order])];
    let performed = nodes.applier.perform(&Decision::of(each)).await;
    assert_eq!((performed.failures.len(), nodes.ordered().await), (1, vec!["w1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn change_that_cannot_be_sent_is_an_error_that_names_its_object() {
    let nodes = Nodes::create(&[]).await;
    let unplaced = Change::patch(ObjectRef::named::<ConfigMap>("a"), json!({}));
    let error = nodes.applier.change(unplaced).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot patch ConfigMap a: the change is invalid: it has no namespace");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_a_failure_only_where_later_changes_rest_on_it() {
    let nodes = Nodes::create(&["w1"]).await;
    nodes.applier.change(Change::delete(ObjectRef::named::<Node>("w9"))).await.unwrap();
    let gone = || Change::patch(ObjectRef::named::<Node>("w9"), json!({"metadata": {}}));
    let changes = [gone(), nodes.patch("w1").await];
    let performed = nodes.applier.perform(&Decision::of([Stage::per_object(Purpose::Order, changes)])).await;
    assert!(!performed.is_done(&gone().object) && performed.is_done(&ObjectRef::named::<Node>("w1")));
    assert_eq!((performed.failures.len(), nodes.ordered().await), (0, vec!["w1".to_owned()]));
    let stages = [Stage::sequence(Purpose::Reserve, [gone()]), Stage::each(Purpose::Order, [nodes.patch("w1").await])];
    let performed = nodes.applier.perform(&Decision::of(stages)).await;
    assert_eq!(performed.stopped_at, Some(Purpose::Reserve));
    assert!(performed.result().unwrap_err().is_gone());
}

#[tokio::test(start_paused = true)]
async fn events_of_changes_that_were_made_are_written_although_a_later_change_fails() {
    let nodes = Nodes::create(&["w0", "w1"]).await;
    let event = |change: &Change, reason| {
        let event = Event { is_warning: false, reason, message: reason.to_owned(), related: None };
        Change::emit(change.object.clone(), event)
    };
    let (made, refused) = (nodes.patch("w1").await, nodes.outdated("w0").await);
    let changes = [made.clone(), event(&made, "Made"), refused.clone(), event(&refused, "Refused")];
    let performed = nodes.applier.perform(&Decision::of([Stage::sequence(Purpose::Write, changes)])).await;
    assert_eq!(performed.failures.len(), 1);
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(nodes.cluster.client());
    let found = events.list(&ListParams::default()).await.unwrap().items;
    let reasons: Vec<Option<String>> = found.into_iter().map(|event| event.reason).collect();
    assert_eq!(reasons, [Some("Made".to_owned())]);
}
