//! Generated MachineConfigs: files as data URLs, role label, build annotation, one owner.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::machineconfiguration::{annotation, label};
use serde_json::{Value, json};

/// The Ignition version that generated configs are written in.
const IGNITION_VERSION: &str = "3.5.0";

/// A file that a generated MachineConfig puts on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// The path on the node.
    pub path: String,
    pub content: Vec<u8>,
    /// The permissions.
    pub mode: u32,
}

impl GeneratedFile {
    /// A file with mode 0644.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        GeneratedFile { path: path.into(), content: content.into(), mode: 0o644 }
    }

    fn entry(&self) -> Value {
        json!({
            "path": self.path,
            "mode": self.mode,
            "overwrite": true,
            "contents": {"compression": "", "source": data_url(&self.content)},
        })
    }
}

/// An Ignition config of these files and units; without any it has nothing but its version.
pub(crate) fn config(files: &[GeneratedFile], units: &[Value]) -> Value {
    let mut config = json!({"ignition": {"version": IGNITION_VERSION}});
    if !files.is_empty() {
        config["storage"]["files"] = files.iter().map(GeneratedFile::entry).collect();
    }
    if !units.is_empty() {
        config["systemd"]["units"] = units.to_vec().into();
    }
    config
}

/// The bytes as a data URL, in the one form that upstream's controllers write.
fn data_url(bytes: &[u8]) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(bytes))
}

/// The paths of the files that a MachineConfig writes.
pub(crate) fn paths(machine_config: &MachineConfig) -> impl Iterator<Item = &str> {
    let config = machine_config.spec.config.as_ref();
    let files = config.and_then(|config| config.pointer("/storage/files")).and_then(Value::as_array);
    files.into_iter().flatten().filter_map(|file| file["path"].as_str())
}

/// A generated MachineConfig as it should be.
pub(crate) fn machine_config(
    name: &str,
    role: &str,
    build: &str,
    owner: OwnerReference,
    config: Value,
) -> MachineConfig {
    let mut metadata =
        ObjectMeta { name: Some(name.to_owned()), owner_references: Some(vec![owner]), ..<_>::default() };
    label::ROLE.set(&mut metadata, role);
    annotation::GENERATED_BY_CONTROLLER_VERSION.set(&mut metadata, build);
    MachineConfig { metadata, spec: MachineConfigSpec { config: Some(config), ..<_>::default() } }
}

/// The reference by which an object owns what was made from it, as its controller.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The reference before there is a cluster: the controller that takes over fills in the rest.
pub(crate) fn bootstrap_owner<K: Resource<DynamicType = ()>>() -> OwnerReference {
    let (api_version, kind) = (K::api_version(&()).into_owned(), K::kind(&()).into_owned());
    OwnerReference { api_version, kind, ..<_>::default() }
}

/// What to write so that an object becomes as wanted; `None` if it is so already.
///
/// Labels and annotations that others put on it stay: what is compared is what is ours.
pub(crate) fn updated_to(existing: &MachineConfig, wanted: &MachineConfig) -> Option<MachineConfig> {
    let has = |ours: &Option<_>, theirs: &Option<_>| {
        let empty = <_>::default();
        let theirs: &std::collections::BTreeMap<String, String> = theirs.as_ref().unwrap_or(&empty);
        ours.iter().flatten().all(|(key, value)| theirs.get(key) == Some(value))
    };
    let (is, should) = (&existing.metadata, &wanted.metadata);
    if has(&should.labels, &is.labels)
        && has(&should.annotations, &is.annotations)
        && is.owner_references == should.owner_references
        && existing.spec == wanted.spec
    {
        return None;
    }
    let mut update = existing.clone();
    update.metadata.managed_fields = None;
    update.metadata.labels.get_or_insert_default().extend(should.labels.clone().unwrap_or_default());
    update.metadata.annotations.get_or_insert_default().extend(should.annotations.clone().unwrap_or_default());
    update.metadata.owner_references.clone_from(&should.owner_references);
    update.spec = wanted.spec.clone();
    Some(update)
}

/// The references of an object to owners of a kind.
pub(crate) fn owners<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    metadata.owner_references.iter().flatten().filter(|owner| is_owner::<K>(owner))
}

/// The name of an object; empty if it has none.
pub(crate) fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use seaworthy_api::machineconfiguration::KubeletConfig;

    use super::*;

    fn made(build: &str) -> MachineConfig {
        let owner =
            owner::<KubeletConfig>(&ObjectMeta { name: Some("a".into()), uid: Some("1".into()), ..<_>::default() });
        machine_config("99-x", "x", build, owner, config(&[GeneratedFile::new("/a", "text")], &[]))
    }

    #[test]
    fn a_file_is_written_in_the_form_of_upstream() {
        let config = made("b").spec.config.unwrap();
        assert_eq!(
            config,
            json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [{
                "path": "/a", "mode": 420, "overwrite": true,
                "contents": {"compression": "", "source": "data:text/plain;charset=utf-8;base64,dGV4dA=="},
            }]}})
        );
    }

    #[test]
    fn what_others_put_on_an_object_is_no_difference_and_stays() {
        let wanted = made("new");
        let mut existing = made("new");
        existing.metadata.annotations.get_or_insert_default().insert("team".into(), "x".into());
        existing.metadata.resource_version = Some("7".into());
        assert_eq!(updated_to(&existing, &wanted), None);
        annotation::GENERATED_BY_CONTROLLER_VERSION.set(&mut existing.metadata, "old");
        let update = updated_to(&existing, &wanted).unwrap();
        assert_eq!(annotation::GENERATED_BY_CONTROLLER_VERSION.of(&update.metadata), Some("new"));
        assert_eq!(update.metadata.annotations.as_ref().unwrap()["team"], "x");
        assert_eq!(update.metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn a_hand_in_the_spec_is_a_difference() {
        let wanted = made("new");
        let mut existing = made("new");
        existing.spec.kernel_arguments = Some(vec!["quiet".into()]);
        assert_eq!(updated_to(&existing, &wanted).unwrap().spec, wanted.spec);
    }
}
