//! Rendered MachineConfig as an API object.

use std::borrow::Cow;
use std::io::{BufWriter, Write as _};

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use seaworthy_ignition::node::{Map, Node, Value};

use crate::render::Rendered;
use crate::{BUFFER_BYTES, json, keys, kinds};

/// The size limit of objects in a cluster: the request limit of etcd.
pub const MAX_OBJECT_BYTES: usize = 1_572_864;
/// From this size on a warning is reported: 80 % of the limit.
pub const LARGE_OBJECT_BYTES: usize = 1_258_291;

impl<'r> Rendered<'r, '_> {
    /// The object as a manifest: name, annotations, the pool as its owner, the spec.
    pub fn into_manifest(self) -> Node<'r> {
        let mut object = self.head();
        if let Some(map) = object.as_map_mut() {
            map.set("spec", self.spec);
        }
        object
    }

    /// The object without its spec.
    fn head(&self) -> Node<'static> {
        let text = |text: &str| Node::made(Value::Str(Cow::Owned(text.to_owned())));
        let annotations =
            self.annotations.iter().map(|(key, value)| (Cow::Borrowed(*key), text(value))).collect::<Vec<_>>();
        let owner = vec![
            entry("apiVersion", text(keys::API_VERSION)),
            entry("blockOwnerDeletion", Node::made(Value::Bool(true))),
            entry("controller", Node::made(Value::Bool(true))),
            entry("kind", text(kinds::MACHINE_CONFIG_POOL)),
            entry("name", text(&self.pool.name)),
            entry("uid", text(&self.pool.uid)),
        ];
        let metadata = vec![
            entry("annotations", Node::made(Value::Map(Map(annotations)))),
            entry("name", text(&self.name)),
            entry("ownerReferences", Node::made(Value::List(vec![Node::made(Value::Map(Map(owner)))]))),
        ];
        Node::made(Value::Map(Map(vec![
            entry("apiVersion", text(keys::API_VERSION)),
            entry("kind", text(kinds::MACHINE_CONFIG)),
            entry("metadata", Node::made(Value::Map(Map(metadata)))),
        ])))
    }

    /// The rendered MachineConfig as an object of the API. It has no owner yet.
    pub fn into_object(self) -> MachineConfig {
        let mut object = MachineConfig::new(&self.name, spec_of(self.spec));
        let annotations = self.annotations.into_iter().map(|(key, value)| (key.to_owned(), value));
        object.metadata.annotations = Some(annotations.collect());
        object
    }

    /// Writes the object as JSON.
    pub fn write_json(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        // Buffered here: the many small writes are calls that the compiler knows.
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        let mut head = Vec::new();
        json::write(&self.head(), &mut head)?;
        // The head is an object: its last byte is the brace that closes it.
        out.write_all(head.strip_suffix(b"}").unwrap_or(&head))?;
        out.write_all(b",\"spec\":")?;
        json::write(&self.spec, &mut out)?;
        out.write_all(b"}")?;
        out.flush()
    }

    /// How many bytes the object takes as JSON: what a cluster's limit is about.
    pub fn size(&self) -> usize {
        json::length(&self.head()) + ",\"spec\":".len() + json::length(&self.spec)
    }

    /// The names of the inputs, in the order they were merged.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.source.name())
    }
}

/// The spec of a rendered config. Its types were checked when it was merged.
fn spec_of(spec: Node<'_>) -> MachineConfigSpec {
    let mut found = MachineConfigSpec::default();
    let Value::Map(map) = spec.value else { return found };
    for (key, node) in map.0 {
        match key.as_ref() {
            "baseOSExtensionsContainerImage" => found.base_os_extensions_container_image = text_of(node),
            "config" => found.config = Some(node.into_json()).filter(|config| !config.is_null()),
            "extensions" => found.extensions = texts_of(node),
            "fips" => found.fips = node.as_bool(),
            "kernelArguments" => found.kernel_arguments = texts_of(node),
            "kernelType" => found.kernel_type = text_of(node),
            "osImageURL" => found.os_image_url = text_of(node),
            _ => {
                found.unknown.0.insert(key.into_owned(), node.into_json());
            }
        }
    }
    found
}

fn text_of(node: Node<'_>) -> Option<String> {
    match node.value {
        Value::Str(text) => Some(text.into_owned()),
        _ => None,
    }
}

fn texts_of(node: Node<'_>) -> Option<Vec<String>> {
    match node.value {
        Value::List(list) => Some(list.into_iter().filter_map(text_of).collect()),
        _ => None,
    }
}

fn entry<'a>(key: &'static str, node: Node<'a>) -> (Cow<'a, str>, Node<'a>) {
    (Cow::Borrowed(key), node)
}
