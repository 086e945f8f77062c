//! Certificates and the pull secret of the ControllerConfig, which are written outside of MachineConfigs: they are renewed while
//! nodes run, and no service is reloaded, because the programs that use them read them again.
//!
//! Differs: `/etc/kubernetes/kubeconfig` is not rewritten when the authority of the API server changes, and so the kubelet is
//! not restarted and `lastObservedServerCAAnnotation` is not written, because a kubelet that has joined uses a kubeconfig of
//! its own, which was only created from that one, and a daemon that replaces its own access to the API server by a wrong one
//! cannot be repaired through the API. A new authority is added beside the old one first, with a MachineConfig. A running kubelet
//! reads the authorities in the file that is written here again.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::ControllerConfigSpec;
use seaworthy_api::meta::Base64;
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_host::{Attributes, Entry, EntryKind, Host, HostError};

use crate::decide::target::TargetState;
use crate::paths;
use crate::update::current_config;
use crate::update::journal::{Journal, Phase};

/// The files of a ControllerConfig for every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The first resource version of the ControllerConfig with these files.
    pub version: Option<String>,
    /// Contents and modes, by path.
    pub files: BTreeMap<String, (Vec<u8>, u32)>,
}

/// The files of a ControllerConfig for every node: contents and modes, by path.
///
/// A field that is empty removes no file: an authority that is missing for a moment must not lock all clients out.
pub fn required_files(spec: &ControllerConfigSpec) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, data: Option<&Base64>, mode: u32| {
        // The API refuses invalid base64, so any that is left here is not a certificate.
        if let Some(bytes) = data.and_then(|data| data.decode().ok()).filter(|bytes| !bytes.is_empty()) {
            files.insert(path, (bytes, mode));
        }
    };
    add(paths::KUBELET_CA.to_owned(), spec.kube_api_server_serving_ca_data.as_ref(), 0o644);
    add(paths::CLOUD_CA.to_owned(), spec.cloud_provider_ca_data.as_ref(), 0o644);
    add(paths::PULL_SECRET.to_owned(), spec.internal_registry_pull_secret.as_ref(), 0o600);
    let registries = [&spec.image_registry_bundle_data, &spec.image_registry_bundle_user_data];
    for bundle in registries.into_iter().flatten().flatten() {
        // Two dots replace the colon before a port, which a file name of a ConfigMap cannot have.
        let registry = bundle.file.replace("..", ":");
        add(format!("{}{registry}/ca.crt", paths::REGISTRY_CAS), Some(&bundle.data), 0o644);
    }
    files
}

/// Writes the files that differ and returns their paths; `None` while an update is changing files. While an update waits for its
/// reboot, which may be late, they are written.
///
/// A machine that is not adopted, or has no pool's configuration yet, keeps its own files. On a machine that was created with a
/// pool's configuration they are written even if that is not complete, or its record is gone, so that it is not locked out.
pub(crate) fn sync_when_idle(host: &dyn Host, wanted: &Certificates) -> Result<Option<Vec<String>>, String> {
    let on_disk = current_config::load(host);
    let exists = |path: &str| host.exists(path).map_err(|error| error.to_string());
    let is_unmanaged = match &on_disk {
        Ok(Some(target)) => target.name == UNCONFIGURED,
        Ok(None) => !exists(paths::INITIAL_ANNOTATIONS)? && !exists(paths::INITIAL_ANNOTATIONS_DONE)?,
        Err(_) => false,
    };
    // A configuration that cannot be read must not keep the node from new authorities.
    let target = on_disk.ok().flatten();
    let journal = Journal::load(host).map_err(|error| error.to_string())?;
    let is_busy = journal.is_some_and(|journal| match journal.phase {
        Phase::Applying | Phase::Acting | Phase::Undoing => true,
        // Its files are written before the record of it, and the configuration's own files are left to it.
        Phase::Committed => target.as_ref().is_some_and(|target| target.name != journal.to),
        Phase::Reverted => false,
    });
    if is_busy || is_unmanaged {
        return Ok(None);
    }
    let written = sync(host, target.as_ref(), wanted);
    written.map(Some).map_err(|error| error.to_string())
}

