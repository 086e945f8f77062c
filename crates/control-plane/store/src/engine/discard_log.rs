//! [`DiscardLog`]: discards all rows, for a store that ends with its process and has its whole state in memory.

use super::{Engine, EngineError, Row, Watermarks};

/// Keeps the watermarks, and no row.
#[derive(Debug, Default)]
pub struct DiscardLog {
    watermarks: Watermarks,
}

impl Engine for DiscardLog {
    fn watermarks(&mut self) -> Result<Watermarks, EngineError> {
        Ok(self.watermarks)
    }

    fn load(&mut self, _: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        Ok(())
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        self.watermarks.revision = rows.last().map_or(self.watermarks.revision, |row| row.revision);
        Ok(())
    }

    fn compact(&mut self, watermarks: Watermarks, _: &[u64]) -> Result<(), EngineError> {
        self.watermarks = watermarks;
        Ok(())
    }
}
