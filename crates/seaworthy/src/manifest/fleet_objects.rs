//! Objects that a roll-out decision needs: pools, Nodes, MachineConfigNodes and the ControllerConfig.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node as KubeNode;
use seaworthy_api::lossless;
use seaworthy_api::machineconfiguration::{API_VERSION, ControllerConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_ignition::node::Node;
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
    pub nodes: BTreeMap<String, KubeNode>,
    pub progress: BTreeMap<String, MachineConfigNode>,
    /// The ControllerConfigs, of which a cluster has one.
    pub controller_configs: BTreeMap<String, ControllerConfig>,
    others: BTreeMap<String, usize>,
    errors: Vec<String>,
}

/// Adds an object; whether another one of the same name was there.
type Insert = fn(&mut FleetObjects, &str, &Value) -> Result<bool, lossless::ReadError>;

/// The kinds that are read, with their apiVersion.
const KINDS: [(&str, &str, Insert); 4] = [
    ("MachineConfigPool", API_VERSION, |fleet, name, json| insert(&mut fleet.pools, name, json)),
    ("Node", "v1", |fleet, name, json| insert(&mut fleet.nodes, name, json)),
    ("MachineConfigNode", API_VERSION, |fleet, name, json| insert(&mut fleet.progress, name, json)),
    ("ControllerConfig", API_VERSION, |fleet, name, json| insert(&mut fleet.controller_configs, name, json)),
];

impl FleetObjects {
    /// Reads the objects of all texts. Everything that cannot be read is reported, not the first.
    pub fn read(texts: &[ManifestText]) -> Result<Self, Failure> {
        let mut fleet = FleetObjects::default();
        let mut errors = Vec::new();
        objects::each(texts, &mut errors, &mut |object| fleet.take(&object));
        fleet.errors.extend(errors);
        if !fleet.errors.is_empty() {
            return Err(Failure::all_invalid(fleet.errors));
        }
        if !fleet.others.is_empty() {
            let kinds: Vec<String> = fleet.others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            terminal::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
        }
        Ok(fleet)
    }

    fn take(&mut self, found: &Object<'_, '_>) {
        let Object { node: object, kind, list_version, location } = *found;
        let Some((kind, api_version, insert)) = KINDS.into_iter().find(|(known, ..)| *known == kind) else {
            let known = KINDS.map(|(kind, ..)| kind);
            if let Some(near) = spelling::nearest(kind, known).filter(|near| near.eq_ignore_ascii_case(kind)) {
                let message = format!("unknown kind {kind:?}; did you mean {near:?}?");
                self.errors.push(location.error_at_key("kind", &message));
            } else {
                *self.others.entry(kind.to_owned()).or_default() += 1;
            }
            return;
        };
        let found = object.text_of("apiVersion");
        // The items of a typed list need not repeat the list's apiVersion.
        let is_implied = found.is_empty() && list_version.is_some();
        if found != api_version && !is_implied {
            let message = format!("{kind}: unsupported apiVersion {found:?}; expected {api_version}");
            self.errors.push(location.error_at_key("apiVersion", &message));
            return;
        }
        let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            self.errors.push(location.error_at_key("metadata", &format!("a {kind} has no metadata.name; set it")));
            return;
        }
        match insert(self, &name, &object.to_json()) {
            Ok(false) => {}
            Ok(true) => terminal::note(&format!("{kind} {name} is defined twice; the last one is used")),
            Err(error) => {
                let path = Path::parse(&error.path);
                let message = error.to_string();
                self.errors.push(location.error_at_path(&path, &message));
            }
        }
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