/// Writes the files that differ; returns their paths. A file of the configuration is left to it, except for those that a
/// configuration only initializes. Without a configuration only those are written.
pub fn sync(host: &dyn Host, target: Option<&TargetState>, wanted: &Certificates) -> Result<Vec<String>, HostError> {
    let mut written = Vec::new();
    for (path, (bytes, mode)) in &wanted.files {
        let is_of_config = target.is_none_or(|target| target.paths.contains_key(path)) && !paths::is_unchecked(path);
        if is_of_config || is_up_to_date(host, path, bytes, *mode)? {
            continue;
        }
        host.write_through(path, bytes, Attributes::of_root(*mode))?;
        written.push(path.clone());
    }
    Ok(written)
}

/// Whether a file has this content and mode and belongs to root. A link is replaced, and a folder is an error.
fn is_up_to_date(host: &dyn Host, path: &str, bytes: &[u8], mode: u32) -> Result<bool, HostError> {
    match host.entry(path)? {
        Some(Entry { kind: EntryKind::File, mode: m, uid: 0, gid: 0, .. }) if m == mode => {
            host.has_content(path, bytes)
        }
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
        Certificates { version: None, files: required_files(&spec()) }
    }

    #[test]
    fn every_file_has_its_path_and_an_empty_field_has_none() {
        let found: Vec<_> =
            required_files(&spec()).into_iter().map(|(path, (bytes, mode))| (path, bytes, mode)).collect();
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
        let target = TargetState::parse("x", Default::default(), None).unwrap();
        let wanted = all();
        assert_eq!(sync(&host, Some(&target), &wanted).unwrap().len(), 3);
        assert_eq!(host.text(paths::KUBELET_CA).as_deref(), Some("new"));
        host.forget_calls();
        assert!(sync(&host, Some(&target), &wanted).unwrap().is_empty());
        assert!(host.calls().is_empty());
    }

    #[test]
    fn a_file_that_has_grown_is_replaced_and_not_read() {
        let host = FakeHost::new("m");
        let target = TargetState::parse("x", Default::default(), None).unwrap();
        sync(&host, Some(&target), &all()).unwrap();
        host.put(paths::KUBELET_CA, &vec![b'x'; 5 * 1024 * 1024], 0o644);
        let before = host.bytes_read();
        assert_eq!(sync(&host, Some(&target), &all()).unwrap(), [paths::KUBELET_CA]);
        assert!(host.bytes_read() - before < 1024);
    }

    #[test]
    fn a_secret_that_others_may_read_or_own_is_made_private_again() {
        let host = FakeHost::new("m");
        let target = TargetState::parse("x", Default::default(), None).unwrap();
        sync(&host, Some(&target), &all()).unwrap();
        let right = host.entry(paths::PULL_SECRET).unwrap();
        for wrong in [
            Attributes::of_root(0o644),
            Attributes { mode: 0o600, uid: 1000, gid: 0 },
            Attributes { mode: 0o600, uid: 0, gid: 1000 },
        ] {
            host.set_attributes(paths::PULL_SECRET, wrong).unwrap();
            assert_eq!(sync(&host, Some(&target), &all()).unwrap(), [paths::PULL_SECRET], "{wrong:?}");
            assert_eq!(host.entry(paths::PULL_SECRET).unwrap(), right);
        }
    }

    #[test]
    fn a_node_that_does_not_know_its_configuration_still_gets_what_no_configuration_keeps() {
        let host = FakeHost::new("m");
        assert_eq!(sync(&host, None, &all()).unwrap(), [paths::KUBELET_CA, paths::PULL_SECRET]);
    }

    #[test]
    fn a_registry_that_leads_elsewhere_is_refused() {
        let mut spec = spec();
        spec.image_registry_bundle_data.as_mut().unwrap()[0].file = "a/../../../x".to_owned();
        let host = FakeHost::new("m");
        let target = TargetState::parse("x", Default::default(), None).unwrap();
        // Two dots are a colon, so there is nothing left that leads up.
        let wanted = Certificates { version: None, files: required_files(&spec) };
        sync(&host, Some(&target), &wanted).unwrap();
        assert_eq!(host.text("/etc/docker/certs.d/a/:/:/:/x/ca.crt").as_deref(), Some("reg"));
    }
}
