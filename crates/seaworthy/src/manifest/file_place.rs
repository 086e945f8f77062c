//! Where something stands in a file, as editors understand it: `file:line:column`.

use std::fmt;

/// A place in a file.
pub struct FilePlace<'t> {
    /// The file.
    pub file: &'t str,
    /// Line and column, counted from 1.
    pub position: Option<(usize, usize)>,
}

impl fmt::Display for FilePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(self.file),
        }
    }
}
