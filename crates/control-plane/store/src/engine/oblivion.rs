//! No log at all, for a store that ends with its process: what is now and what happened lately is in the store's state.

use super::{Engine, EngineError, Mark, Row};

/// Remembers how far the revisions are, and no row.
#[derive(Debug, Default)]
pub struct Oblivion {
    mark: Mark,
}

impl Engine for Oblivion {
    fn mark(&mut self) -> Result<Mark, EngineError> {
        Ok(self.mark)
    }

    fn load(&mut self, _: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        Ok(())
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        self.mark.revision = rows.last().map_or(self.mark.revision, |row| row.revision);
        Ok(())
    }

    fn compact(&mut self, mark: Mark, _: &[u64]) -> Result<(), EngineError> {
        self.mark = mark;
        Ok(())
    }
}
