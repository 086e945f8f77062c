//! Events on an API server, with and without network faults.
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::core::ObjectMeta;
use seaworthy_change::ObjectRef;
use seaworthy_runtime::{Events, Leadership};
use seaworthy_testkit::{Embedded, FaultInjector, FaultRates};

async fn notes(cluster: &Embedded) -> Vec<String> {
    let events: Api<Event> = Api::all(cluster.client());
    let found = events.list(&ListParams::default()).await.unwrap().items;
    let mut notes: Vec<String> = found.into_iter().filter_map(|event| event.note).collect();
    notes.sort();
    notes
}

#[tokio::test(start_paused = true)]
async fn every_related_object_has_its_own_event_and_a_failed_one_is_written_later() {
    let cluster = Embedded::start().await;
    let injector = FaultInjector::new(FaultRates { error: 1000, ..FaultRates::default() }, 1);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let metadata = ObjectMeta { name: Some("pool".to_owned()), ..ObjectMeta::default() };
    let pool = maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
    let events = Events::new(cluster.client_with_faults(&injector), "test", Leadership::always());
    let completed = async |config: &str| {
        let related = Some(ObjectRef::named::<Node>(config));
        let message = format!("completed {config}");
        let event = seaworthy_change::Event { is_warning: false, reason: "Completed", message, related };
        events.emit(&ObjectRef::of(&pool), &event).await;
    };

    completed("a").await;
    assert_eq!(notes(&cluster).await, [""; 0]);
    assert_eq!(injector.injected().errors, 3, "a bounded number of tries");
    injector.set_rates(FaultRates::default());
    completed("a").await;
    completed("a").await;
    completed("b").await;
    assert_eq!(notes(&cluster).await, ["completed a", "completed b"]);
}
