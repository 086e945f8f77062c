//! A part of a config that is still growing: what one input has as a whole, and what several have made together.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _};

use crate::node::{Map, Node, Origin, Value};
use crate::schema::{Field, KeyBy, Kind, List};

/// A part of the config.
pub(super) enum Part<'t> {
    /// What one input has. It is taken apart only when another input has a word in it, and most never are. Measured
    /// together with the faster hash and with room for exactly what is read: 310 ms of processor time became 260 for
    /// 3 pools of 800 MachineConfigs.
    Whole(&'t Node<'t>),
    Object {
        fields: Vec<(&'static Field, Part<'t>)>,
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
    entries: Vec<Option<Part<'t>>>,
    index: Index<'t>,
    origin: Origin,
}

/// Where the entry of a key stands. Short lists are searched, long ones are looked up.
enum Index<'t> {
    Short,
    Long(HashMap<Cow<'t, str>, usize>),
}

/// From this length on a list has a lookup table.
const LONG: usize = 12;

impl<'t> Part<'t> {
    /// Takes a whole apart, one level deep, when it is what its kind says.
    pub(super) fn open(&mut self, kind: &Kind) {
        let Part::Whole(node) = *self else { return };
        *self = match (kind, &node.value) {
            (Kind::Object(object), Value::Map(map)) => {
                let fields =
                    map.0.iter().filter_map(|(key, child)| Some((object.field(key)?, Part::Whole(child)))).collect();
                Part::Object { fields, origin: node.origin }
            }
            (Kind::List(list), Value::List(items)) => match list.mode.key_by() {
                None => Part::Concat { items: items.iter().collect(), origin: node.origin },
                Some(key_by) => Part::Keyed(Box::new(Keyed::new(list, key_by, items, node.origin))),
            },
            _ => return,
        };
    }

    /// The finished part.
    pub(super) fn into_node(self) -> Node<'t> {
        match self {
            Part::Whole(node) => node.borrowed(),
            Part::Object { fields, origin } => {
                let entries = fields.into_iter().map(|(field, part)| (Cow::Borrowed(field.name), part.into_node()));
                Node { value: Value::Map(Map(entries.collect())), origin }
            }
            Part::Keyed(keyed) => {
                let entries = keyed.entries.into_iter().flatten().map(Part::into_node);
                Node { value: Value::List(entries.collect()), origin: keyed.origin }
            }
            Part::Concat { items, origin } => {
                Node { value: Value::List(items.into_iter().map(Node::borrowed).collect()), origin }
            }
        }
    }

    pub(super) fn origin(&self) -> Origin {
        match self {
            Part::Whole(node) => node.origin,
            Part::Object { origin, .. } | Part::Concat { origin, .. } => *origin,
            Part::Keyed(keyed) => keyed.origin,
        }
    }

    /// The origin of the first value in it.
    pub(super) fn first_leaf(&self) -> Origin {
        match self {
            Part::Whole(node) => match &node.value {
                Value::Map(map) => map.0.first().map_or(node.origin, |(_, child)| Part::Whole(child).first_leaf()),
                _ => node.origin,
            },
            Part::Object { fields, origin } => fields.first().map_or(*origin, |(_, part)| part.first_leaf()),
            other => other.origin(),
        }
    }

    /// A part of this one, to change it.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Part<'t>> {
        match self {
            Part::Object { fields, .. } => {
                fields.iter_mut().find(|(field, _)| field.name == name).map(|(_, part)| part)
            }
            _ => None,
        }
    }

    /// A value in this part, when it is as one input has it.
    fn value(&self, name: &str) -> Option<&'t Node<'t>> {
        match self {
            Part::Whole(node) => node.get(name),
            Part::Object { fields, .. } => match fields.iter().find(|(field, _)| field.name == name) {
                Some((_, Part::Whole(node))) => Some(*node),
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
            Part::Whole(node) => node.as_str(),
            _ => None,
        };
        key_by.key_from(own, |field| self.text_of(field), |field| self.value(field)?.as_int())
    }
}

impl<'t> Keyed<'t> {
    fn new(list: &'static List, key_by: KeyBy, items: &'t [Node<'t>], origin: Origin) -> Self {
        let entries: Vec<_> = items.iter().map(|item| Some(Part::Whole(item))).collect();
        let index = Index::of(&entries, key_by);
        Keyed { list, key_by, entries, index, origin }
    }

    /// Where the entry with that key stands.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Index::Long(table) => table.get(key).copied(),
            Index::Short => {
                self.entries.iter().position(|entry| entry.as_ref().is_some_and(|entry| entry.key(self.key_by) == key))
            }
        }
    }

    /// The entry at a place.
    pub(super) fn entry_mut(&mut self, at: usize) -> Option<&mut Part<'t>> {
        self.entries[at].as_mut()
    }

    /// Adds an entry with a key that no other has.
    pub(super) fn append(&mut self, item: &'t Node<'t>, key: Cow<'t, str>) {
        let at = self.entries.len();
        self.entries.push(Some(Part::Whole(item)));
        match &mut self.index {
            Index::Long(table) => drop(table.insert(key, at)),
            Index::Short => self.index = Index::of(&self.entries, self.key_by),
        }
    }

    /// Takes the entry with that key out.
    pub(super) fn take(&mut self, key: &str) -> Option<Part<'t>> {
        let at = self.position(key)?;
        if let Index::Long(table) = &mut self.index {
            table.remove(key);
        }
        self.entries[at].take()
    }

    /// Keeps some entries; tells whether there are any.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Part<'t>) -> bool) -> bool {
        self.entries.retain(|entry| entry.as_ref().is_some_and(&mut stays));
        // What the lookup table says no longer holds.
        self.index = Index::of(&self.entries, self.key_by);
        !self.entries.is_empty()
    }
}

impl<'t> Index<'t> {
    fn of(entries: &[Option<Part<'t>>], key_by: KeyBy) -> Self {
        if entries.len() < LONG {
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
