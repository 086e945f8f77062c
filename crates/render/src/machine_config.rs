//! A MachineConfig as rendering sees it: a view of the manifest that was read, with its types checked.

use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::node::{Map, Node, Value};
use seaworthy_ignition::{Path, Severity};

use crate::finding::{Finding, Place};
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
        let mut shape = Shape { name: name_of(&object).to_owned(), findings: Vec::new() };
        shape.check(&object);
        MachineConfig { object, findings: shape.findings }
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

fn name_of<'n>(object: &'n Node<'_>) -> &'n str {
    object.dig(&["metadata", "name"]).and_then(Node::as_str).filter(|name| !name.is_empty()).unwrap_or(NAMELESS)
}

/// Stands for the name of an object that has none.
const NAMELESS: &str = "(without a name)";

/// The fields of a MachineConfig's spec.
const FIELDS: [&str; 7] =
    ["baseOSExtensionsContainerImage", "config", "extensions", "fips", "kernelArguments", "kernelType", "osImageURL"];

/// Checks the types of a manifest.
struct Shape {
    name: String,
    findings: Vec<Finding>,
}

impl Shape {
    fn check(&mut self, object: &Node<'_>) {
        let path = Path::of(&["metadata"]);
        if self.name == NAMELESS {
            match object.dig(&["metadata", "name"]).filter(|name| !name.is_null() && name.as_str().is_none()) {
                Some(name) => self.wrong(path.clone().key("name"), name, "a string; quote it"),
                None => self.error(path.clone().key("name"), "a MachineConfig needs a name".to_owned()),
            }
        }
        for map in ["labels", "annotations"] {
            let Some(node) = object.dig(&["metadata", map]).filter(|node| !node.is_null()) else {
                continue;
            };
            let here = path.clone().key(map);
            match node.as_map() {
                None => self.wrong(here, node, "an object of strings"),
                Some(entries) => {
                    for (key, value) in entries.iter().filter(|(_, value)| value.as_str().is_none()) {
                        self.wrong(here.clone().key(key), value, "a string; quote it");
                    }
                }
            }
        }
        self.check_root(object);
        let Some(spec) = object.get("spec").filter(|spec| !spec.is_null()) else {
            return;
        };
        let path = Path::of(&["spec"]);
        let Some(fields) = spec.as_map() else {
            self.wrong(path, spec, "an object");
            return;
        };
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let here = path.clone().key(key);
            match key {
                "config" => match &value.value {
                    Value::Map(_) => {}
                    Value::Str(_) => self.wrong(
                        here,
                        value,
                        "an Ignition config as an object in place, not as a JSON text: take the quotes off",
                    ),
                    _ => self.wrong(here, value, "an Ignition config as an object"),
                },
                "kernelArguments" | "extensions" => match value.as_list() {
                    None => self.wrong(here, value, "a list of strings"),
                    Some(items) => {
                        for (index, item) in items.iter().enumerate().filter(|(_, item)| item.as_str().is_none()) {
                            self.wrong(here.clone().index(index), item, "a string; quote it");
                        }
                    }
                },
                "fips" if value.as_bool().is_none() => self.wrong(here, value, "true or false"),
                "kernelType" | "osImageURL" | "baseOSExtensionsContainerImage" if value.as_str().is_none() => {
                    self.wrong(here, value, "a string");
                }
                "fips" | "kernelType" | "osImageURL" | "baseOSExtensionsContainerImage" => {}
                _ => {
                    let near = FIELDS.iter().find(|field| field.eq_ignore_ascii_case(key));
                    let hint = match near {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => format!("a MachineConfig's spec has {}", FIELDS.join(", ")),
                    };
                    self.warn(here, "unknown-key", format!("unknown key {key:?} is ignored; {hint}"));
                }
            }
        }
    }

    /// Keys beside `spec`: one outdented by a blank too few takes a whole config with it.
    fn check_root(&mut self, object: &Node<'_>) {
        const KNOWN: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
        for (key, _) in object.as_map().into_iter().flat_map(Map::iter).filter(|(key, _)| !KNOWN.contains(key)) {
            let hint = if FIELDS.contains(&key) {
                "it belongs below spec: indent it"
            } else {
                "a MachineConfig has metadata and spec"
            };
            self.warn(Path::of(&[key]), "unknown-key", format!("unknown key {key:?} is ignored; {hint}"));
        }
    }

    fn warn(&mut self, path: Path, code: &'static str, message: String) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            code,
            pool: None,
            subject: String::new(),
            places: vec![Place::machine_config(&self.name, &path)],
            message,
        });
    }

    fn wrong(&mut self, path: Path, node: &Node<'_>, accepted: &str) {
        self.error(path, format!("found {}; accepted is {accepted}", node.describe()));
    }

    fn error(&mut self, path: Path, message: String) {
        self.findings.push(Finding {
            severity: Severity::Error,
            code: "wrong-type",
            pool: None,
            subject: String::new(),
            places: vec![Place::machine_config(&self.name, &path)],
            message,
        });
    }
}
