//! Source text of an expression, and locations in it by code point.

/// A place in an expression: line from 1, column from 0, both counted in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 for a problem of the whole text.
    pub line: i32,
    /// The column, from 0; -1 for a problem of the whole text.
    pub column: i32,
}

impl Location {
    /// The place of problems that concern the text as a whole.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

/// An expression's text, split for lookups.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    lines: Vec<&'a str>,
    /// The code point offset at which each line starts.
    starts: Vec<u32>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut starts = Vec::with_capacity(lines.len());
        let mut offset = 0u32;
        for line in &lines {
            starts.push(offset);
            offset = offset.saturating_add(line.chars().count() as u32 + 1);
        }
        Source { lines, starts }
    }

    /// The line and column of the code point at `offset`.
    pub(crate) fn location(&self, offset: u32) -> Location {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        Location { line: line as i32 + 1, column: (offset - self.starts[line]) as i32 }
    }

    pub(crate) fn line(&self, line: i32) -> Option<&'a str> {
        usize::try_from(line).ok()?.checked_sub(1).and_then(|index| self.lines.get(index).copied())
    }
}
