//! Pool difference: what differs between the two sides of a pool.

use seaworthy_ignition::node::Node;
use seaworthy_ignition::{Change, diff};

use super::side::{RenderedPool, Side};

/// The fields of a MachineConfig's spec that hold one value.
const SCALARS: [&str; 4] = ["osImageURL", "baseOSExtensionsContainerImage", "kernelType", "fips"];

/// A pool on both sides.
pub struct PoolDiff<'s> {
    pub pool: &'s str,
    pub old: Option<&'s RenderedPool>,
    pub new: Option<&'s RenderedPool>,
    /// What differs beside the Ignition config.
    pub fields: Vec<FieldDifference<'s>>,
    /// What differs in the Ignition config.
    pub changes: Vec<Change<'s>>,
}

/// A difference beside the Ignition config.
pub enum FieldDifference<'n> {
    Scalar { field: &'static str, old: Option<&'n Node<'n>>, new: Option<&'n Node<'n>> },
    Item { list: &'static str, sign: char, text: &'n str },
    Order { list: &'static str },
}

impl<'s> PoolDiff<'s> {
    /// Compares all pools. `empty` is used for a missing config.
    pub fn all(old: &'s Side, new: &'s Side, empty: &'s Node<'static>) -> Vec<Self> {
        let pools = old.keys().chain(new.keys().filter(|pool| !old.contains_key(*pool)));
        pools.map(|pool| PoolDiff::of(pool, old.get(pool), new.get(pool), empty)).collect()
    }

    fn of(
        pool: &'s str,
        old: Option<&'s RenderedPool>,
        new: Option<&'s RenderedPool>,
        empty: &'s Node<'static>,
    ) -> Self {
        let config =
            |outcome: Option<&'s RenderedPool>| outcome.and_then(|outcome| outcome.spec.get("config")).unwrap_or(empty);
        let mut changes = diff(config(old), config(new));
        // Every rendered config has the same version; in other configs it has no effect on the machine.
        changes.retain(|change| change.entry.to_string() != "ignition.version");
        PoolDiff { pool, old, new, fields: field_differences(old, new), changes }
    }

    /// Whether anything differs on machines.
    pub fn differs(&self) -> bool {
        !self.changes.is_empty() || !self.fields.is_empty() || self.old.is_some() != self.new.is_some()
    }

    /// Both names, when only they differ.
    pub fn renamed(&self) -> Option<(&str, &str)> {
        let (old, new) = (self.old?, self.new?);
        let is_renamed = old.pool == new.pool && old.name != new.name;
        (is_renamed && !self.differs()).then_some((&old.name, &new.name))
    }
}

fn field_differences<'s>(old: Option<&'s RenderedPool>, new: Option<&'s RenderedPool>) -> Vec<FieldDifference<'s>> {
    let field = |outcome: Option<&'s RenderedPool>, key: &str| -> Option<&'s Node<'s>> {
        let node: &'s Node<'s> = outcome?.spec.get(key)?;
        Some(node).filter(|node| !node.is_null() && node.as_str() != Some(""))
    };
    let mut differences = Vec::new();
    for key in SCALARS {
        let (old, new) = (field(old, key), field(new, key));
        if says(old) != says(new) {
            differences.push(FieldDifference::Scalar { field: key, old, new });
        }
    }
    for list in ["kernelArguments", "extensions"] {
        let items = |outcome: Option<&'s RenderedPool>| -> Vec<&'s str> {
            let node = field(outcome, list).and_then(Node::as_list).unwrap_or_default();
            node.iter().filter_map(Node::as_str).collect()
        };
        list_differences(list, &items(old), &items(new), &mut differences);
    }
    differences
}

/// A value of the spec, unless it is the default that rendering fills in, which means the same as none.
fn says<'n>(node: Option<&'n Node<'n>>) -> Option<&'n Node<'n>> {
    node.filter(|node| node.as_bool() != Some(false) && node.as_str() != Some("default"))
}

fn list_differences<'n>(list: &'static str, old: &[&'n str], new: &[&'n str], out: &mut Vec<FieldDifference<'n>>) {
    let mut left = new.to_vec();
    let before = out.len();
    for text in old {
        match left.iter().position(|other| other == text) {
            Some(at) => drop(left.remove(at)),
            None => out.push(FieldDifference::Item { list, sign: '-', text }),
        }
    }
    out.extend(left.into_iter().map(|text| FieldDifference::Item { list, sign: '+', text }));
    if out.len() == before && old != new {
        out.push(FieldDifference::Order { list });
    }
}

/// The noun for an entry of a list of the spec.
pub fn noun(list: &str) -> &'static str {
    if list == "kernelArguments" { "kernel argument" } else { "extension" }
}
