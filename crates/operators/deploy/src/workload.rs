//! Workloads: the Deployment and DaemonSets of the components.

use serde_json::{Value, json};

use crate::DeploymentOptions;
use crate::component::Component;

/// The port of probes and metrics.
const PROBES_PORT: u16 = 8080;
/// The port of the Ignition endpoint.
const ENDPOINT_PORT: u16 = 22623;
/// The endpoint's port of probes and metrics: it is in the host network, where the usual one may be in use.
const ENDPOINT_PROBES_PORT: u16 = 22625;
/// The program in the image.
const PROGRAM_PATH: &str = "/usr/bin/seaworthy";
/// The folder on the machine that the daemon's pod copies the program to, so that it runs with the machine's own root.
const HOST_PROGRAM_FOLDER: &str = "/var/lib/seaworthy/bin";
/// How long a pod of the daemon may take to finish an update step, in seconds. Compat: as long as the upstream's.
const TERMINATION_GRACE_PERIOD_SECONDS: u32 = 600;
/// The user `nobody`.
const NOBODY_UID: u32 = 65534;

/// The workloads of a component.
pub fn of(component: Component, options: &DeploymentOptions) -> Vec<Value> {
    match component {
        Component::Controllers => vec![controllers(options)],
        // The server passes this address to new machines.
        Component::Server => options.apiserver_url.iter().map(|url| server(options, url)).collect(),
        Component::Daemon => vec![daemon(options)],
    }
}

fn controllers(options: &DeploymentOptions) -> Value {
    let name = Component::Controllers.name();
    let metrics = format!("[::]:{PROBES_PORT}");
    let arguments = ["controllers", "--namespace", &options.namespace, "--metrics", &metrics, "--log-format", "json"];
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": PROBES_PORT}});
    let container = json!({
        "name": "controllers",
        "image": options.image,
        "command": [PROGRAM_PATH],
        "args": arguments,
        // The controllers update the node that they run on last.
        "env": [node_name()],
        "ports": [{"name": "metrics", "containerPort": PROBES_PORT}],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "securityContext": unprivileged(),
    });
    let spec = json!({
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": nobody(),
        "tolerations": [control_plane_taint()],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": labels(name)},
                "topologyKey": "kubernetes.io/hostname",
            },
        }]}},
        "containers": [container],
    });
    // One leads, the other takes over within seconds.
    let mut object = workload("Deployment", name, options, spec);
    object["spec"]["replicas"] = json!(2);
    object
}

fn server(options: &DeploymentOptions, url: &str) -> Value {
    let name = Component::Server.name();
    let metrics = format!("[::]:{ENDPOINT_PROBES_PORT}");
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": ENDPOINT_PROBES_PORT}});
    let container = json!({
        "name": "server",
        "image": options.image,
        "command": [PROGRAM_PATH],
        "args": [
            "server", "--apiserver-url", url, "--namespace", options.namespace, "--metrics", metrics, "--log-format", "json",
        ],
        "ports": [
            {"name": "ignition", "containerPort": ENDPOINT_PORT, "hostPort": ENDPOINT_PORT},
            {"name": "metrics", "containerPort": ENDPOINT_PROBES_PORT, "hostPort": ENDPOINT_PROBES_PORT},
        ],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": unprivileged(),
        "volumeMounts": [
            {"name": "certificate", "mountPath": "/etc/ssl/mcs", "readOnly": true},
            {"name": "bootstrap-token", "mountPath": "/etc/mcs/bootstrap-token", "readOnly": true},
        ],
    });
    let secret =
        |volume: &str, secret: &str| json!({"name": volume, "secret": {"secretName": secret, "defaultMode": 0o440}});
    let spec = json!({
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": nobody(),
        // New machines reach it at the addresses of the control plane, before they are part of the cluster network.
        "hostNetwork": true,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [control_plane_taint()],
        "containers": [container],
        "volumes": [
            secret("certificate", "seaworthy-server-tls"),
            secret("bootstrap-token", "seaworthy-bootstrap-token"),
        ],
    });
    workload("DaemonSet", name, options, spec)
}

fn daemon(options: &DeploymentOptions) -> Value {
    let name = Component::Daemon.name();
    let root = json!({"name": "root", "mountPath": "/host", "mountPropagation": "HostToContainer"});
    // A running program cannot be overwritten, but another file can be renamed to its path.
    let install = format!(
        "mkdir -p /host{HOST_PROGRAM_FOLDER} && cp {PROGRAM_PATH} /host{HOST_PROGRAM_FOLDER}/seaworthy.new && \
         mv -f /host{HOST_PROGRAM_FOLDER}/seaworthy.new /host{HOST_PROGRAM_FOLDER}/seaworthy"
    );
    let program = format!("{HOST_PROGRAM_FOLDER}/seaworthy");
    let arguments = ["--node-name", "$(NODE_NAME)", "--kubeconfig", &options.node_kubeconfig, "--log-format", "json"];
    let mut command = vec!["chroot", "/host", &program, "daemon"];
    command.extend(arguments);
    let spec = json!({
        "serviceAccountName": name,
        "automountServiceAccountToken": false,
        "priorityClassName": "system-node-critical",
        // It manages the machine: its files, its units, its boot.
        "hostPID": true,
        "hostNetwork": true,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": TERMINATION_GRACE_PERIOD_SECONDS,
        "initContainers": [{
            "name": "install-program",
            "image": options.image,
            "command": ["sh", "-c", install],
            "securityContext": {"privileged": true, "runAsUser": 0, "runAsNonRoot": false},
            "volumeMounts": [root],
        }],
        "containers": [{
            "name": "daemon",
            "image": options.image,
            "command": command,
            "env": [node_name()],
            "resources": {"requests": {"cpu": "10m", "memory": "25Mi"}},
            "securityContext": {"privileged": true, "runAsUser": 0, "runAsNonRoot": false},
            "volumeMounts": [root],
        }],
        "volumes": [{"name": "root", "hostPath": {"path": "/", "type": "Directory"}}],
    });
    let mut object = workload("DaemonSet", name, options, spec);
    object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
    object
}

fn workload(kind: &str, name: &str, options: &DeploymentOptions, spec: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels(name)},
        "spec": {
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": {"labels": labels(name)}, "spec": spec},
        },
    })
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "seaworthy"})
}

fn node_name() -> Value {
    json!({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
}

fn control_plane_taint() -> Value {
    json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"})
}

fn nobody() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": NOBODY_UID,
        "runAsGroup": NOBODY_UID,
        "fsGroup": NOBODY_UID,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn unprivileged() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}
