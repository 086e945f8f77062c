//! Node disruption policies: the built-in ones and those of a cluster.

use seaworthy_api::operator::node_disruption_policy::{
    FilePolicyStatus, PolicyAction, PolicyActionStatus, PolicyActionStatusType, PolicyActionType, Service,
    SshKeyPolicyStatus, UnitPolicyStatus,
};
use seaworthy_api::operator::{NodeDisruptionPolicy, NodeDisruptionPolicyClusterStatus};
use seaworthy_api::unknown::Unknown;
use seaworthy_api::words::Open;

use crate::disruption::REGISTRIES_CONF;

use PolicyActionStatusType::{DaemonReload, None as Nothing, Reload, Restart, Special};

const CRIO: &str = "crio.service";
const KUBELET: &str = "kubelet.service";
const CA_TRUST: &str = "coreos-update-ca-trust.service";
const IRI: &str = "iri-registry.service";

type Listed = (PolicyActionStatusType, &'static str);

/// Compat: the cluster defaults of machine-config-operator, `pkg/apihelpers/apihelpers.go`.
const FILES: [(&str, &[Listed]); 13] = [
    ("/var/lib/kubelet/config.json", &[(Nothing, "")]),
    ("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", &[(Reload, CRIO)]),
    ("/etc/containers/policy.json", &[(Reload, CRIO)]),
    (REGISTRIES_CONF, &[(Special, "")]),
    ("/etc/containers/registries.d", &[(Reload, CRIO)]),
    ("/etc/crio/policies", &[(Reload, CRIO)]),
    ("/etc/nmstate/openshift", &[(Nothing, "")]),
    ("/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt", &[(Restart, CA_TRUST), (Restart, CRIO)]),
    ("/etc/kubernetes/credential-providers", &[(Restart, KUBELET)]),
    (
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
        &[(DaemonReload, ""), (Restart, KUBELET)],
    ),
    ("/etc/iri-registry", &[(Restart, IRI)]),
    ("/usr/local/bin/load-registry-image.sh", &[(Restart, IRI)]),
    ("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", &[(Restart, CA_TRUST)]),
];

/// The policies that are built in.
pub fn built_in() -> NodeDisruptionPolicyClusterStatus {
    let actions = |listed: &[Listed]| listed.iter().map(|(type_, service)| action(*type_, service)).collect();
    NodeDisruptionPolicyClusterStatus {
        files: Some(
            FILES
                .iter()
                .map(|(path, listed)| FilePolicyStatus {
                    path: (*path).to_owned(),
                    actions: actions(listed),
                    unknown: Unknown::default(),
                })
                .collect(),
        ),
        units: Some(vec![UnitPolicyStatus {
            name: IRI.to_owned(),
            actions: actions(&[(DaemonReload, ""), (Restart, IRI)]),
            unknown: Unknown::default(),
        }]),
        sshkey: Some(SshKeyPolicyStatus { actions: actions(&[(Nothing, "")]), unknown: Unknown::default() }),
        unknown: Unknown::default(),
    }
}

/// The policies of a cluster: those of its user, and the built-in ones that they do not replace.
pub fn of_cluster(policy: Option<&NodeDisruptionPolicy>) -> NodeDisruptionPolicyClusterStatus {
    let mut all = built_in();
    let Some(policy) = policy else { return all };
    for file in policy.files.iter().flatten() {
        let files = all.files.get_or_insert_default();
        files.retain(|known| known.path != file.path);
        files.push(FilePolicyStatus {
            path: file.path.clone(),
            actions: file.actions.iter().map(as_status).collect(),
            unknown: Unknown::default(),
        });
    }
    for unit in policy.units.iter().flatten() {
        let units = all.units.get_or_insert_default();
        units.retain(|known| known.name != unit.name);
        units.push(UnitPolicyStatus {
            name: unit.name.clone(),
            actions: unit.actions.iter().map(as_status).collect(),
            unknown: Unknown::default(),
        });
    }
    if let Some(sshkey) = &policy.sshkey {
        let actions = sshkey.actions.iter().map(as_status).collect();
        all.sshkey = Some(SshKeyPolicyStatus { actions, unknown: Unknown::default() });
    }
    all
}

fn as_status(action: &PolicyAction) -> PolicyActionStatus {
    PolicyActionStatus {
        type_: match &action.type_ {
            Open::Known(type_) => Open::Known(PolicyActionType::into(*type_)),
            Open::Other(text) => Open::Other(text.clone()),
        },
        reload: action.reload.clone(),
        restart: action.restart.clone(),
        unknown: Unknown::default(),
    }
}

fn action(type_: PolicyActionStatusType, service: &str) -> PolicyActionStatus {
    let service = || Some(Service { service_name: service.to_owned(), unknown: Unknown::default() });
    PolicyActionStatus {
        reload: if type_ == Reload { service() } else { None },
        restart: if type_ == Restart { service() } else { None },
        type_: type_.into(),
        unknown: Unknown::default(),
    }
}
