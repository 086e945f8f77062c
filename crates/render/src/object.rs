//! The rendered MachineConfig as an object that can be applied.

use std::borrow::Cow;

use seaworthy_ignition::node::{Map, Node, Value};

use crate::keys;
use crate::render::Rendered;

/// The largest object that a cluster stores.
pub const LARGEST: usize = 1_572_864;
/// From this size on there is little room left.
pub const LARGE: usize = 1_258_291;

impl<'r> Rendered<'r, '_> {
    /// The object: name, annotations, the pool as its owner, the spec.
    pub fn object(&self) -> Node<'_> {
        let text = |text: &'_ str| Node::made(Value::Str(Cow::Owned(text.to_owned())));
        let annotations =
            self.annotations.iter().map(|(key, value)| (Cow::Borrowed(*key), text(value))).collect::<Vec<_>>();
        let owner = vec![
            entry("apiVersion", text(keys::API_VERSION)),
            entry("blockOwnerDeletion", Node::made(Value::Bool(true))),
            entry("controller", Node::made(Value::Bool(true))),
            entry("kind", text("MachineConfigPool")),
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
            entry("kind", text("MachineConfig")),
            entry("metadata", Node::made(Value::Map(Map(metadata)))),
            entry("spec", self.spec.borrowed()),
        ])))
    }

    /// The object as JSON.
    pub fn to_json(&self) -> String {
        // A tree of strings, numbers, lists and objects always has a JSON form.
        serde_json::to_string(&self.object()).unwrap_or_default()
    }

    /// The names of the inputs, in the order they were merged.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.source.name())
    }
}

fn entry<'a>(key: &'static str, node: Node<'a>) -> (Cow<'a, str>, Node<'a>) {
    (Cow::Borrowed(key), node)
}
