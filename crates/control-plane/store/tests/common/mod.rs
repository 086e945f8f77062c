//! Helpers of all suites: short bodies, and log storage that outlives the store opened in it.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use seaworthy_store::{
    Body, Change, Engine, EventWindow, Expect, Indexer, Key, MemoryLog, Record, RedbLog, Store, Tags,
};
use tempfile::TempDir;

/// Log storage that outlives the store: a folder, or shared memory.
pub enum LogStorage {
    Disk(TempDir),
    Memory(MemoryLog),
}

impl LogStorage {
    pub fn disk() -> Self {
        LogStorage::Disk(tempfile::tempdir().unwrap())
    }

    pub fn memory() -> Self {
        LogStorage::Memory(MemoryLog::new())
    }

    pub fn engine(&self) -> Box<dyn Engine> {
        match self {
            LogStorage::Disk(folder) => Box::new(RedbLog::open(&folder.path().join("store.redb")).unwrap()),
            LogStorage::Memory(memory) => Box::new(memory.clone()),
        }
    }

    pub fn store(&self) -> Store {
        self.store_with(EventWindow::default())
    }

    pub fn store_with(&self, window: EventWindow) -> Store {
        match self {
            LogStorage::Disk(folder) => Store::open(folder.path(), indexer(), window).unwrap(),
            LogStorage::Memory(memory) => Store::with_engine(memory.clone(), indexer(), window).unwrap(),
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
