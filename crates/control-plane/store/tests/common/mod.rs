//! What all suites share: short bodies, and a place that survives the store opened in it.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use seaworthy_store::{Body, Change, Engine, Expect, Indexer, Key, Memory, Record, Redb, Store, Tags, Window};
use tempfile::TempDir;

/// A log that outlives the store: a folder, or a shared memory.
pub enum Place {
    Disk(TempDir),
    Memory(Memory),
}

impl Place {
    pub fn disk() -> Self {
        Place::Disk(tempfile::tempdir().unwrap())
    }

    pub fn memory() -> Self {
        Place::Memory(Memory::new())
    }

    pub fn engine(&self) -> Box<dyn Engine> {
        match self {
            Place::Disk(folder) => Box::new(Redb::open(&folder.path().join("store.redb")).unwrap()),
            Place::Memory(memory) => Box::new(memory.clone()),
        }
    }

    pub fn store(&self) -> Store {
        self.store_with(Window::default())
    }

    pub fn store_with(&self, window: Window) -> Store {
        match self {
            Place::Disk(folder) => Store::open(folder.path(), indexer(), window).unwrap(),
            Place::Memory(memory) => Store::with_engine(memory.clone(), indexer(), window).unwrap(),
        }
    }
}

/// Makes the text before the `@` a label and a field.
pub fn indexer() -> Indexer {
    Arc::new(|key, body| {
        let text = str::from_utf8(body).unwrap().split('@').next().unwrap_or_default();
        Tags::new([("text", text)], [("name", &*key.name)])
    })
}

pub fn key(name: &str) -> Key {
    Key::new("core/pods", "default", name)
}

/// A body that reads `text@revision`.
pub fn body(text: &str) -> Body {
    Body::new(format!("{text}@"), text.len() + 1)
}

pub fn put(key: &Key, expected: Expect, text: &str) -> Change {
    Change::Put { key: key.clone(), expected, body: body(text) }
}

pub fn delete(key: &Key, expected: Expect, text: &str) -> Change {
    Change::Delete { key: key.clone(), expected, body: body(text) }
}

pub fn bodies<'a>(records: impl IntoIterator<Item = &'a Arc<Record>>) -> Vec<String> {
    records.into_iter().map(|record| String::from_utf8(record.body().to_vec()).unwrap()).collect()
}
