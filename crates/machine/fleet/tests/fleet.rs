//! Simulated nodes under the real controllers.

#![allow(clippy::unwrap_used)]

mod pods;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_deploy::policy::own_node;
use seaworthy_deploy::{Component, controllers_account, rights};
use seaworthy_fleet::{Fleet, FleetOptions, FleetTimings, Workload};
use seaworthy_host::Host as _;
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_node::paths;
use seaworthy_runtime::objects;
use seaworthy_runtime::{NAMESPACE, Operator as _};
use seaworthy_testkit::{Cluster, Embedded};
use serde_json::{Value, json};
use support::{WAIT_TIMEOUT, World, file, is_degraded, timings, value_of};

fn boot_id(node: &Node) -> String {
    node.status.clone().unwrap().node_info.unwrap().boot_id
}

#[tokio::test(flavor = "multi_thread")]
async fn node_looks_as_its_kubelet_makes_it_and_boots_into_its_order() {
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 3).await;
    let before = world.node("w1").await;
    let labels = before.metadata.labels.clone().unwrap();
    for label in ["node-role.kubernetes.io/worker", "kubernetes.io/hostname", "seaworthy.dev/simulated"] {
        assert!(labels.contains_key(label), "{label}");
    }
    assert_eq!(before.spec.clone().unwrap_or_default().taints, None);
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(3).await;
    for (name, host) in world.fleet.hosts("worker") {
        assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"), "{name}");
        assert_eq!(world.fleet.boots(&name), 1, "{name}");
    }
    let after = world.node("w1").await;
    assert_ne!(boot_id(&before), boot_id(&after));
    let conditions = after.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True"));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_machine_is_given_its_configuration_by_the_endpoint_and_boots_into_it() {
    let cluster = Cluster::start().await;
    let world = World::start(cluster.client(), timings()).await;
    world.until("worker", |pool: &MachineConfigPool| support::target(pool).is_some()).await;
    let mut spec = file("/etc/motd", "hello");
    spec["kernelArguments"] = json!(["nosmt"]);
    world.apply("50-motd", spec).await;
    // No node has run a configuration yet, so the pool's status has its target.
    let is_reached = |pool: &MachineConfigPool| {
        let reached = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
        reached.is_some() && reached == support::target(pool)
    };
    let pool = world.until("worker", is_reached).await;
    let endpoint = world.endpoint.as_ref().unwrap();

    // A machine without a valid token gets no config, and never becomes a node.
    let stubs = Some(endpoint.stubs("abcdef.ffffffffffffffff"));
    let options =
        FleetOptions { stubs, join_timeout: Duration::from_secs(2), ..FleetOptions::new(world.client.clone()) };
    let refused = Fleet::start(world.client.clone(), options).add("w9", "worker").await.unwrap_err().to_string();
    assert!(refused.contains("/config/worker") && refused.contains("401"), "{refused}");
    assert!(world.api::<Node>().get_opt("w9").await.unwrap().is_none());

    let wanted = support::target(&pool).unwrap();
    world.fleet.add("w1", "worker").await.unwrap();
    world.settled(1).await;
    let (node, host) = (world.node("w1").await, world.fleet.host("w1").unwrap());
    assert_eq!(value_of(&node, annotation::CURRENT_CONFIG), wanted);
    assert_eq!(value_of(&node, annotation::FIRST_PIVOT_CONFIG), wanted);
    assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"));
    assert!(host.boot().unwrap().arguments.contains(&"nosmt".to_owned()));
    // What only the endpoint adds; and it was all there before the node was.
    assert!(host.text("/etc/kubernetes/kubeconfig").unwrap().contains("https://api.example:6443"));
    assert!(!host.exists(paths::ENCAPSULATED).unwrap());
    assert_eq!(world.fleet.boots("w1"), 0);
    assert_eq!(value_of(&node, annotation::DESIRED_DRAIN), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_that_a_machine_refuses_degrades_one_node_and_the_revert_reaches_it_first() {
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 3).await;
    // A node that has failed reports the reason until it has succeeded.
    let nodes: Api<Node> = Api::all(world.client.clone());
    let mut seen = Box::pin(watcher(nodes, watcher::Config::default()).default_backoff().applied_objects());
    let silent = tokio::spawn(async move {
        while let Some(node) = seen.next().await {
            if node.is_ok_and(|node| is_degraded(&node) && value_of(&node, annotation::REASON).is_empty()) {
                return;
            }
        }
    });
    world.apply("50-bad", file("/usr/share/banner", "x")).await;
    let is_bad =
        |pool: &MachineConfigPool| pool.status.as_ref().is_some_and(|status| status.degraded_machine_count == Some(1));
    world.until("worker", is_bad).await;
    let nodes: Vec<Node> = Api::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
    let bad: Vec<&Node> = nodes.iter().filter(|node| is_degraded(node)).collect();
    assert_eq!(bad.len(), 1);
    let reason = value_of(bad[0], annotation::REASON);
    assert!(reason.contains("/usr/share/banner") && reason.contains("Read-only file system"), "{reason}");
    let name = bad[0].metadata.name.clone().unwrap();
    let others: Vec<&Node> = nodes.iter().filter(|node| !is_degraded(node)).collect();
    assert!(
        others
            .iter()
            .all(|node| value_of(node, annotation::DESIRED_CONFIG) == value_of(node, annotation::CURRENT_CONFIG))
    );

    // The fixed configuration goes to all nodes, first to the one that failed.
    world.apply("50-bad", file("/etc/banner", "x")).await;
    let wanted = support::target(&world.api::<MachineConfigPool>().get("worker").await.unwrap()).unwrap().to_owned();
    world.until(&name, |node: &Node| value_of(node, annotation::DESIRED_CONFIG) == wanted).await;
    let others: Vec<String> = others.iter().map(|node| node.metadata.name.clone().unwrap()).collect();
    world.until(&name, |node: &Node| value_of(node, annotation::CURRENT_CONFIG) == wanted).await;
    world.settled(3).await;
    for other in &others {
        assert_eq!(world.fleet.boots(other), 1);
    }
    assert!(!is_degraded(&world.node(&name).await));
    assert!(!silent.is_finished(), "a node has failed, and its reason was empty");
    silent.abort();
    // And taken away, it is gone from all.
    world.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    world.until("worker", |pool| support::target(pool) != Some(wanted.as_str())).await;
    world.settled(3).await;
    assert!(world.fleet.hosts("worker").values().all(|host| host.text("/etc/banner").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_that_loses_power_and_one_that_comes_back_are_where_they_were() {
    let cluster = Cluster::start().await;
    let mut world = World::with_workers(cluster.client(), timings(), 2).await;
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(2).await;
    let before = boot_id(&world.node("w1").await);
    world.fleet.reset("w1");
    world.until("w1", |node: &Node| boot_id(node) != before).await;
    assert_eq!(world.fleet.boots("w1"), 2);
    assert_eq!(world.fleet.host("w1").unwrap().text("/etc/motd").as_deref(), Some("hello"));

    // The process ends, and another begins on the same cluster.
    let before = boot_id(&world.node("w2").await);
    world.fleet = Fleet::start(
        world.client.clone(),
        FleetOptions { timings: timings(), ..FleetOptions::new(world.client.clone()) },
    );
    for (name, role) in Fleet::existing(&world.client).await.unwrap() {
        world.fleet.add(&name, &role).await.unwrap();
    }
    assert_eq!(world.fleet.hosts("worker").len(), 2);
    world.until("w2", |node: &Node| boot_id(node) != before).await;
    world.apply("60-other", file("/etc/other", "too")).await;
    world.settled(2).await;
    for host in world.fleet.hosts("worker").values() {
        assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"));
        assert_eq!(host.text("/etc/other").as_deref(), Some("too"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_leave_a_node_before_it_boots_and_their_budget_holds() {
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 3).await;
    let workload =
        Workload { namespace: "default".to_owned(), name: "web".to_owned(), replicas: 3, min_available: Some(2) };
    world.fleet.run(workload);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let names = async || {
        let all = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
        let is_running = |pod: &&Pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
        let running = all.items.iter().filter(is_running).filter(|pod| pod.metadata.deletion_timestamp.is_none());
        running.map(|pod| pod.metadata.name.clone().unwrap()).collect::<Vec<String>>()
    };
    let all = async {
        loop {
            let names = names().await;
            if names.len() == 3 {
                return names;
            }
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::time::timeout(WAIT_TIMEOUT, all).await.expect("not all pods run");
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    let mut fewest = usize::MAX;
    let mut settled = std::pin::pin!(world.settled(3));
    loop {
        tokio::select! {
            _ = &mut settled => break,
            names = names() => fewest = fewest.min(names.len()),
        }
    }
    assert!(fewest >= 2, "only {fewest} were left at a time");
    // Every node was drained, so each of the first pods had to leave.
    let now = names().await;
    assert!(first.iter().all(|name| !now.contains(name)), "{first:?} {now:?}");
    assert!(world.fleet.hosts("worker").keys().all(|name| world.fleet.boots(name) == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_of_the_kernel_is_in_force_without_a_boot() {
    let cluster = Embedded::start().await;
    let world = World::with_workers(cluster.client(), timings(), 2).await;
    world.apply("50-swap", file("/etc/sysctl.d/50-swap.conf", "vm.swappiness=10\n")).await;
    world.settled(2).await;
    for (name, host) in world.fleet.hosts("worker") {
        assert_eq!(host.text("/proc/sys/vm/swappiness").as_deref(), Some("10\n"), "{name}");
        assert_eq!(world.fleet.boots(&name), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_reaches_a_node_whose_pods_cannot_leave_and_it_does_not_boot() {
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 1).await;
    let workload =
        Workload { namespace: "default".to_owned(), name: "db".to_owned(), replicas: 1, min_available: Some(1) };
    world.fleet.run(workload);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let is_running = |pod: Option<&Pod>| {
        pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()).is_some_and(|phase| phase == "Running")
    };
    let first = async {
        loop {
            let all = pods.list(&ListParams::default().labels("app=db")).await.unwrap().items;
            if let Some(pod) = all.iter().find(|pod| is_running(Some(pod))) {
                return pod.metadata.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::time::timeout(WAIT_TIMEOUT, first).await.expect("the pod never runs");
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    let is_blocked = |found: &MachineConfigNode| {
        let conditions = found.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.reason == "DrainBlocked")
    };
    world.until("w1", is_blocked).await;
    world.api::<MachineConfig>().delete("50-motd", &Default::default()).await.unwrap();
    world.settled(1).await;
    let is_free = |node: &Node| {
        let value = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).map(str::to_owned);
        value(annotation::STATE).as_deref() == Some("Done")
            && value(annotation::DESIRED_CONFIG) == value(annotation::CURRENT_CONFIG)
    };
    world.until("w1", is_free).await;
    assert_eq!(world.fleet.boots("w1"), 0);
    assert_eq!(pods.get(first.name.as_deref().unwrap()).await.unwrap().metadata.uid, first.uid, "it was not evicted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_taken_back_while_pods_leave_leaves_no_cordon_and_the_next_is_followed() {
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 1).await;
    // It has been drained and let in pods for what it goes back to.
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(1).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": {
            "name": "lingers", "finalizers": ["example.org/lingers"],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "u", "controller": true},
            ],
        },
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "i"}]},
    }));
    pods.create(&Default::default(), &pod.unwrap()).await.unwrap();
    world.apply("60-more", file("/etc/more", "x")).await;
    let is_cordoned = |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    world.until("w1", is_cordoned).await;
    let is_leaving = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
    let leaving = kube::runtime::wait::await_condition(pods.clone(), "lingers", is_leaving);
    tokio::time::timeout(WAIT_TIMEOUT, leaving).await.expect("it is not evicted").unwrap();

    world.api::<MachineConfig>().delete("60-more", &Default::default()).await.unwrap();
    let is_back = |node: &Node| {
        let key = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).map(str::to_owned);
        key(annotation::STATE).as_deref() == Some("Done")
            && key(annotation::DESIRED_CONFIG) == key(annotation::CURRENT_CONFIG)
            && !is_cordoned(node)
    };
    world.until("w1", is_back).await;
    assert_eq!(world.fleet.boots("w1"), 1, "nothing has changed");
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("lingers", &PatchParams::default(), &freed).await.unwrap();
    world.apply("70-again", file("/etc/again", "x")).await;
    world.until("w1", |_: &Node| world.fleet.boots("w1") == 2).await;
    world.settled(1).await;
}

/// What a kubelet does here beside its daemon; a real one has it from Kubernetes.
fn kubelet() -> [Value; 2] {
    let rule = |resource: &str, verb: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
    let group = "rbac.authorization.k8s.io";
    [
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "kubelets"},
            "rules": [rule("nodes", "create"), rule("nodes/status", "patch")],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "kubelets"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "kubelets"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}],
        }),
    ]
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 || status.code == 422 => {}
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_do_all_of_it_with_the_rights_that_are_deployed_and_can_do_nothing_else() {
    let cluster = Cluster::start().await;
    let mut world = World::start(cluster.client(), timings()).await;
    let manifest = MachineConfigOperator::default().manifest(&controllers_account(NAMESPACE));
    let deployed = rights::of(Component::Daemon, NAMESPACE, &[manifest]).into_iter().chain(own_node::objects());
    for object in deployed.chain(kubelet()) {
        objects::create(&world.client, &object).await.unwrap();
    }
    let own = |name: &str| cluster.client_as(&format!("system:node:{name}"), &["system:nodes"]);
    let clients: BTreeMap<String, Client> = ["w1", "w2"].map(|name| (name.to_owned(), own(name))).into();
    let (first, second) = (clients["w1"].clone(), clients["w2"].clone());
    let options = FleetOptions {
        timings: timings(),
        stubs: Some(world.endpoint.as_ref().unwrap().stubs(support::TOKEN)),
        client_of: Arc::new(move |name| clients[name].clone()),
        ..FleetOptions::new(world.client.clone())
    };
    world.fleet = Fleet::start(world.client.clone(), options);
    let world = world.and_workers(2).await;

    // From the first boot over a drain and a boot to what the ControllerConfig wants kept right.
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(2).await;
    let renewed = json!({"spec": {"internalRegistryPullSecret": "e30="}});
    let configs: Api<ControllerConfig> = world.api();
    configs.patch("machine-config-controller", &PatchParams::default(), &Patch::Merge(&renewed)).await.unwrap();
    for host in world.fleet.hosts("worker").values() {
        assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"));
        while host.text(paths::PULL_SECRET).as_deref() != Some("{}") {
            tokio::task::yield_now().await;
        }
    }

    let (params, note) = (PatchParams::default(), json!({"metadata": {"annotations": {"a": "b"}}}));
    let nodes: Api<Node> = Api::all(first.clone());
    nodes.patch("w1", &params, &Patch::Merge(&note)).await.unwrap();
    is_refused(nodes.patch("w2", &params, &Patch::Merge(&note)).await);
    is_refused(nodes.patch_status("w2", &params, &Patch::Merge(&json!({"status": {"phase": "a"}}))).await);
    is_refused(Api::<Node>::all(second).patch("w1", &params, &Patch::Merge(&note)).await);
    is_refused(nodes.delete("w1", &Default::default()).await);
    let rendered: Api<MachineConfig> = Api::all(first.clone());
    is_refused(rendered.list(&ListParams::default()).await);
    is_refused(rendered.patch("50-motd", &params, &Patch::Merge(&note)).await);
    is_refused(Api::<MachineConfigPool>::all(first.clone()).get("worker").await);
    is_refused(Api::<ControllerConfig>::all(first.clone()).list(&ListParams::default()).await);
    is_refused(Api::<Secret>::namespaced(first.clone(), "kube-system").list(&ListParams::default()).await);
    is_refused(Api::<Pod>::all(first).list(&ListParams::default()).await);
}

