//! Certificates and the pull secret, which go around MachineConfigs (server-and-daemon.md, B25): they are renewed while nodes
//! run, and nothing has to be told, because whoever uses them reads them again.
//!
//! Differs: `/etc/kubernetes/kubeconfig` is not rewritten when the authority of the API server changes, and so the kubelet is
//! not restarted and `lastObservedServerCAAnnotation` is not written, because a kubelet that has joined goes by a kubeconfig of
//! its own, which was only begun with that one, and a daemon that rewrites its way to the API server has none left on which it
//! could be helped when that was wrong. A new authority comes beside the old one first, with a MachineConfig. The authorities
//! in the file that is kept right here are read again by a running kubelet.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::ControllerConfigSpec;
use seaworthy_api::meta::Base64;
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_host::{Attributes, Entry, Host, HostError, Kind};

use crate::decide::target::Target;
use crate::paths;
use crate::update::current_config;
use crate::update::journal::{Journal, Phase};

/// What a ControllerConfig wants on every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The version of the ControllerConfig that was the first to want it.
    pub version: Option<String>,
    /// Files with their permissions.
    pub files: BTreeMap<String, (Vec<u8>, u32)>,
}

/// The files that a ControllerConfig wants on every node, with their permissions.
///
/// What is not said there is left as it is: an authority that is missing for a moment must not lock everybody out.
pub fn wanted(spec: &ControllerConfigSpec) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, data: Option<&Base64>, mode: u32| {
        // What is no base64 is refused by the API; one that comes through is no certificate.
        if let Some(bytes) = data.and_then(|data| data.decode().ok()).filter(|bytes| !bytes.is_empty()) {
            files.insert(path, (bytes, mode));
        }
    };
    add(paths::KUBELET_CA.to_owned(), spec.kube_api_server_serving_ca_data.as_ref(), 0o644);
    add(paths::CLOUD_CA.to_owned(), spec.cloud_provider_ca_data.as_ref(), 0o644);
    add(paths::PULL_SECRET.to_owned(), spec.internal_registry_pull_secret.as_ref(), 0o600);
    let registries = [&spec.image_registry_bundle_data, &spec.image_registry_bundle_user_data];
    for bundle in registries.into_iter().flatten().flatten() {
        // Two dots stand for the colon before a port, which a file name of a ConfigMap cannot have.
        let registry = bundle.file.replace("..", ":");
        add(format!("{}{registry}/ca.crt", paths::REGISTRY_CAS), Some(&bundle.data), 0o644);
    }
    files
}

/// Keeps files right that go around configurations; says which were not. While an update is changing files nothing is
/// touched, and nothing is said; while one waits for a boot, which may never come, they are kept right.
///
/// A machine that was there before keeps what it has until a pool's configuration has come to it. One that was made with a
/// pool's is kept right although it has not come through, or its file is gone: that must not lock it out as well.
pub(crate) fn keep_right_at_rest(host: &dyn Host, wanted: &Certificates) -> Result<Option<Vec<String>>, String> {
    let on_disk = current_config::load(host);
    let is_there = |path: &str| host.exists(path).map_err(|error| error.to_string());
    let is_strange = match &on_disk {
        Ok(Some(target)) => target.name == UNCONFIGURED,
        Ok(None) => !is_there(paths::INITIAL_ANNOTATIONS)? && !is_there(paths::INITIAL_ANNOTATIONS_DONE)?,
        Err(_) => false,
    };
    // A configuration that cannot be read must not keep the node from its new authorities.
    let target = on_disk.ok().flatten();
    let journal = Journal::load(host).map_err(|error| error.to_string())?;
    let is_busy = journal.is_some_and(|journal| match journal.phase {
        Phase::Applying | Phase::Acting | Phase::Undoing => true,
        // Its files are there before the disk says so, and what is a configuration's own is left to it.
        Phase::Committed => target.as_ref().is_some_and(|target| target.name != journal.to),
        Phase::Reverted => false,
    });
    if is_busy || is_strange {
        return Ok(None);
    }
    let written = keep_right(host, target.as_ref(), wanted);
    written.map(Some).map_err(|error| error.to_string())
}

/// Writes what differs; says which. What a MachineConfig has is its own, unless it is one that configurations only begin with.
/// Without a configuration only those are written.
pub fn keep_right(host: &dyn Host, target: Option<&Target>, wanted: &Certificates) -> Result<Vec<String>, HostError> {
    let mut written = Vec::new();
    for (path, (bytes, mode)) in &wanted.files {
        let is_of_config = target.is_none_or(|target| target.paths.contains_key(path)) && !paths::is_unchecked(path);
        if is_of_config || is_right(host, path, bytes, *mode)? {
            continue;
        }
        host.write_through(path, bytes, Attributes::of_root(*mode))?;
        written.push(path.clone());
    }
    Ok(written)
}

