//! Syntax of systemd unit files, as far as configs are checked for it.

use std::collections::BTreeSet;

/// Why a text is not a unit file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A `[` that opens a section header is never closed.
    #[error("line {line}: a section header starts with \"[\" but no \"]\" follows")]
    OpenSection {
        /// The line, counted from 1.
        line: usize,
    },
    /// Something follows the `]` of a section header.
    #[error("line {line}: found {found:?} after the section header; a header must be alone on its line")]
    AfterSection {
        /// The line, counted from 1.
        line: usize,
        /// What follows.
        found: String,
    },
    /// A line is neither a header, a comment nor `Name=value`.
    #[error("line {line}: found {found:?}; expected \"[Section]\", \"Name=value\" or a comment")]
    NoEquals {
        /// The line, counted from 1.
        line: usize,
        /// The line's beginning.
        found: String,
    },
    /// A line is longer than systemd reads.
    #[error("line {line} is longer than {MAX_LINE_BYTES} bytes; break it with a backslash at the line's end")]
    LineTooLong {
        /// The line, counted from 1.
        line: usize,
    },
}

/// The longest line: older systemd cuts the rest off without a word.
const MAX_LINE_BYTES: usize = 2048;

/// Reads a unit file and gives the names of its sections that hold at least one option.
///
/// Compat: the reader is the one of coreos/go-systemd (`unit/deserialize.go`): everything before the first section is
/// passed over, a header may span lines, and a line's length is looked at only where at least that much lies in the
/// read buffer.
pub fn sections(text: &str) -> Result<BTreeSet<&str>, UnitError> {
    let mut reader = Reader { text, at: 0, buffered: 0, line_end: None };
    let mut filled = BTreeSet::new();
    let mut section: Option<&str> = None;
    // Whether the section was entered in the set: names may be long, so one is looked up once and not for each option.
    let mut is_entered = false;
    loop {
        reader.check_line()?;
        let Some(next) = reader.char() else {
            return Ok(filled);
        };
        match next {
            '[' => {
                reader.check_line()?;
                let start = reader.at;
                let name = reader.until(b']').ok_or_else(|| UnitError::OpenSection { line: line_of(text, start) })?;
                reader.check_line()?;
                let start = reader.at;
                let garbage = reader.rest_of_line().trim();
                if !garbage.is_empty() {
                    return Err(UnitError::AfterSection { line: line_of(text, start), found: beginning(garbage) });
                }
                section = Some(name);
                is_entered = false;
            }
            '#' | ';' => {
                reader.check_line()?;
                // A comment goes on below a line that ends in a backslash, one blank behind it allowed.
                loop {
                    let line = reader.rest_of_line();
                    if !line.strip_suffix(' ').unwrap_or(line).ends_with('\\') {
                        break;
                    }
                }
            }
            c => match section {
                // Before the first section everything is passed over.
                None => {}
                Some(_) if c.is_whitespace() => {}
                Some(name) => {
                    reader.unread(c);
                    reader.check_line()?;
                    let start = reader.at;
                    reader.option_name().map_err(|found| UnitError::NoEquals { line: line_of(text, start), found })?;
                    loop {
                        reader.check_line()?;
                        let value = reader.rest_of_line();
                        if value.trim().is_empty() || !value.ends_with('\\') {
                            break;
                        }
                    }
                    if !is_entered {
                        filled.insert(name);
                        is_entered = true;
                    }
                }
            },
        }
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The line of a place, counted from 1. It walks the text from its start, so it is for errors only.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A text read the way a reader with a buffer of 4096 bytes reads it.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The end of what the buffer holds.
    buffered: usize,
    /// The end of a line, as last seen: most characters of a line need no search for it.
    line_end: Option<usize>,
}

impl<'t> Reader<'t> {
    const BUFFER: usize = 4096;

    fn fill(&mut self) {
        self.buffered = (self.at + Self::BUFFER).min(self.text.len());
    }

    fn check_line(&mut self) -> Result<(), UnitError> {
        let ahead = &self.text.as_bytes()[self.at..self.buffered.max(self.at)];
        let Some(line) = ahead.get(..MAX_LINE_BYTES) else {
            return Ok(());
        };
        if self.line_end.and_then(|end| end.checked_sub(self.at)).is_some_and(|length| length < MAX_LINE_BYTES) {
            return Ok(());
        }
        match line.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(length) => {
                self.line_end = Some(self.at + length);
                Ok(())
            }
            None => Err(UnitError::LineTooLong { line: line_of(self.text, self.at) }),
        }
    }

    fn char(&mut self) -> Option<char> {
        let next = self.text[self.at..].chars().next()?;
        if self.at + next.len_utf8() > self.buffered {
            self.fill();
        }
        self.at += next.len_utf8();
        Some(next)
    }

    fn unread(&mut self, c: char) {
        self.at -= c.len_utf8();
    }

    /// The text up to a byte, which is passed over too.
    fn until(&mut self, end: u8) -> Option<&'t str> {
        let length = self.text.as_bytes()[self.at..].iter().position(|byte| *byte == end)?;
        let found = &self.text[self.at..self.at + length];
        self.advance(length + 1);
        Some(found)
    }

    /// The text up to the line's end, which is passed over too.
    fn rest_of_line(&mut self) -> &'t str {
        match self.until(b'\n') {
            Some(line) => line,
            None => {
                let line = &self.text[self.at..];
                self.advance(line.len());
                line.strip_suffix('\r').unwrap_or(line)
            }
        }
    }

    /// Moves on; the buffer is filled again each time it runs out on the way.
    fn advance(&mut self, length: usize) {
        let target = self.at + length;
        while self.buffered < target {
            // A delimiter that is not in the buffer makes it slide to the reading position and fill up; a full buffer
            // is handed out whole first.
            if self.buffered - self.at.min(self.buffered) >= Self::BUFFER {
                self.at = self.buffered;
            }
            self.fill();
        }
        self.at = target;
    }

    /// Passes over an option's name and its `=`.
    fn option_name(&mut self) -> Result<(), String> {
        let start = self.at;
        loop {
            match self.char() {
                Some('=') => return Ok(()),
                Some('\n' | '\r') | None => {
                    return Err(beginning(self.text[start..self.at].trim_end()));
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", &[])]
    #[case("[Unit]\nDescription=x\n[Install]\nWantedBy=multi-user.target\n", &["Install", "Unit"])]
    #[case("[Unit]\nDescription=x", &["Unit"])]
    #[case("anything before the first section\n[Service]\nA=\n", &["Service"])]
    #[case("# comment \\\n still comment\n[S]\nA=b \\\n  c\n", &["S"])]
    #[case("[Empty]\n", &[])]
    #[case("[S]\n\n  ; comment\nA=1\\", &["S"])]
    fn accepted(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(sections(text).unwrap().into_iter().collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case("[Unit", "line 1: a section header")]
    #[case("[Unit] x\n", "line 1: found \"x\" after")]
    #[case("[Unit]\nA=b\nExecStart /bin/true\n", "line 3: found \"ExecStart /bin/true\"")]
    #[case("[Unit]\nA", "line 2: found \"A\"")]
    fn refused(#[case] text: &str, #[case] message: &str) {
        let error = sections(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn a_line_longer_than_systemd_reads_is_refused() {
        let text = format!("[Service]\nExecStart=/bin/{}\n", "x".repeat(2100));
        assert_eq!(sections(&text), Err(UnitError::LineTooLong { line: 2 }));
        let text = format!("[Service]\nExecStart=/bin/{}\n", "x".repeat(2000));
        assert!(sections(&text).is_ok());
    }

    /// Each of these took minutes or longer as long as something was searched from the start for every option, header
    /// or character; a test that never ends is how it shows.
    #[rstest]
    #[case::options(format!("[S]\n{}", "A=\n".repeat(1_000_000)))]
    #[case::headers("[S]\nA=\n".repeat(400_000))]
    #[case::comments(format!("[S]\n{}\nA=\n", "# \\\n".repeat(500_000)))]
    #[case::before_the_first_section(format!("{}[S]\nA=\n", format!("{}\n", "x".repeat(2000)).repeat(2000)))]
    #[case::long_name(format!("[{}]\n{}", "S\n".repeat(500_000), "A=\n".repeat(500_000)))]
    fn a_large_unit_is_read_in_one_go(#[case] text: String) {
        assert_eq!(sections(&text).unwrap().len(), 1);
    }

    #[test]
    fn the_line_of_a_late_mistake_is_named() {
        let text = format!("[S]\n{}no equals sign\n", "A=\n".repeat(100_000));
        assert!(matches!(sections(&text), Err(UnitError::NoEquals { line: 100_002, .. })));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]=#;\\\\ \\n\\ra-cü]{0,60}") {
            let _ = sections(&text);
        }

        #[test]
        fn long_texts_are_read_or_refused(parts in prop::collection::vec("[\\[\\]=#\\\\ \\na-c]{0,3000}", 0..4)) {
            let _ = sections(&parts.concat());
        }
    }
}