/// Hours pass in no time.
#[tokio::test(start_paused = true)]
async fn boots_take_the_time_that_they_are_given() {
    let cluster = Embedded::start().await;
    let boot = Duration::from_secs(600);
    let world = World::without_sockets(cluster.client(), FleetTimings { boot_delay: boot, ..timings() })
        .await
        .and_workers(3)
        .await;
    let start = tokio::time::Instant::now();
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(3).await;
    assert!(start.elapsed() >= 3 * boot, "one after the other takes longer than {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn node_gives_signs_of_life_as_often_as_it_should() {
    let cluster = Embedded::start().await;
    let mut world = World::without_sockets(cluster.client(), timings()).await;
    let (start, day): (_, Timestamp) = (tokio::time::Instant::now(), "2026-01-01T00:00:00Z".parse().unwrap());
    let clock = Arc::new(move || day + start.elapsed());
    let timings = FleetTimings { heartbeat_interval: Some(Duration::from_secs(10)), ..timings() };
    world.fleet =
        Fleet::start(world.client.clone(), FleetOptions { timings, clock, ..FleetOptions::new(world.client.clone()) });
    world.fleet.add("w1", "worker").await.unwrap();
    let ready = |node: &Node| {
        let conditions = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
        (ready.last_heartbeat_time.unwrap().0, ready.last_transition_time.unwrap().0)
    };
    let first = ready(&world.node("w1").await);
    let minute = Duration::from_secs(60);
    let node = world.until("w1", |node: &Node| ready(node).0 >= first.0 + minute).await;
    assert_eq!(ready(&node).1, first.1, "it was ready all the time");
}
