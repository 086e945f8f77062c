//! Merging of configs: the later one wins, entry by entry and field by field.
//!
//! The rules are those of Ignition's own merge (`config/merge/merge.go` upstream), read from the
//! [schema](crate::schema). Keys of lists are indexed once for the whole run, so merging `n` configs costs the sum of
//! their sizes.
//!
//! Merging is associative as long as nothing is taken away on the way: no header is removed or left behind with its
//! host, no path changes between file, directory and link, no argument between wanted and unwanted. A merged config
//! cannot remember what it would have taken from a parent that it never met.

mod merge_node;

use std::collections::HashSet;

use crate::node::{Map, Node, Origin};
use crate::schema::{CONFIG, Field, FieldType, KeyBy, ListMergeMode, Object, ObjectMergeMode};
use crate::url;
use merge_node::MergeNode;

/// The result of a merge.
#[derive(Debug)]
pub struct MergedConfig<'t> {
    /// The config. Its values keep the origins of the inputs they came from.
    pub config: Node<'t>,
    /// Everything that more than one input sets, in the order of merging.
    pub events: Vec<MergeEvent>,
}

/// Something that happened between two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeEvent {
    /// What happened.
    pub kind: MergeEventKind,
    /// The value of the later input.
    pub winner: Origin,
    /// The value of the earlier input.
    pub loser: Origin,
}

/// What happened between two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeEventKind {
    /// The later value took the place of a different one.
    Replaced,
    /// Both give the same value.
    Repeated,
    /// The earlier entry is gone: the later input has another kind of entry under its key.
    Removed,
    /// The earlier value is gone: it belonged to a body that the later input replaced.
    Dropped,
    /// The earlier value stays in an entry of which the later input changed another part.
    Kept,
}

/// Merges configs of spec 3.5, earliest first.
pub fn merge<'t>(configs: impl IntoIterator<Item = &'t Node<'t>>) -> MergedConfig<'t> {
    let mut merger = Merger::default();
    for config in configs {
        merger.add(config);
    }
    merger.finish()
}

/// Merges configs one after the other.
#[derive(Default)]
pub struct Merger<'t> {
    config: Option<MergeNode<'t>>,
    events: Vec<MergeEvent>,
}

impl<'t> Merger<'t> {
    /// Merges one more config over what is there.
    pub fn add(&mut self, config: &'t Node<'t>) {
        match &mut self.config {
            None => self.config = Some(MergeNode::Whole(config)),
            Some(part) => merge_object(part, config, &CONFIG, &mut self.events),
        }
    }

    /// The result; an empty config when nothing was added.
    pub fn finish(self) -> MergedConfig<'t> {
        let mut config = match self.config {
            Some(part) => part.into_node(),
            None => Node::empty_config(crate::Version::INTERNAL.as_str()),
        };
        crate::shape::prune(&mut config);
        MergedConfig { config, events: self.events }
    }
}

fn merge_object<'t>(
    part: &mut MergeNode<'t>,
    child: &'t Node<'t>,
    object: &'static Object,
    events: &mut Vec<MergeEvent>,
) {
    let Some(map) = child.as_map() else { return };
    part.open(&FieldType::Object(object));
    for list in object.shared {
        remove_namesakes(part, child, list, object, events);
    }
    if object.merge == ObjectMergeMode::Body && child.get("source").is_some() {
        drop_body(part, child, events);
    }
    let MergeNode::Object { fields, .. } = part else {
        return;
    };
    for (key, value) in &map.0 {
        let Some(field) = object.field(key) else {
            continue;
        };
        match fields.iter_mut().find(|(known, _)| std::ptr::eq(*known, field)) {
            Some((_, part)) => merge_value(part, value, &field.kind, events),
            None => fields.push((field, MergeNode::Whole(value))),
        }
    }
}

fn merge_value<'t>(part: &mut MergeNode<'t>, child: &'t Node<'t>, kind: &FieldType, events: &mut Vec<MergeEvent>) {
    match kind {
        FieldType::Object(object) => merge_object(part, child, object, events),
        FieldType::List(_) => merge_list(part, child, kind, events),
        FieldType::Str | FieldType::Int | FieldType::Bool => {
            let MergeNode::Whole(old) = part else { return };
            let kind = if **old == *child { MergeEventKind::Repeated } else { MergeEventKind::Replaced };
            events.push(MergeEvent { kind, winner: child.origin, loser: old.origin });
            *old = child;
        }
    }
}

