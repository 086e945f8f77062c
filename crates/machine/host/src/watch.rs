//! Hearing of changes to files, whoever makes them.

use std::any::Any;
use std::sync::Arc;

/// Called when something has changed. It must be quick, and may be called more often than needed.
pub type Changed = Arc<dyn Fn() + Send + Sync>;

/// Hears of changes for as long as it lives.
pub struct Watch {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Watch {
    /// A watch that ends when its guard is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Watch { _guard: Box::new(guard) }
    }
}