/// Whether this is what stands there, and root's alone. A link or a folder is somebody's doing: it is replaced, or named.
fn is_right(host: &dyn Host, path: &str, bytes: &[u8], mode: u32) -> Result<bool, HostError> {
    match host.entry(path)? {
        Some(Entry { kind: Kind::File, mode: m, uid: 0, gid: 0, .. }) if m == mode => host.has_content(path, bytes),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use seaworthy_host::FakeHost;
    use serde_json::json;

    use super::*;

    fn spec() -> ControllerConfigSpec {
        let spec = json!({
            "kubeAPIServerServingCAData": "bmV3", "cloudProviderCAData": "", "internalRegistryPullSecret": "e30=",
            "imageRegistryBundleData": [{"file": "registry.example.org..5000", "data": "cmVn"}],
        });
        serde_json::from_value(spec).unwrap()
    }

    fn all() -> Certificates {
        Certificates { version: None, files: wanted(&spec()) }
    }

    #[test]
    fn every_file_has_its_place_and_what_is_empty_has_none() {
        let found: Vec<_> = wanted(&spec()).into_iter().map(|(path, (bytes, mode))| (path, bytes, mode)).collect();
        let expected = [
            ("/etc/docker/certs.d/registry.example.org:5000/ca.crt", &b"reg"[..], 0o644),
            ("/etc/kubernetes/kubelet-ca.crt", b"new", 0o644),
            ("/etc/mco/internal-registry-pull-secret.json", b"{}", 0o600),
        ];
        assert_eq!(found, expected.map(|(path, bytes, mode)| (path.to_owned(), bytes.to_vec(), mode)));
    }

    #[test]
    fn only_what_differs_is_written() {
        let host = FakeHost::new("m");
        host.put(paths::KUBELET_CA, b"old", 0o644);
        let target = Target::parse("x", &Default::default(), None).unwrap();
        let wanted = all();
        assert_eq!(keep_right(&host, Some(&target), &wanted).unwrap().len(), 3);
        assert_eq!(host.text(paths::KUBELET_CA).as_deref(), Some("new"));
        host.forget_calls();
        assert!(keep_right(&host, Some(&target), &wanted).unwrap().is_empty());
        assert!(host.calls().is_empty());
    }

    #[test]
    fn a_file_that_somebody_lets_grow_is_replaced_and_not_read() {
        let host = FakeHost::new("m");
        let target = Target::parse("x", &Default::default(), None).unwrap();
        keep_right(&host, Some(&target), &all()).unwrap();
        host.put(paths::KUBELET_CA, &vec![b'x'; 5 * 1024 * 1024], 0o644);
        let before = host.bytes_read();
        assert_eq!(keep_right(&host, Some(&target), &all()).unwrap(), [paths::KUBELET_CA]);
        assert!(host.bytes_read() - before < 1024);
    }

    #[test]
    fn a_secret_that_others_may_read_or_own_is_made_private_again() {
        let host = FakeHost::new("m");
        let target = Target::parse("x", &Default::default(), None).unwrap();
        keep_right(&host, Some(&target), &all()).unwrap();
        let right = host.entry(paths::PULL_SECRET).unwrap();
        for wrong in [
            Attributes::of_root(0o644),
            Attributes { mode: 0o600, uid: 1000, gid: 0 },
            Attributes { mode: 0o600, uid: 0, gid: 1000 },
        ] {
            host.set_attributes(paths::PULL_SECRET, wrong).unwrap();
            assert_eq!(keep_right(&host, Some(&target), &all()).unwrap(), [paths::PULL_SECRET], "{wrong:?}");
            assert_eq!(host.entry(paths::PULL_SECRET).unwrap(), right);
        }
    }

    #[test]
    fn a_node_that_does_not_know_its_configuration_still_gets_what_no_configuration_keeps() {
        let host = FakeHost::new("m");
        assert_eq!(keep_right(&host, None, &all()).unwrap(), [paths::KUBELET_CA, paths::PULL_SECRET]);
    }

    #[test]
    fn a_registry_that_leads_elsewhere_is_refused() {
        let mut spec = spec();
        spec.image_registry_bundle_data.as_mut().unwrap()[0].file = "a/../../../x".to_owned();
        let host = FakeHost::new("m");
        let target = Target::parse("x", &Default::default(), None).unwrap();
        // Two dots are a colon, so there is nothing left that leads up.
        let wanted = Certificates { version: None, files: wanted(&spec) };
        keep_right(&host, Some(&target), &wanted).unwrap();
        assert_eq!(host.text("/etc/docker/certs.d/a/:/:/:/x/ca.crt").as_deref(), Some("reg"));
    }
}
