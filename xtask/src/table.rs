//! Tables of text cells, printed aligned for the terminal or as Markdown for a page.

use std::fmt::Write as _;

/// Which way a column leans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading; short rows are filled with empty cells.
pub struct Table {
    heading: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(heading: &[(&'static str, Align)]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    /// Adds one row; line breaks inside a cell would tear the table apart, so they become spaces.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| cell.replace('\n', " ")).collect();
        row.resize(self.heading.len(), String::new());
        self.rows.push(row);
    }

    /// Columns two spaces apart, no trailing blanks.
    pub fn plain(&self) -> String {
        let widths = self.widths(|cell| cell.to_owned());
        let heading: Vec<String> = self.heading.iter().map(|(title, _)| (*title).to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let cells: Vec<String> = self.padded(row, &widths).collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// A Markdown table, aligned in its source as well.
    pub fn markdown(&self) -> String {
        // Three is the least that a right-aligned rule (`--:`) needs.
        let widths: Vec<usize> = self.widths(escaped).into_iter().map(|width| width.max(3)).collect();
        let heading: Vec<String> = self.heading.iter().map(|(title, _)| (*title).to_owned()).collect();
        let rule: Vec<String> = self
            .heading
            .iter()
            .zip(&widths)
            .map(|((_, align), width)| match align {
                Align::Left => "-".repeat(*width),
                Align::Right => format!("{}:", "-".repeat(width - 1)),
            })
            .collect();
        let mut text = String::new();
        for row in [&heading, &rule].into_iter().chain(&self.rows) {
            let escaped: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
            let cells: Vec<String> = self.padded(&escaped, &widths).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }

    fn widths(&self, shown: impl Fn(&str) -> String) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heading.iter().map(|(title, _)| title.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(shown(cell).chars().count());
            }
        }
        widths
    }

    fn padded<'a>(&'a self, row: &'a [String], widths: &'a [usize]) -> impl Iterator<Item = String> + 'a {
        row.iter().zip(&self.heading).zip(widths).map(|((cell, (_, align)), width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        })
    }
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    fn sample() -> Table {
        let mut table = Table::new(&[("step", Align::Left), ("s", Align::Right)]);
        table.row(["fmt".to_owned(), "1.5".to_owned()]);
        table.row(["a|b\nc".to_owned()]);
        table
    }

    #[test]
    fn plain_table_is_aligned_without_trailing_blanks() {
        assert_eq!(sample().plain(), "step     s\nfmt    1.5\na|b c\n");
    }

    #[test]
    fn markdown_escapes_bars_and_marks_number_columns() {
        assert_eq!(sample().markdown(), "| step   |   s |\n| ------ | --: |\n| fmt    | 1.5 |\n| a\\|b c |     |\n");
    }

    #[test]
    fn width_counts_characters_not_bytes() {
        let mut table = Table::new(&[("µs", Align::Right), ("x", Align::Left)]);
        table.row(["7".to_owned(), "y".to_owned()]);
        assert_eq!(table.plain(), "µs  x\n 7  y\n");
    }
}
