//! MachineConfig as an input of rendering: a view of a manifest or of an API object, with its types checked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::{self as api, API_VERSION, ControllerConfig};
use seaworthy_api::meta::is_kind;
use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::Path;
use seaworthy_ignition::node::{Map, Node, Value};

use crate::finding::Finding;
use crate::inspection::{Inspection, KnownKeys, name_of};
use crate::{keys, kinds};

/// A MachineConfig. The manifest stays as it was read, so that every value can be traced to its place.
#[derive(Debug)]
pub struct MachineConfig<'a> {
    object: Node<'a>,
    findings: Vec<Finding>,
}

/// The controller that owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'m> {
    pub api_version: &'m str,
    pub kind: &'m str,
    pub name: &'m str,
}

impl<'a> MachineConfig<'a> {
    /// Takes a manifest. A broken one is taken too: whether it matters depends on the pools that select it.
    pub fn read(object: Node<'a>) -> Self {
        let findings = inspect(&object);
        MachineConfig { object, findings }
    }

    /// Takes an object of the API, the `document`th of the inputs, and borrows all its texts.
    pub fn of(object: &'a api::MachineConfig, document: u32) -> Self {
        Self::of_tree(object, spec_tree(&object.spec), document)
    }

    /// Takes only the name and the labels of an object of the API, for messages about what could be selected: there may
    /// be many such objects, and large ones.
    pub fn without_spec(object: &'a api::MachineConfig, document: u32) -> Self {
        Self::of_tree(object, Node::made(Value::Map(Map::default())), document)
    }

    fn of_tree(object: &'a api::MachineConfig, spec: Node<'a>, document: u32) -> Self {
        let mut tree = map([
            ("apiVersion", text(API_VERSION)),
            ("kind", text(kinds::MACHINE_CONFIG)),
            ("metadata", metadata_tree(object)),
            ("spec", spec),
        ]);
        tree.number(document);
        Self::read(tree)
    }

    /// What is wrong with the types of the manifest, all of it.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The manifest.
    pub fn object(&self) -> &Node<'a> {
        &self.object
    }

    pub fn name(&self) -> &str {
        name_of(&self.object)
    }

    /// Whether the manifest has labels at all.
    pub fn has_labels(&self) -> bool {
        self.object.dig(&["metadata", "labels"]).is_some_and(|labels| !labels.is_null())
    }

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
        Some(Owner {
            api_version: controller.text_of("apiVersion"),
            kind: controller.text_of("kind"),
            name: controller.text_of("name"),
        })
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
    /// What a controller makes from a user's KubeletConfig or ContainerRuntimeConfig is the user's configuration, and
    /// keeps its place among the users' own (their names end in `-generated-…`).
    pub fn is_platform(&self) -> bool {
        match self.owner() {
            Some(owner) if is_kind::<ControllerConfig>(owner.api_version, owner.kind) => true,
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

/// The metadata that rendering looks at.
fn metadata_tree(object: &api::MachineConfig) -> Node<'_> {
    let metadata = &object.metadata;
    let owners = metadata.owner_references.as_ref().map(|owners| {
        let owners = owners.iter().map(|owner| {
            let controller = owner.controller.map(|is| ("controller", Node::made(Value::Bool(is))));
            map(controller.into_iter().chain([
                ("apiVersion", text(&owner.api_version)),
                ("kind", text(&owner.kind)),
                ("name", text(&owner.name)),
            ]))
        });
        Node::made(Value::List(owners.collect()))
    });
    let entries = [
        ("annotations", metadata.annotations.as_ref().map(|found| texts(found))),
        ("labels", metadata.labels.as_ref().map(|found| texts(found))),
        ("name", metadata.name.as_deref().map(text)),
        ("namespace", metadata.namespace.as_deref().map(text)),
        ("ownerReferences", owners),
    ];
    map(entries.into_iter().filter_map(|(key, node)| Some((key, node?))))
}

fn spec_tree(spec: &api::MachineConfigSpec) -> Node<'_> {
    let api::MachineConfigSpec {
        base_os_extensions_container_image,
        config,
        extensions,
        fips,
        kernel_arguments,
        kernel_type,
        os_image_url,
        unknown,
    } = spec;
    let known = [
        ("baseOSExtensionsContainerImage", base_os_extensions_container_image.as_deref().map(text)),
        ("config", config.as_ref().map(Node::from_json)),
        ("extensions", extensions.as_deref().map(list)),
        ("fips", fips.map(|is| Node::made(Value::Bool(is)))),
        ("kernelArguments", kernel_arguments.as_deref().map(list)),
        ("kernelType", kernel_type.as_deref().map(text)),
        ("osImageURL", os_image_url.as_deref().map(text)),
    ];
    let known = known.into_iter().filter_map(|(key, node)| Some((key, node?)));
    let unknown = unknown.0.iter().map(|(key, value)| (key.as_str(), Node::from_json(value)));
    let mut entries: Vec<(&str, Node<'_>)> = known.chain(unknown).collect();
    // As an API server writes them: findings about unknown keys come in this order.
    entries.sort_by_key(|(key, _)| *key);
    map(entries)
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Node<'a>)>) -> Node<'a> {
    Node::made(Value::Map(Map(entries.into_iter().map(|(key, node)| (Cow::Borrowed(key), node)).collect())))
}

fn texts(texts: &BTreeMap<String, String>) -> Node<'_> {
    map(texts.iter().map(|(key, value)| (key.as_str(), text(value))))
}

fn list(items: &[String]) -> Node<'_> {
    Node::made(Value::List(items.iter().map(|item| text(item)).collect()))
}

fn text(text: &str) -> Node<'_> {
    Node::made(Value::Str(Cow::Borrowed(text)))
}

/// The fields of a MachineConfig's spec.
const FIELDS: [&str; 7] =
    ["baseOSExtensionsContainerImage", "config", "extensions", "fips", "kernelArguments", "kernelType", "osImageURL"];

/// Checks the types and the keys of a manifest.
fn inspect(object: &Node<'_>) -> Vec<Finding> {
    let mut inspection = Inspection::new(kinds::MACHINE_CONFIG, "wrong-type", object);
    inspection.object(object, &FIELDS);
    let path = Path::of(&["spec"]);
    let Some(spec) = inspection.map(object.get("spec"), &path) else {
        return inspection.finish();
    };
    let known = KnownKeys {
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
                    "an Ignition config as an object in place, not as a JSON text: remove the quotes, or the \"|\" before it",
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
