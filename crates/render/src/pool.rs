//! A MachineConfigPool as rendering sees it.

use seaworthy_ignition::Severity;
use seaworthy_ignition::node::Node;

use crate::finding::{Finding, Place};
use crate::keys;
use crate::selector::Selector;

/// A pool: which MachineConfigs feed it, and who owns the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The name.
    pub name: String,
    /// The uid; empty when the manifest was never in a cluster.
    pub uid: String,
    /// Which MachineConfigs feed it. `None` selects nothing.
    pub selector: Option<Selector>,
    /// The OS image stream that it asks for.
    pub os_image_stream: Option<String>,
}

/// The longest name that leaves room for `rendered-` and the digest in the 253 characters of an object's name.
const LONGEST_NAME: usize = 211;

impl Pool {
    /// Takes a manifest.
    pub fn read(object: &Node<'_>) -> Result<Self, Finding> {
        let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default().to_owned();
        let error = |path: &str, message: String| Finding {
            severity: Severity::Error,
            code: "invalid-pool",
            pool: None,
            subject: String::new(),
            places: vec![Place::pool(if name.is_empty() { "(without a name)" } else { &name }, path)],
            message,
        };
        if name.is_empty() {
            return Err(error("metadata.name", "a MachineConfigPool needs a name".to_owned()));
        }
        if name.len() > LONGEST_NAME {
            let message = format!(
                "the name has {} characters; at most {LONGEST_NAME} leave room for the name of the rendered config",
                name.len()
            );
            return Err(error("metadata.name", message));
        }
        let selector = object.dig(&["spec", "machineConfigSelector"]).filter(|selector| !selector.is_null());
        let selector = selector
            .map(Selector::read)
            .transpose()
            .map_err(|(path, message)| error(&format!("spec.machineConfigSelector{path}"), message))?;
        let stream = object.dig(&["spec", "osImageStream", "name"]).and_then(Node::as_str);
        Ok(Pool {
            uid: object.dig(&["metadata", "uid"]).and_then(Node::as_str).unwrap_or_default().to_owned(),
            os_image_stream: stream.filter(|stream| !stream.is_empty()).map(str::to_owned),
            selector,
            name,
        })
    }

    /// The pool that a role has when nobody defined one: its own MachineConfigs, upon those of the workers.
    pub fn for_role(role: &str) -> Self {
        let selector = match role {
            "master" | "worker" | "arbiter" => {
                serde_json::json!({"matchLabels": {keys::ROLE: role}})
            }
            _ => serde_json::json!({
                "matchExpressions": [{"key": keys::ROLE, "operator": "In", "values": ["worker", role]}]
            }),
        };
        Pool {
            name: role.to_owned(),
            uid: String::new(),
            // The selector is ours and well-formed.
            selector: Selector::read(&Node::from_json(&selector)).ok(),
            os_image_stream: None,
        }
    }

    /// Whether it is a pool of the users' own, which inherits from the workers.
    pub fn is_custom(&self) -> bool {
        !matches!(self.name.as_str(), "master" | "worker" | "arbiter")
    }
}
