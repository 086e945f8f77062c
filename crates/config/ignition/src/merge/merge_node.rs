//! Merge node: a part of a config under construction, either one input's value or the merged values of several.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _};

use crate::node::{Map, Node, Origin, Value};
use crate::schema::{Field, FieldType, KeyBy, List};

/// A part of the config under construction.
pub(super) enum MergeNode<'t> {
    /// What one input has. It is taken apart only when another input sets something in it, and most never are. Measured
    /// together with the faster hash and with room for exactly what is read: 310 ms of processor time became 260 for
    /// 3 pools of 800 MachineConfigs.
    Whole(&'t Node<'t>),
    Object {
        fields: Vec<(&'static Field, MergeNode<'t>)>,
        origin: Origin,
    },
    Keyed(Box<Keyed<'t>>),
    Concat {
        items: Vec<&'t Node<'t>>,
        origin: Origin,
    },
}

/// A list whose entries have keys.
pub(super) struct Keyed<'t> {
    pub(super) list: &'static List,
    pub(super) key_by: KeyBy,
    /// The entries; those that were taken out leave their place behind.
    entries: Vec<Option<MergeNode<'t>>>,
    index: Index<'t>,
    origin: Origin,
}

/// Positions of entries by key. Short lists are searched, long ones are looked up.
enum Index<'t> {
    Short,
    Long(HashMap<Cow<'t, str>, usize>),
}

/// From this length on a list has a lookup table.
const INDEX_THRESHOLD: usize = 12;

impl<'t> MergeNode<'t> {
    /// Takes a whole apart, one level deep, when it is what its kind says.
    pub(super) fn open(&mut self, kind: &FieldType) {
        let MergeNode::Whole(node) = *self else { return };
        *self = match (kind, &node.value) {
            (FieldType::Object(object), Value::Map(map)) => {
                let fields = map
                    .0
                    .iter()
                    .filter_map(|(key, child)| Some((object.field(key)?, MergeNode::Whole(child))))
                    .collect();
                MergeNode::Object { fields, origin: node.origin }
            }
            (FieldType::List(list), Value::List(items)) => match list.mode.key_by() {
                None => MergeNode::Concat { items: items.iter().collect(), origin: node.origin },
                Some(key_by) => MergeNode::Keyed(Box::new(Keyed::new(list, key_by, items, node.origin))),
            },
            _ => return,
        };
    }

    /// The finished part.
    pub(super) fn into_node(self) -> Node<'t> {
        match self {
            MergeNode::Whole(node) => node.borrowed(),
            MergeNode::Object { fields, origin } => {
                let entries = fields.into_iter().map(|(field, part)| (Cow::Borrowed(field.name), part.into_node()));
                Node { value: Value::Map(Map(entries.collect())), origin }
            }
            MergeNode::Keyed(keyed) => {
                let entries = keyed.entries.into_iter().flatten().map(MergeNode::into_node);
                Node { value: Value::List(entries.collect()), origin: keyed.origin }
            }
            MergeNode::Concat { items, origin } => {
                Node { value: Value::List(items.into_iter().map(Node::borrowed).collect()), origin }
            }
        }
    }

    pub(super) fn origin(&self) -> Origin {
        match self {
            MergeNode::Whole(node) => node.origin,
            MergeNode::Object { origin, .. } | MergeNode::Concat { origin, .. } => *origin,
            MergeNode::Keyed(keyed) => keyed.origin,
        }
    }

    /// The origin of the first value in it.
    pub(super) fn first_leaf(&self) -> Origin {
        match self {
            MergeNode::Whole(node) => match &node.value {
                Value::Map(map) => map.0.first().map_or(node.origin, |(_, child)| MergeNode::Whole(child).first_leaf()),
                _ => node.origin,
            },
            MergeNode::Object { fields, origin } => fields.first().map_or(*origin, |(_, part)| part.first_leaf()),
            other => other.origin(),
        }
    }

    /// A part of this one, to change it.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut MergeNode<'t>> {
        match self {
            MergeNode::Object { fields, .. } => {
                fields.iter_mut().find(|(field, _)| field.name == name).map(|(_, part)| part)
            }
            _ => None,
        }
    }

    /// A value in this part, when it is as one input has it.
    fn value(&self, name: &str) -> Option<&'t Node<'t>> {
        match self {
            MergeNode::Whole(node) => node.get(name),
            MergeNode::Object { fields, .. } => match fields.iter().find(|(field, _)| field.name == name) {
                Some((_, MergeNode::Whole(node))) => Some(*node),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn text_of(&self, name: &str) -> Option<&'t str> {
        self.value(name)?.as_str()
    }

    /// The key of this entry.
    fn key(&self, key_by: KeyBy) -> Cow<'t, str> {
        let own = match self {
            MergeNode::Whole(node) => node.as_str(),
            _ => None,
        };
        key_by.key_from(own, |field| self.text_of(field), |field| self.value(field)?.as_int())
    }
}

impl<'t> Keyed<'t> {
    fn new(list: &'static List, key_by: KeyBy, items: &'t [Node<'t>], origin: Origin) -> Self {
        let entries: Vec<_> = items.iter().map(|item| Some(MergeNode::Whole(item))).collect();
        let index = Index::of(&entries, key_by);
        Keyed { list, key_by, entries, index, origin }
    }

    /// The position of the entry with that key.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Index::Long(table) => table.get(key).copied(),
            Index::Short => {
                self.entries.iter().position(|entry| entry.as_ref().is_some_and(|entry| entry.key(self.key_by) == key))
            }
        }
    }

    /// The entry at a place.
    pub(super) fn entry_mut(&mut self, at: usize) -> Option<&mut MergeNode<'t>> {
        self.entries[at].as_mut()
    }

    /// Adds an entry with a key that no other has.
    pub(super) fn append(&mut self, item: &'t Node<'t>, key: Cow<'t, str>) {
        let at = self.entries.len();
        self.entries.push(Some(MergeNode::Whole(item)));
        match &mut self.index {
            Index::Long(table) => drop(table.insert(key, at)),
            Index::Short => self.index = Index::of(&self.entries, self.key_by),
        }
    }

    /// Takes the entry with that key out.
    pub(super) fn take(&mut self, key: &str) -> Option<MergeNode<'t>> {
        let at = self.position(key)?;
        if let Index::Long(table) = &mut self.index {
            table.remove(key);
        }
        self.entries[at].take()
    }

    /// Keeps some entries; returns whether there are any.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&MergeNode<'t>) -> bool) -> bool {
        self.entries.retain(|entry| entry.as_ref().is_some_and(&mut stays));
        // The lookup table is outdated.
        self.index = Index::of(&self.entries, self.key_by);
        !self.entries.is_empty()
    }
}

impl<'t> Index<'t> {
    fn of(entries: &[Option<MergeNode<'t>>], key_by: KeyBy) -> Self {
        if entries.len() < INDEX_THRESHOLD {
            return Index::Short;
        }
        let mut table = HashMap::with_capacity(2 * entries.len());
        for (at, entry) in entries.iter().enumerate() {
            if let Some(entry) = entry {
                table.insert(entry.key(key_by), at);
            }
        }
        Index::Long(table)
    }
}
