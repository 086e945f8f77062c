//! The pods of each component.

use serde_json::{Value, json};

use crate::Settings;
use crate::component::Component;

/// The port of probes and metrics.
const PROBES: u16 = 8080;
/// The port that machines are told to boot from.
const ENDPOINT: u16 = 22623;
/// Its port of probes and metrics: it is in the machine's own network, where the usual one may be somebody else's.
const ENDPOINT_PROBES: u16 = 22625;
/// Where the image has the program.
const PROGRAM: &str = "/usr/bin/seaworthy";
/// Where the daemon's pod brings the program on the machine, so that it runs with the machine's own root.
const ON_MACHINE: &str = "/var/lib/seaworthy/bin";
/// How long a pod of the daemon may take to finish what it is at. Compat: as long as the upstream's.
const FINISH: u32 = 600;
/// Somebody who owns nothing.
const NOBODY: u32 = 65534;

/// The workloads of a component.
pub fn of(component: Component, settings: &Settings) -> Vec<Value> {
    match component {
        Component::Controllers => vec![controllers(settings)],
        // The server needs to know the address that it hands out.
        Component::Server => settings.apiserver_url.iter().map(|url| server(settings, url)).collect(),
        Component::Daemon => vec![daemon(settings)],
    }
}

fn controllers(settings: &Settings) -> Value {
    let name = Component::Controllers.name();
    let metrics = format!("[::]:{PROBES}");
    let arguments = ["controllers", "--namespace", &settings.namespace, "--metrics", &metrics, "--log-format", "json"];
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": PROBES}});
    let container = json!({
        "name": "controllers",
        "image": settings.image,
        "command": [PROGRAM],
        "args": arguments,
        // Its own node is the last one of a pool that it drains.
        "env": [node_name()],
        "ports": [{"name": "metrics", "containerPort": PROBES}],
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
    // One works, the other takes over within seconds.
    let mut object = workload("Deployment", name, settings, spec);
    object["spec"]["replicas"] = json!(2);
    object
}

fn server(settings: &Settings, url: &str) -> Value {
    let name = Component::Server.name();
    let metrics = format!("[::]:{ENDPOINT_PROBES}");
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": ENDPOINT_PROBES}});
    let container = json!({
        "name": "server",
        "image": settings.image,
        "command": [PROGRAM],
        "args": [
            "server", "--apiserver-url", url, "--namespace", settings.namespace, "--metrics", metrics, "--log-format", "json",
        ],
        "ports": [
            {"name": "ignition", "containerPort": ENDPOINT, "hostPort": ENDPOINT},
            {"name": "metrics", "containerPort": ENDPOINT_PROBES, "hostPort": ENDPOINT_PROBES},
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
        // New machines find it at the addresses of the control plane, before they know of any network in the cluster.
        "hostNetwork": true,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [control_plane_taint()],
        "containers": [container],
        "volumes": [
            secret("certificate", "seaworthy-server-tls"),
            secret("bootstrap-token", "seaworthy-bootstrap-token"),
        ],
    });
    workload("DaemonSet", name, settings, spec)
}

fn daemon(settings: &Settings) -> Value {
    let name = Component::Daemon.name();
    let root = json!({"name": "root", "mountPath": "/host", "mountPropagation": "HostToContainer"});
    // A program that runs cannot be overwritten, but its name can be given to another.
    let bring = format!(
        "mkdir -p /host{ON_MACHINE} && cp {PROGRAM} /host{ON_MACHINE}/seaworthy.new && \
         mv -f /host{ON_MACHINE}/seaworthy.new /host{ON_MACHINE}/seaworthy"
    );
    let program = format!("{ON_MACHINE}/seaworthy");
    let arguments = ["--node-name", "$(NODE_NAME)", "--kubeconfig", &settings.node_kubeconfig, "--log-format", "json"];
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
        "terminationGracePeriodSeconds": FINISH,
        "initContainers": [{
            "name": "bring",
            "image": settings.image,
            "command": ["sh", "-c", bring],
            "securityContext": {"privileged": true, "runAsUser": 0, "runAsNonRoot": false},
            "volumeMounts": [root],
        }],
        "containers": [{
            "name": "daemon",
            "image": settings.image,
            "command": command,
            "env": [node_name()],
            "resources": {"requests": {"cpu": "10m", "memory": "25Mi"}},
            "securityContext": {"privileged": true, "runAsUser": 0, "runAsNonRoot": false},
            "volumeMounts": [root],
        }],
        "volumes": [{"name": "root", "hostPath": {"path": "/", "type": "Directory"}}],
    });
    let mut object = workload("DaemonSet", name, settings, spec);
    object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
    object
}

fn workload(kind: &str, name: &str, settings: &Settings, spec: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": settings.namespace, "labels": labels(name)},
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
        "runAsUser": NOBODY,
        "runAsGroup": NOBODY,
        "fsGroup": NOBODY,
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