fn merge_list<'t>(part: &mut MergeNode<'t>, child: &'t Node<'t>, kind: &FieldType, events: &mut Vec<MergeEvent>) {
    let items = child.as_list().unwrap_or_default();
    part.open(kind);
    let keyed = match part {
        MergeNode::Concat { items: old, .. } => return old.extend(items),
        MergeNode::Keyed(keyed) => keyed,
        _ => return,
    };
    for item in items {
        let key = keyed.key_by.key_of(item);
        let Some(at) = keyed.position(&key) else {
            keyed.append(item, key);
            continue;
        };
        if keyed.list.mode == ListMergeMode::Headers && item.get("value").is_none() {
            if let Some(gone) = keyed.take(&key) {
                events.push(MergeEvent { kind: MergeEventKind::Removed, winner: item.origin, loser: gone.origin() });
            }
            continue;
        }
        let (list, key_by) = (keyed.list, keyed.key_by);
        let Some(entry) = keyed.entry_mut(at) else {
            continue;
        };
        match &list.item {
            FieldType::Object(object) => {
                if changes_values(item, object, key_by) {
                    kept(entry, item, object, key_by, item.origin, events);
                }
                merge_object(entry, item, object, events);
            }
            // A text that is in both lists stays where it was.
            _ => events.push(MergeEvent { kind: MergeEventKind::Repeated, winner: item.origin, loser: entry.origin() }),
        }
    }
}

/// Takes out of the other lists of a group what the child has in this one.
fn remove_namesakes<'t>(
    part: &mut MergeNode<'t>,
    child: &'t Node<'t>,
    list: &str,
    object: &'static Object,
    events: &mut Vec<MergeEvent>,
) {
    let items = child.list_of(list);
    if items.is_empty() {
        return;
    }
    for other in object.fields.iter().filter(|field| field.name != list && object.shared.contains(&field.name)) {
        let Some(part) = part.get_mut(other.name) else { continue };
        part.open(&other.kind);
        let MergeNode::Keyed(keyed) = part else { continue };
        for item in items {
            if let Some(gone) = keyed.take(&keyed.key_by.key_of(item)) {
                events.push(MergeEvent { kind: MergeEventKind::Removed, winner: item.origin, loser: gone.origin() });
            }
        }
    }
}

/// Takes out of a body what described the old source and is not given again with the new one.
///
/// Differs: upstream lets the new source inherit the old hash and headers, and a later entry that only sets a mode lose
/// the compression, because it merges field by field; the first is a body that never verifies, the second a corrupted
/// file. A source, its hash and its compression belong together.
fn drop_body<'t>(part: &mut MergeNode<'t>, child: &'t Node<'t>, events: &mut Vec<MergeEvent>) {
    // Headers are for a server: they stay for the same one, where the child may change single ones of them.
    let same_host = match (part.text_of("source"), child.str_of("source")) {
        (Some(old), Some(new)) => url::host_of(old).is_some() && url::host_of(old) == url::host_of(new),
        _ => false,
    };
    let keeps_headers = same_host && !child.list_of("httpHeaders").is_empty();
    let Some(winner) = child.get("source").map(|source| source.origin) else {
        return;
    };
    let MergeNode::Object { fields, .. } = part else {
        return;
    };
    fields.retain_mut(|(field, old)| {
        let stays = match field.name {
            "compression" | "verification" => child.get(field.name).is_some(),
            "httpHeaders" => keeps_headers || keep_headers_to_remove(old, &field.kind, child),
            _ => true,
        };
        if !stays {
            events.push(MergeEvent { kind: MergeEventKind::Dropped, winner, loser: old.first_leaf() });
        }
        stays
    });
}

/// Of the old headers only those stay that the child takes away by name, so that nothing is left of either.
fn keep_headers_to_remove(headers: &mut MergeNode<'_>, kind: &FieldType, child: &Node<'_>) -> bool {
    let removals: HashSet<&str> = child
        .list_of("httpHeaders")
        .iter()
        .filter(|header| header.get("value").is_none())
        .map(|header| header.text_of("name"))
        .collect();
    headers.open(kind);
    match headers {
        MergeNode::Keyed(headers) => {
            headers.retain(|header| removals.contains(header.text_of("name").unwrap_or_default()))
        }
        _ => false,
    }
}

/// Whether an entry sets values, rather than only adding to lists (a drop-in, a key), which takes nothing from anyone.
fn changes_values(entry: &Node<'_>, object: &Object, key_by: KeyBy) -> bool {
    let is_value = |field: &Field| !matches!(field.kind, FieldType::List(_)) && key_by != KeyBy::Field(field.name);
    let mut keys = entry.as_map().into_iter().flat_map(Map::iter);
    keys.any(|(key, _)| object.field(key).is_some_and(is_value))
}

