//! File tree in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Attributes, Entry, EntryKind, HostError};

/// As many links as a kernel follows.
const MAX_LINKS: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    File(Arc<[u8]>),
    Link(String),
    Directory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) content: Content,
    pub(super) attributes: Attributes,
}

impl TreeEntry {
    pub(super) fn file(bytes: &[u8], attributes: Attributes) -> Self {
        TreeEntry { content: Content::File(bytes.into()), attributes }
    }

    pub(super) fn link(target: &str) -> Self {
        TreeEntry { content: Content::Link(target.to_owned()), attributes: Attributes::of_root(0o777) }
    }

    pub(super) fn entry(&self) -> Entry {
        let (kind, size) = match &self.content {
            Content::File(bytes) => (EntryKind::File, bytes.len() as u64),
            Content::Link(target) => (EntryKind::Link(target.clone()), 0),
            Content::Directory => (EntryKind::Directory, 0),
        };
        Entry { kind, mode: self.attributes.mode, uid: self.attributes.uid, gid: self.attributes.gid, size }
    }
}

/// Files and links by path. Directories need no item of their own: one that has something below it is there.
#[derive(Clone, Default)]
pub(super) struct Tree {
    pub(super) items: BTreeMap<String, TreeEntry>,
}

static DIRECTORY: TreeEntry = TreeEntry { content: Content::Directory, attributes: Attributes::of_root(0o755) };

impl Tree {
    pub(super) fn get(&self, path: &str) -> Option<&TreeEntry> {
        let path = self.resolved(path);
        self.items.get(&path).or_else(|| self.has_below(&path).then_some(&DIRECTORY))
    }

    pub(super) fn put(&mut self, path: &str, item: TreeEntry) {
        self.items.insert(path.to_owned(), item);
    }

    /// Inserts an entry, unless a directory is in its place.
    pub(super) fn place(&mut self, path: &str, item: TreeEntry, verb: &'static str) -> Result<(), HostError> {
        let at = self.resolved(path);
        if matches!(self.get(&at), Some(TreeEntry { content: Content::Directory, .. })) {
            return Err(HostError::file(verb, path, "Is a directory"));
        }
        let mut above = at.as_str();
        while let Some((folder, _)) = above.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
            if let Some(TreeEntry { content: Content::File(_), .. }) = self.items.get(folder) {
                return Err(HostError::file(verb, path, "Not a directory"));
            }
            above = folder;
        }
        self.items.insert(at, item);
        Ok(())
    }

    /// The path with the links above it followed, never out of the root.
    pub(super) fn resolved(&self, path: &str) -> String {
        let mut path = path.to_owned();
        'again: for _ in 0..MAX_LINKS {
            for (end, _) in path.match_indices('/').skip(1) {
                if let Some(TreeEntry { content: Content::Link(target), .. }) = self.items.get(&path[..end]) {
                    let base =
                        if target.starts_with('/') { "" } else { path[..end].rsplit_once('/').map_or("", |it| it.0) };
                    path = normal(&format!("{base}/{target}{}", &path[end..]));
                    continue 'again;
                }
            }
            break;
        }
        path
    }

    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let directory = self.resolved(directory);
        let mut names: Vec<String> = self
            .below(&directory)
            .filter_map(|path| path[directory.len()..].strip_prefix('/')?.split('/').next().map(str::to_owned))
            .collect();
        names.dedup();
        names
    }

    /// Everything at a path and below it.
    pub(super) fn below(&self, path: &str) -> impl Iterator<Item = &str> {
        let path = path.to_owned();
        self.items
            .range(path.clone()..)
            .map(|(name, _)| name.as_str())
            .take_while({
                let path = path.clone();
                move |name| name.starts_with(&path)
            })
            .filter(move |name| name.len() == path.len() || name.as_bytes()[path.len()] == b'/')
    }

    fn has_below(&self, path: &str) -> bool {
        self.below(path).next().is_some()
    }
}

/// Resolves `.` and `..`, never above the root.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
