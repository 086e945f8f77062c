//! Housekeeping in the background.

use seaworthy_store::EventKind;

use crate::housekeeping::cluster::{CONFIG_MAPS, Cluster, config_map, owner};

#[tokio::test]
async fn started_housekeeping_works_by_itself_until_it_is_stopped() {
    let cluster = Cluster::start().await;
    let housekeeping = cluster.server.start();
    let mut watch = cluster.server.store().watch("core/configmaps", cluster.server.store().revision()).unwrap();
    let parent = cluster.create(CONFIG_MAPS, config_map("parent", &[])).await;
    cluster.create(CONFIG_MAPS, config_map("child", &[owner(&parent)])).await;
    cluster.delete(&format!("{CONFIG_MAPS}/parent"), None).await;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let events = watch.next().await.unwrap().events;
        let deleted = events.iter().filter(|event| event.kind == EventKind::Deleted);
        gone.extend(deleted.map(|event| event.record.key.name.to_string()));
    }
    assert_eq!(gone, ["parent", "child"]);
    housekeeping.stop().await;
    let parent = cluster.create(CONFIG_MAPS, config_map("parent", &[])).await;
    cluster.create(CONFIG_MAPS, config_map("child", &[owner(&parent)])).await;
    cluster.delete(&format!("{CONFIG_MAPS}/parent"), None).await;
    assert!(cluster.get(&format!("{CONFIG_MAPS}/child")).await.is_some());
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/child")).await, None);
}

#[tokio::test]
async fn settling_beside_started_housekeeping_waits_for_its_work() {
    let cluster = Cluster::start().await;
    let _housekeeping = cluster.server.start();
    for round in 0..20 {
        let name = format!("parent{round}");
        let parent = cluster.create(CONFIG_MAPS, config_map(&name, &[])).await;
        cluster.create(CONFIG_MAPS, config_map("child", &[owner(&parent)])).await;
        cluster.delete(&format!("{CONFIG_MAPS}/{name}"), None).await;
        cluster.server.settle().await;
        assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/child")).await, None);
    }
}
