//! MachineConfigPool as an input of rendering.

use seaworthy_api::machineconfiguration as api;
use seaworthy_ignition::Path;
use seaworthy_ignition::node::{Node, Value};
use serde_json::json;

use crate::finding::Finding;
use crate::inspection::{Inspection, KnownKeys};
use crate::machine_config::MachineConfig;
use crate::selector::Selector;
use crate::{keys, kinds};

/// A pool: which MachineConfigs feed it, and who owns the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    /// The uid; empty when the manifest was never in a cluster.
    pub uid: String,
    /// Which MachineConfigs feed it. `None` selects nothing.
    pub selector: Option<Selector>,
    /// The OS image stream that it asks for.
    pub os_image_stream: Option<String>,
    /// Findings about its manifest; no errors among them.
    pub findings: Vec<Finding>,
}

/// The longest name that leaves room for `rendered-` and the digest in the 253 characters of an object's name.
const MAX_NAME_LENGTH: usize = 211;

/// The fields of a pool's spec.
const FIELDS: [&str; 7] = [
    "configuration",
    "machineConfigSelector",
    "maxUnavailable",
    "nodeSelector",
    "osImageStream",
    "paused",
    "pinnedImageSets",
];

impl Pool {
    /// Takes a manifest. The error is everything that is wrong with it.
    pub fn read(object: &Node<'_>) -> Result<Self, Vec<Finding>> {
        let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default().to_owned();
        let mut inspection = Inspection::new(kinds::MACHINE_CONFIG_POOL, "invalid-pool", object);
        inspection.object(object, &FIELDS);
        if name.len() > MAX_NAME_LENGTH {
            let message = format!(
                "the name has {} characters; at most {MAX_NAME_LENGTH} leave room for the name of the rendered config",
                name.len()
            );
            inspection.error(Path::of(&["metadata", "name"]), message);
        }
        let path = Path::of(&["spec"]);
        let spec = inspection.map(object.get("spec"), &path);
        if let Some(spec) = spec {
            let known = KnownKeys {
                noun: "MachineConfigPool's spec",
                keys: &FIELDS,
                below: &[("machineConfigSelector", &["matchExpressions", "matchLabels"])],
            };
            inspection.unknown_keys(spec, &path, &known);
            check_types(spec, &path, &mut inspection);
        }
        let mut selector = |key: &str| {
            let node = spec?.get(key).filter(|node| !node.is_null())?;
            Some(Selector::inspect(node, &path.clone().key(key), &mut inspection))
        };
        // Rendering does not use the node selector, but an error in it is best reported now.
        selector("nodeSelector");
        let selector = selector("machineConfigSelector");
        inspection.map(object.dig(&["spec", "osImageStream"]), &Path::of(&["spec", "osImageStream"]));
        let stream = inspection.text(object, &["spec", "osImageStream", "name"]);
        let os_image_stream = stream.filter(|stream| !stream.is_empty()).map(str::to_owned);
        if inspection.has_errors() {
            return Err(inspection.finish());
        }
        Ok(Pool {
            uid: object.dig(&["metadata", "uid"]).and_then(Node::as_str).unwrap_or_default().to_owned(),
            os_image_stream,
            selector,
            name,
            findings: inspection.finish(),
        })
    }

    /// Takes an object of the API. What only the roll-out looks at (`maxUnavailable`, `nodeSelector`, `paused`) is left
    /// out: a mistake there is reported by the roll-out.
    pub fn of(object: &api::MachineConfigPool) -> Result<Self, Vec<Finding>> {
        let spec = api::MachineConfigPoolSpec {
            machine_config_selector: object.spec.machine_config_selector.clone(),
            os_image_stream: object.spec.os_image_stream.clone(),
            unknown: object.spec.unknown.clone(),
            ..api::MachineConfigPoolSpec::default()
        };
        let metadata = json!({"name": object.metadata.name, "uid": object.metadata.uid});
        let manifest =
            json!({"apiVersion": api::API_VERSION, "kind": "MachineConfigPool", "metadata": metadata, "spec": spec});
        Self::read(&Node::from_json(&manifest))
    }

    /// The pool of a role for which none is defined: its own MachineConfigs, upon those of the workers.
    pub fn for_role(role: &str) -> Self {
        let selector = match role {
            "master" | "worker" | "arbiter" => Selector::of_values(keys::ROLE, &[role]),
            _ => Selector::of_values(keys::ROLE, &["worker", role]),
        };
        Pool {
            name: role.to_owned(),
            uid: String::new(),
            selector: Some(selector),
            os_image_stream: None,
            findings: Vec::new(),
        }
    }

    /// Whether it selects a MachineConfig. An empty selector selects none, and a rendered MachineConfig is never an input.
    pub fn selects(&self, source: &MachineConfig<'_>) -> bool {
        let selector = self.selector.as_ref().filter(|selector| !selector.is_empty());
        !source.is_rendered() && selector.is_some_and(|selector| selector.matches(source))
    }

    /// Whether it is a pool of the users' own, which inherits from the workers.
    pub fn is_custom(&self) -> bool {
        !matches!(self.name.as_str(), "master" | "worker" | "arbiter")
    }
}

/// The types of what rendering itself does not look at.
fn check_types(spec: &Node<'_>, path: &Path, inspection: &mut Inspection) {
    for (key, accepted) in [
        ("paused", "true or false, without quotes"),
        ("maxUnavailable", "a number of machines, or a share of them such as \"10%\""),
        ("pinnedImageSets", "a list"),
        ("configuration", "an object"),
    ] {
        let Some(node) = spec.get(key).filter(|node| !node.is_null()) else { continue };
        let is_accepted = match key {
            "paused" => node.as_bool().is_some(),
            "maxUnavailable" => match &node.value {
                Value::Int(number) => *number >= 0,
                Value::Str(text) => text.strip_suffix('%').is_some_and(|share| share.parse::<u32>().is_ok()),
                _ => false,
            },
            "pinnedImageSets" => node.as_list().is_some(),
            _ => node.as_map().is_some(),
        };
        if !is_accepted {
            inspection.wrong(path.clone().key(key), node, accepted);
        }
    }
}
