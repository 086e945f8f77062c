//! [`MemoryLog`]: the log in memory, for tests that open it again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Engine, EngineError, Row, Watermarks};

/// A log in memory. Clones share it, so a clone kept aside can be opened again, like a disk after a restart.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    rows: BTreeMap<u64, Row>,
    watermarks: Watermarks,
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        MemoryLog::default()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // A panic elsewhere cannot leave a log half changed: nothing below panics between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for MemoryLog {
    fn watermarks(&mut self) -> Result<Watermarks, EngineError> {
        Ok(self.log().watermarks)
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        self.log().rows.values().cloned().try_for_each(visit)
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        let mut log = self.log();
        for row in rows {
            log.watermarks.revision = row.revision;
            log.rows.insert(row.revision, row.clone());
        }
        Ok(())
    }

    fn compact(&mut self, watermarks: Watermarks, superseded: &[u64]) -> Result<(), EngineError> {
        let mut log = self.log();
        for revision in superseded {
            log.rows.remove(revision);
        }
        log.watermarks = watermarks;
        Ok(())
    }
}
