//! Retention periods of Events and history.

use jiff::SignedDuration;
use seaworthy_store::ReadError;
use serde_json::json;

use crate::housekeeping::cluster::{CONFIG_MAPS, Cluster, config_map};

#[tokio::test]
async fn history_is_forgotten_after_ten_minutes_and_not_before() {
    let cluster = Cluster::start().await;
    let store = cluster.server.store();
    let before = store.revision();
    cluster.create(CONFIG_MAPS, config_map("a", &[])).await;
    let begin = store.revision();
    cluster.server.settle().await;
    for _ in 0..9 {
        cluster.advance(SignedDuration::from_mins(1));
        cluster.server.settle().await;
    }
    assert!(store.watch("core/configmaps", before).is_ok());
    cluster.advance(SignedDuration::from_mins(1));
    cluster.server.settle().await;
    assert_eq!(store.watch("core/configmaps", before).unwrap_err(), ReadError::Expired { oldest: begin });
    assert!(store.watch("core/configmaps", begin).is_ok());
    assert!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.is_some());
}

#[tokio::test]
async fn event_goes_an_hour_after_its_last_write() {
    let cluster = Cluster::start().await;
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
            "reason": "Seen", "message": "seen", "type": "Normal", "count": 1,
        })
    };
    cluster.create(events, event("once")).await;
    cluster.create(events, event("again")).await;
    cluster.advance(SignedDuration::from_mins(30));
    cluster.server.settle().await;
    cluster.patch(&format!("{events}/again"), json!({"count": 2})).await;
    cluster.advance(SignedDuration::from_mins(31));
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{events}/once")).await, None);
    assert!(cluster.get(&format!("{events}/again")).await.is_some());
    cluster.advance(SignedDuration::from_mins(30));
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{events}/again")).await, None);
}
