//! Watch: notification of changes of files by any process.

use std::any::Any;
use std::sync::Arc;

/// Called after a change. It must be quick, and may be called more often than needed.
pub type ChangeCallback = Arc<dyn Fn() + Send + Sync>;

/// Calls back until it is dropped.
pub struct Watch {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Watch {
    /// A watch that ends when its guard is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Watch { _guard: Box::new(guard) }
    }
}
