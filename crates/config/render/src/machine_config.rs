//! A MachineConfig as rendering sees it: a view of the manifest that was read, with its types checked.

use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::Path;
use seaworthy_ignition::node::{Map, Node, Value};

use crate::finding::Finding;
use crate::inspection::{Inspection, Known, name_of};
use crate::keys;

/// A MachineConfig. The manifest stays as it was read, so that every value can be traced to its place.
#[derive(Debug)]
pub struct MachineConfig<'a> {
    object: Node<'a>,
    findings: Vec<Finding>,
}

/// The controller that owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'m> {
    /// Its kind.
    pub kind: &'m str,
    /// Its name.
    pub name: &'m str,
}

impl<'a> MachineConfig<'a> {
    /// Takes a manifest. A broken one is taken too: whether it matters depends on the pools that select it.
    pub fn read(object: Node<'a>) -> Self {
        let findings = inspect(&object);
        MachineConfig { object, findings }
    }

    /// What is wrong with the types of the manifest, all of it.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The manifest.
    pub fn object(&self) -> &Node<'a> {
        &self.object
    }

    /// The name.
    pub fn name(&self) -> &str {
        name_of(&self.object)
    }

    /// Whether the manifest has labels at all.
    pub fn has_labels(&self) -> bool {
        self.object.dig(&["metadata", "labels"]).is_some_and(|labels| !labels.is_null())
    }

    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object.dig(&["metadata", "labels"])?.str_of(key)
    }

    /// The keys of all labels.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.object
            .dig(&["metadata", "labels"])
            .and_then(Node::as_map)
            .into_iter()
            .flat_map(Map::iter)
            .map(|(key, _)| key)
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.dig(&["metadata", "annotations"])?.str_of(key)
    }

    /// The role that it is for.
    pub fn role(&self) -> Option<&str> {
        self.label(keys::ROLE)
    }

    /// The controller that owns it.
    pub fn owner(&self) -> Option<Owner<'_>> {
        let references = self.object.dig(&["metadata", "ownerReferences"])?.as_list()?;
        let controller = references.iter().find(|reference| reference.bool_of("controller") == Some(true))?;
        Some(Owner { kind: controller.text_of("kind"), name: controller.text_of("name") })
    }

    /// The build of the controller that made it; `None` when a user wrote it.
    pub fn generated_by(&self) -> Option<&str> {
        self.annotation(keys::GENERATED_BY).filter(|version| !version.is_empty())
    }

    /// Whether it is the result of rendering, which is never an input of it.
    pub fn is_rendered(&self) -> bool {
        self.name().starts_with(RENDERED_PREFIX)
    }

    /// Whether the platform made it for everyone, and users build upon it.
    ///
    /// What a controller makes from a user's KubeletConfig or ContainerRuntimeConfig is that user's wish, and keeps
    /// its place among the users' own (their names end in `-generated-…`).
    pub fn is_platform(&self) -> bool {
        match self.owner() {
            Some(owner) if owner.kind == "ControllerConfig" => true,
            Some(_) => false,
            None => self.generated_by().is_some() && !self.name().contains("-generated-"),
        }
    }

    /// A field of the spec; `null` counts as unset.
    pub fn field(&self, key: &str) -> Option<&Node<'a>> {
        self.object.get("spec")?.get(key).filter(|node| !node.is_null())
    }

    /// The strings of a list in the spec.
    pub fn list(&self, key: &str) -> &[Node<'a>] {
        self.field(key).and_then(Node::as_list).unwrap_or_default()
    }

    /// The Ignition config.
    pub fn config(&self) -> Option<&Node<'a>> {
        self.field("config")
    }
}

/// The fields of a MachineConfig's spec.
const FIELDS: [&str; 7] =
    ["baseOSExtensionsContainerImage", "config", "extensions", "fips", "kernelArguments", "kernelType", "osImageURL"];

/// Checks the types and the keys of a manifest.
fn inspect(object: &Node<'_>) -> Vec<Finding> {
    let mut inspection = Inspection::new("MachineConfig", "wrong-type", object);
    inspection.object(object, &FIELDS);
    let path = Path::of(&["spec"]);
    let Some(spec) = inspection.map(object.get("spec"), &path) else {
        return inspection.finish();
    };
    let known = Known {
        noun: "MachineConfig's spec",
        keys: &FIELDS,
        below: &[("config", &["ignition", "passwd", "storage", "systemd"])],
    };
    inspection.unknown_keys(spec, &path, &known);
    for (key, value) in spec.as_map().into_iter().flat_map(Map::iter).filter(|(_, value)| !value.is_null()) {
        let here = path.clone().key(key);
        match key {
            "config" => match &value.value {
                Value::Map(_) => {}
                Value::Str(_) => inspection.wrong(
                    here,
                    value,
                    "an Ignition config as an object in place, not as a JSON text: take the quotes off, or the \"|\" before it",
                ),
                _ => inspection.wrong(here, value, "an Ignition config as an object"),
            },
            "kernelArguments" | "extensions" => match value.as_list() {
                None => {
                    let accepted = "a list of strings, also of one: put \"- \" before it in YAML or brackets around it \
                                    in JSON";
                    inspection.wrong(here, value, accepted);
                }
                Some(items) => {
                    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.as_str().is_none()) {
                        let here = here.clone().index(index);
                        match item.as_map().and_then(|map| map.iter().next()) {
                            Some((name, _)) if key == "kernelArguments" => {
                                inspection.wrong(here, item, &format!("a string, such as {name}=…"));
                            }
                            _ => inspection.no_string(here, item),
                        }
                    }
                }
            },
            "fips" if value.as_bool().is_none() => inspection.wrong(here, value, "true or false, without quotes"),
            "kernelType" | "osImageURL" | "baseOSExtensionsContainerImage" if value.as_str().is_none() => {
                inspection.no_string(here, value);
            }
            _ => {}
        }
    }
    inspection.finish()
}