/// Records the values of an entry that stay although the child changes another part of it.
fn kept<'t>(
    part: &mut MergeNode<'t>,
    child: &'t Node<'t>,
    object: &'static Object,
    key_by: KeyBy,
    winner: Origin,
    events: &mut Vec<MergeEvent>,
) {
    let new_body = object.merge == ObjectMergeMode::Body && child.get("source").is_some();
    if new_body {
        return;
    }
    part.open(&FieldType::Object(object));
    let MergeNode::Object { fields, .. } = part else {
        return;
    };
    for (field, old) in fields {
        if key_by == KeyBy::Field(field.name) {
            continue;
        }
        match (&field.kind, child.get(field.name), old) {
            (FieldType::Str | FieldType::Int | FieldType::Bool, None, MergeNode::Whole(leaf)) => {
                events.push(MergeEvent { kind: MergeEventKind::Kept, winner, loser: leaf.origin });
            }
            (FieldType::Object(object), Some(value), old) => kept(old, value, object, KeyBy::Text, winner, events),
            (FieldType::Object(_), None, old) => {
                events.push(MergeEvent { kind: MergeEventKind::Kept, winner, loser: old.first_leaf() });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: serde_json::Value, doc: u32) -> Node<'static> {
        let text = json.to_string();
        let mut node = serde_json::from_str::<Node<'_>>(&text).unwrap().into_owned();
        node.number(doc);
        node
    }

    #[test]
    fn a_value_knows_the_input_it_came_from_and_what_it_replaced() {
        let a = tree(serde_json::json!({"storage":{"files":[{"path":"/a","mode":1,"user":{"id":0}}]}}), 0);
        let b = tree(serde_json::json!({"storage":{"files":[{"path":"/b"},{"path":"/a","mode":2}]}}), 1);
        let merged = merge([&a, &b]);
        let file = &merged.config.dig(&["storage", "files"]).unwrap().as_list().unwrap()[0];
        let mode = file.get("mode").unwrap();
        assert_eq!(b.path_of(mode.origin).unwrap().to_string(), "storage.files[1].mode");
        let replaced = merged.events.iter().find(|event| event.winner == mode.origin).unwrap();
        assert_eq!(replaced.kind, MergeEventKind::Replaced);
        assert_eq!(a.path_of(replaced.loser).unwrap().to_string(), "storage.files[0].mode");
        let kept: Vec<_> = merged.events.iter().filter(|event| event.kind == MergeEventKind::Kept).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(a.path_of(kept[0].loser).unwrap().to_string(), "storage.files[0].user.id");
    }

    #[test]
    fn long_lists_are_merged_like_short_ones() {
        let files = |from: usize, to: usize, mode: usize| {
            let files: Vec<_> =
                (from..to).map(|i| serde_json::json!({"path": format!("/{i}"), "mode": mode})).collect();
            serde_json::json!({"storage": {"files": files}})
        };
        let inputs: Vec<_> = (0..10).map(|i| tree(files(i * 5, i * 5 + 10, i), i as u32)).collect();
        let merged = merge(&inputs);
        let files = merged.config.dig(&["storage", "files"]).unwrap().as_list().unwrap();
        assert_eq!(files.len(), 55);
        for (i, file) in files.iter().enumerate() {
            assert_eq!(file.text_of("path"), format!("/{i}"));
            assert_eq!(file.int_of("mode"), Some((i / 5).min(9) as i64));
        }
    }

    /// Takes minutes as soon as each header is searched for in a list.
    #[test]
    fn many_headers_are_taken_away_in_one_go() {
        let body = |host: &str, from: usize, to: usize, value: Option<&str>| {
            let header = |at: usize| match value {
                Some(value) => serde_json::json!({"name": format!("H{at}"), "value": value}),
                None => serde_json::json!({"name": format!("H{at}")}),
            };
            let headers: Vec<_> = (from..to).map(header).collect();
            let contents = serde_json::json!({"source": host, "httpHeaders": headers});
            tree(serde_json::json!({"storage": {"files": [{"path": "/a", "contents": contents}]}}), 0)
        };
        let merged = |child: &Node<'static>| {
            let parent = body("http://h/", 0, 30_000, Some("x"));
            let merged = merge([&parent, child]).config.to_json();
            let headers = merged.pointer("/storage/files/0/contents/httpHeaders").cloned();
            headers.and_then(|headers| headers.as_array().map(Vec::len)).unwrap_or_default()
        };
        // Another host leaves no old header, whether or not the child takes it away by name.
        assert_eq!(merged(&body("http://i/", 10_000, 30_000, None)), 0);
        assert_eq!(merged(&body("http://i/", 10_000, 30_000, Some("y"))), 20_000);
        assert_eq!(merged(&body("http://h/", 10_000, 40_000, Some("y"))), 40_000);
        assert_eq!(merged(&body("http://h/", 10_000, 30_000, None)), 10_000);
    }

    #[test]
    fn nothing_merged_is_the_empty_config() {
        assert_eq!(merge([]).config, Node::empty_config("3.5.0"));
    }
}
