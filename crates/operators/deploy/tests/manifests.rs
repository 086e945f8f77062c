//! Deployment manifests: which objects are deployed, in which order, with which rights.
#![allow(clippy::unwrap_used)]

use seaworthy_controllers::operators::manifests;
use seaworthy_deploy::{Component, DeploymentOptions};
use serde_json::Value;

fn options(components: &[Component]) -> DeploymentOptions {
    DeploymentOptions {
        namespace: "ours".to_owned(),
        image: "registry.example.com/seaworthy:1".to_owned(),
        apiserver_url: Some("https://api.example.com:6443".to_owned()),
        node_kubeconfig: "/etc/kubernetes/kubelet.conf".to_owned(),
        components: components.to_vec(),
    }
}

fn objects(options: &DeploymentOptions) -> Vec<Value> {
    seaworthy_deploy::objects(options, &manifests(&options.namespace))
}

fn names(objects: &[Value], kind: &str) -> Vec<String> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn everything_is_deployed_in_an_order_that_can_be_applied() {
    let objects = objects(&options(&Component::ALL));
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let first = |kind: &str| kinds.iter().position(|found| *found == kind).unwrap();
    let last = |kind: &str| kinds.iter().rposition(|found| *found == kind).unwrap();
    assert_eq!(kinds[0], "Namespace");
    assert!(last("CustomResourceDefinition") < first("ServiceAccount"));
    assert!(last("RoleBinding") < first("Deployment") && last("ClusterRoleBinding") < first("DaemonSet"));
    assert_eq!(names(&objects, "Deployment"), ["seaworthy-controllers"]);
    assert_eq!(names(&objects, "DaemonSet"), ["seaworthy-server", "seaworthy-daemon"]);
    assert_eq!(names(&objects, "ValidatingAdmissionPolicy"), ["seaworthy-protection", "seaworthy-own-node"]);
}

#[test]
fn endpoint_is_left_out_without_an_api_server_url() {
    let mut options = options(&Component::ALL);
    options.apiserver_url = None;
    let objects = objects(&options);
    assert_eq!(names(&objects, "DaemonSet"), ["seaworthy-daemon"]);
    assert!(!names(&objects, "ServiceAccount").contains(&"seaworthy-server".to_owned()));
}

#[test]
fn only_machines_with_daemons_need_privileged_pods() {
    let level = |components: &[Component]| {
        objects(&options(components))[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
    };
    assert_eq!(level(&[Component::Controllers]), "restricted");
    assert_eq!(level(&[Component::Controllers, Component::Server]), "privileged");
    assert_eq!(level(&[Component::Daemon]), "privileged");
}

/// Groups whose kinds are known only when a provider of Cluster API is installed. Only the controllers have rights to all of them.
const PROVIDER_GROUPS: [&str; 3] = ["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "seaworthy.dev"];

#[test]
fn no_right_is_for_everything_but_the_kinds_of_providers() {
    for object in objects(&options(&Component::ALL)) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            let words = ["apiGroups", "resources", "verbs"].map(|key| rule[key].as_array().unwrap().clone());
            let is_of_providers = object["metadata"]["name"] == "seaworthy-controllers"
                && words[0].iter().all(|group| PROVIDER_GROUPS.contains(&group.as_str().unwrap()))
                && words[1] == ["*"];
            let specific =
                if is_of_providers { &[&words[0], &words[2]][..] } else { &[&words[0], &words[1], &words[2]][..] };
            let is_specific = specific.iter().all(|words| words.iter().all(|word| word != "*"));
            assert!(is_specific, "{}: {rule}", object["metadata"]["name"]);
            assert!(words[2].iter().all(|verb| verb != "escalate" && verb != "bind" && verb != "impersonate"));
        }
    }
}

#[test]
fn events_are_written_to_the_default_namespace_and_those_of_machine_pools() {
    let all = objects(&options(&Component::ALL));
    let writes_events = |object: &&Value| object["rules"].to_string().contains("events.k8s.io");
    let found: Vec<(&str, &str, &str)> = all
        .iter()
        .filter(writes_events)
        .map(|role| {
            let text = |pointer: &str| role.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
        })
        .collect();
    // Events of MachinePools, which are in any namespace, are written by the controllers; no other component has that right.
    let (cluster, namespaced): (Vec<_>, Vec<_>) = found.into_iter().partition(|(kind, ..)| *kind == "ClusterRole");
    assert_eq!(cluster, [("ClusterRole", "", "seaworthy-controllers")]);
    assert_eq!(
        namespaced.iter().map(|(kind, namespace, _)| (*kind, *namespace)).collect::<Vec<_>>(),
        [("Role", "default"); 3]
    );
    // In a namespace that has rights of ours anyway there is one role of a name.
    for namespace in ["default", "kube-system"] {
        let all = objects(&DeploymentOptions { namespace: namespace.to_owned(), ..options(&Component::ALL) });
        let roles = all.iter().filter(|object| object["kind"] == "Role");
        let mut names: Vec<String> = roles.map(|role| role["metadata"].to_string()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{namespace}");
    }
}

#[test]
fn namespace_and_image_are_the_given_ones() {
    for object in objects(&options(&Component::ALL)) {
        let namespace = object["metadata"]["namespace"].as_str();
        assert!(matches!(namespace, None | Some("ours" | "kube-system" | "default")), "{object}");
        let pod = &object["spec"]["template"]["spec"];
        for container in pod["containers"].as_array().into_iter().chain(pod["initContainers"].as_array()).flatten() {
            assert_eq!(container["image"], "registry.example.com/seaworthy:1");
        }
    }
}
