//! File locations in the form that editors understand: `file:line:column`.

use std::fmt;

pub struct FileLocation<'t> {
    pub file: &'t str,
    /// Line and column, counted from 1.
    pub position: Option<(usize, usize)>,
}

impl fmt::Display for FileLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(self.file),
        }
    }
}
