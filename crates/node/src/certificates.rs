//! Certificates and the pull secret, which go around MachineConfigs (server-and-daemon.md, B25): they are renewed while nodes
//! run, and nothing has to be told, because whoever uses them reads them again.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::ControllerConfigSpec;
use seaworthy_api::meta::Base64;
use seaworthy_host::{Attributes, Host, HostError};

use crate::places;
use crate::target::Target;

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
    add(places::KUBELET_CA.to_owned(), spec.kube_api_server_serving_ca_data.as_ref(), 0o644);
    add(places::CLOUD_CA.to_owned(), spec.cloud_provider_ca_data.as_ref(), 0o644);
    add(places::PULL_SECRET.to_owned(), spec.internal_registry_pull_secret.as_ref(), 0o600);
    let registries = [&spec.image_registry_bundle_data, &spec.image_registry_bundle_user_data];
    for bundle in registries.into_iter().flatten().flatten() {
        // Two dots stand for the colon before a port, which a file name of a ConfigMap cannot have.
        let registry = bundle.file.replace("..", ":");
        add(format!("{}{registry}/ca.crt", places::REGISTRY_CAS), Some(&bundle.data), 0o644);
    }
    files
}

/// Writes what differs; says which. What a MachineConfig has is its own, unless it is one that configurations only begin with.
pub fn keep_right(
    host: &dyn Host,
    target: &Target,
    wanted: &BTreeMap<String, (Vec<u8>, u32)>,
) -> Result<Vec<String>, HostError> {
    let mut written = Vec::new();
    for (path, (bytes, mode)) in wanted {
        let is_of_config = target.paths.contains_key(path) && !places::is_unchecked(path);
        // A link or a folder there is somebody's doing: it is replaced, or named.
        if is_of_config || host.read(path).ok().flatten().as_ref() == Some(bytes) {
            continue;
        }
        host.write_through(path, bytes, Attributes::of_root(*mode))?;
        written.push(path.clone());
    }
    Ok(written)
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
        host.put(places::KUBELET_CA, b"old", 0o644);
        let target = Target::parse("x", &Default::default(), None).unwrap();
        let wanted = wanted(&spec());
        assert_eq!(keep_right(&host, &target, &wanted).unwrap().len(), 3);
        assert_eq!(host.text(places::KUBELET_CA).as_deref(), Some("new"));
        host.forget_calls();
        assert!(keep_right(&host, &target, &wanted).unwrap().is_empty());
        assert!(host.calls().is_empty());
    }

    #[test]
    fn a_registry_that_leads_elsewhere_is_refused() {
        let mut spec = spec();
        spec.image_registry_bundle_data.as_mut().unwrap()[0].file = "a/../../../x".to_owned();
        let host = FakeHost::new("m");
        let target = Target::parse("x", &Default::default(), None).unwrap();
        // Two dots are a colon, so there is nothing left that leads up.
        keep_right(&host, &target, &wanted(&spec)).unwrap();
        assert_eq!(host.text("/etc/docker/certs.d/a/:/:/:/x/ca.crt").as_deref(), Some("reg"));
    }
}
