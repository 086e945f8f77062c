//! Adoption under the real controllers.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use seaworthy_host::FakeHost;
use seaworthy_node::paths;
use serde_json::json;

use crate::fleet::{Fleet, file, is_updated};

const UNADOPTED: [&str; 3] = ["s0", "s1", "s2"];

fn value_of(node: &Node, key: Annotation) -> Option<&str> {
    key.of(&node.metadata)
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_that_were_there_are_left_as_they_are_until_they_are_taken_in_and_their_pool_moves() {
    let mut fleet = Fleet::start(1).await;
    for name in UNADOPTED {
        let host = FakeHost::new(name);
        host.put(paths::KUBELET_CA, b"their own", 0o600);
        fleet.bring(name, host).await;
    }
    for name in UNADOPTED {
        let asks = |node: &Node| value_of(node, annotation::REASON).is_some_and(|reason| reason.contains("adopt=true"));
        fleet.until(name, asks).await;
    }
    // They block no other node.
    fleet.apply("50-motd", file("/etc/motd", "hello")).await;
    let has_motd = |node: &Node| {
        value_of(node, annotation::STATE) == Some("Done")
            && value_of(node, annotation::CURRENT_CONFIG) == value_of(node, annotation::DESIRED_CONFIG)
    };
    let w0 = &fleet.hosts["w0"];
    fleet.until("w0", |node: &Node| has_motd(node) && w0.text("/etc/motd").is_some()).await;
    let nodes: Api<Node> = fleet.api();
    for name in UNADOPTED {
        let node = nodes.get(name).await.unwrap();
        assert_eq!(
            (value_of(&node, annotation::DESIRED_CONFIG), value_of(&node, annotation::CURRENT_CONFIG)),
            (None, None)
        );
    }

    // Taken in while the pool is paused, they are known, and stay.
    let pools: Api<MachineConfigPool> = fleet.api();
    let pause = async |paused: bool| {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        pools.patch("worker", &PatchParams::default(), &patch).await.unwrap();
    };
    pause(true).await;
    let adopt = Patch::Merge(json!({"metadata": {"annotations": {ADOPT.as_str(): "true"}}}));
    for name in UNADOPTED {
        nodes.patch(name, &PatchParams::default(), &adopt).await.unwrap();
    }
    for name in UNADOPTED {
        let is_known = |node: &Node| {
            value_of(node, annotation::CURRENT_CONFIG) == Some(UNCONFIGURED)
                && value_of(node, annotation::STATE) == Some("Done")
        };
        let node = fleet.until(name, is_known).await;
        assert_eq!(value_of(&node, annotation::DESIRED_CONFIG), Some(UNCONFIGURED), "{name}");
        assert_eq!(fleet.hosts[name].text(paths::KUBELET_CA).as_deref(), Some("their own"), "{name}");
    }
    assert_eq!(fleet.boots(), 1, "only the one that was there for it");

    pause(false).await;
    fleet.pool_is("worker", |pool| is_updated(pool, 4)).await;
    assert_eq!(fleet.boots(), 4);
    for name in UNADOPTED {
        assert_eq!(fleet.hosts[name].text("/etc/motd").as_deref(), Some("hello"), "{name}");
    }
}
