//! Documents: schemas that refer to each other, kept in one arena.
//!
//! - Nodes name each other by number, so a definition that contains itself (a schema of schemas) is nothing special.
//! - A [`Schema`] is a place in a document: copying it is free, and following a property needs no reference counting.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use crate::node::{Additional, Node};
use crate::rules::RuleSet;

/// A node's number in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// All schemas that were read together.
#[derive(Default)]
pub struct Document {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<Box<str>, NodeId>,
    pub(crate) rule_sets: BTreeMap<NodeId, RuleSet>,
}

impl Document {
    /// The schema of a definition by name.
    pub fn named(&self, name: &str) -> Option<Schema<'_>> {
        self.names.get(name).map(|id| self.at(*id))
    }

    /// The schema at a number that this document gave out.
    pub fn at(&self, id: NodeId) -> Schema<'_> {
        Schema { document: self, id }
    }

    /// The names of all definitions, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(AsRef::as_ref)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("nodes", &self.nodes.len()).field("names", &self.names.len()).finish()
    }
}

/// One schema of a document. Its own properties are those of [`Node`]; what it refers to is found by its methods.
#[derive(Clone, Copy)]
pub struct Schema<'a> {
    document: &'a Document,
    id: NodeId,
}

impl<'a> Schema<'a> {
    /// Its number, to come back to it later.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The document it is part of.
    pub fn document(self) -> &'a Document {
        self.document
    }

    /// The node with the lifetime of the document, not of this handle.
    pub fn node(self) -> &'a Node {
        &self.document.nodes[self.id.0 as usize]
    }

    /// A property that is declared by name.
    pub fn property(self, name: &str) -> Option<Schema<'a>> {
        let properties = &self.node().properties;
        let found = properties.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(self.document.at(properties[found].1))
    }

    /// All declared properties by name, in order.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'a str, Schema<'a>)> {
        self.node().properties.iter().map(move |(name, id)| (&**name, self.document.at(*id)))
    }

    /// What keys that are not declared hold, if they are described.
    pub fn additional(self) -> Option<Schema<'a>> {
        match self.node().additional {
            Additional::Described(id) => Some(self.document.at(id)),
            Additional::Unspecified | Additional::Anything | Additional::Nothing => None,
        }
    }

    /// The schema of a key, declared or not.
    pub fn field(self, name: &str) -> Option<Schema<'a>> {
        self.property(name).or_else(|| self.additional())
    }

    /// What a list's elements look like.
    pub fn items(self) -> Option<Schema<'a>> {
        self.node().items.map(|id| self.document.at(id))
    }

    /// The schemas that must all hold.
    pub fn all_of(self) -> impl ExactSizeIterator<Item = Schema<'a>> {
        self.each(self.node().logic.as_ref().map(|logic| &*logic.all_of))
    }

    /// The schemas of which at least one must hold.
    pub fn any_of(self) -> impl ExactSizeIterator<Item = Schema<'a>> {
        self.each(self.node().logic.as_ref().map(|logic| &*logic.any_of))
    }

    /// The schemas of which exactly one must hold.
    pub fn one_of(self) -> impl ExactSizeIterator<Item = Schema<'a>> {
        self.each(self.node().logic.as_ref().map(|logic| &*logic.one_of))
    }

    /// The schema that must not hold.
    pub fn none_of(self) -> Option<Schema<'a>> {
        self.node().logic.as_ref()?.not.map(|id| self.document.at(id))
    }

    /// What is needed to run the rules of this schema.
    pub(crate) fn rule_set(self) -> Option<&'a RuleSet> {
        self.document.rule_sets.get(&self.id)
    }

    fn each(self, ids: Option<&'a [NodeId]>) -> impl ExactSizeIterator<Item = Schema<'a>> {
        ids.unwrap_or_default().iter().map(move |id| self.document.at(*id))
    }
}

impl Deref for Schema<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.node()
    }
}

impl fmt::Debug for Schema<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({}: {:?})", self.id.0, self.node().kind)
    }
}
