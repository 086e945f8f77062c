//! Objects that a roll-out decision needs: pools, Nodes, MachineConfigNodes and the ControllerConfig.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use seaworthy_api::lossless;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_change::ResourceType;
use seaworthy_ignition::path::Path;
use seaworthy_ignition::spelling;
use seaworthy_manifest::ManifestText;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::{self, Object};
use crate::failure::Failure;
use crate::terminal;

/// Pools, nodes and MachineConfigNodes by name. Of several objects with one name the last one counts, as it does when
/// manifests are applied one after the other.
#[derive(Default)]
pub struct FleetObjects {
    pub pools: BTreeMap<String, MachineConfigPool>,
    pub nodes: BTreeMap<String, Node>,
    pub progress: BTreeMap<String, MachineConfigNode>,
    /// The ControllerConfigs, of which a cluster has one.
    pub controller_configs: BTreeMap<String, ControllerConfig>,
    others: BTreeMap<String, usize>,
}

/// Adds an object; whether another one of the same name was there.
type Insert = fn(&mut FleetObjects, &str, &Value) -> Result<bool, lossless::ReadError>;

/// The kinds that are read, each in one version.
fn kinds() -> [(ResourceType, Insert); 4] {
    [
        (ResourceType::of::<MachineConfigPool>(), |fleet, name, json| insert(&mut fleet.pools, name, json)),
        (ResourceType::of::<Node>(), |fleet, name, json| insert(&mut fleet.nodes, name, json)),
        (ResourceType::of::<MachineConfigNode>(), |fleet, name, json| insert(&mut fleet.progress, name, json)),
        (ResourceType::of::<ControllerConfig>(), |fleet, name, json| insert(&mut fleet.controller_configs, name, json)),
    ]
}

impl FleetObjects {
    /// Reads the objects of all texts. Everything that cannot be read is reported, not the first.
    pub fn read(texts: &[ManifestText]) -> Result<Self, Failure> {
        let mut fleet = FleetObjects::default();
        let kinds = kinds();
        objects::each(texts, &mut |object| fleet.take(&object, &kinds).map_err(|error| vec![error]))?;
        if !fleet.others.is_empty() {
            let kinds: Vec<String> = fleet.others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            terminal::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
        }
        Ok(fleet)
    }

    fn take(&mut self, object: &Object<'_>, kinds: &[(ResourceType, Insert)]) -> Result<(), String> {
        let Object { node, kind, api_version, location } = object;
        let Some((resource, insert)) = kinds.iter().find(|(resource, _)| *resource.kind == **kind) else {
            let known = kinds.iter().map(|(resource, _)| &*resource.kind);
            if let Some(near) = spelling::nearest(kind, known).filter(|near| near.eq_ignore_ascii_case(kind)) {
                let message = format!("unknown kind {kind:?}; did you mean {near:?}?");
                return Err(location.error_at_key("kind", &message));
            }
            *self.others.entry(kind.clone()).or_default() += 1;
            return Ok(());
        };
        let expected = resource.api_version();
        if *api_version != expected {
            let message = format!("{kind}: unsupported apiVersion {api_version:?}; expected {expected}");
            return Err(location.error_at_key("apiVersion", &message));
        }
        let name = object.name();
        if name.is_empty() {
            return Err(location.error_at_key("metadata", &format!("a {kind} has no metadata.name; set it")));
        }
        match insert(self, name, &node.to_json()) {
            Ok(false) => {}
            Ok(true) => terminal::note(&format!("{kind} {name} is defined twice; the last one is used")),
            Err(error) => return Err(location.error_at_path(&Path::parse(&error.path), &error.to_string())),
        }
        Ok(())
    }
}

fn insert<K: DeserializeOwned + PartialEq>(
    objects: &mut BTreeMap<String, K>,
    name: &str,
    json: &Value,
) -> Result<bool, lossless::ReadError> {
    let object: K = lossless::read(json)?;
    Ok(match objects.get(name) {
        Some(known) if *known == object => false,
        _ => objects.insert(name.to_owned(), object).is_some(),
    })
}
