//! Contents of files and units for display: lines of text, or size and digest of binary data.

use std::io::{self, Write};
use std::time::Duration;

use seaworthy_fetch::Digest;
use seaworthy_ignition::body::{BodyError, bytes_of};
use seaworthy_ignition::node::Node;
use seaworthy_values::text::{beginning, counted};
use similar::{ChangeTag, TextDiff};

use crate::terminal;

/// Compressed contents are decompressed up to this size.
pub const MAX_UNPACKED_BYTES: u64 = 16 * 1024 * 1024;

/// How many lines of contents are shown where nothing is compared.
const MAX_EXCERPT_LINES: usize = 20;

/// How many characters of a line are shown: contents may be one line of a megabyte.
const MAX_LINE_CHARS: usize = 400;

/// Comparing two texts with little in common takes quadratic time; after this limit a longer difference than necessary is
/// accepted.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

/// The bytes of a body, decoded and unpacked.
pub fn of_body(body: &Node<'_>) -> Result<Vec<u8>, BodyError> {
    bytes_of(body, MAX_UNPACKED_BYTES).map(|bytes| bytes.into_owned())
}

/// The text, when the bytes are one.
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Contents in a few words: how many lines or, for what is no text, size and digest.
pub fn summary(bytes: &[u8]) -> String {
    match (bytes.len(), text(bytes)) {
        (0, _) => "empty".to_owned(),
        (size, None) => format!("{}, {}", counted(size, "byte"), Digest::sha256(bytes)),
        (_, Some(text)) => counted(text.lines().count(), "line"),
    }
}

/// Writes the first lines of contents, and how many are left out. Of what is no text nothing is written.
pub fn write_excerpt(out: &mut dyn Write, bytes: &[u8], indent: &str) -> io::Result<()> {
    let Some(text) = text(bytes) else { return Ok(()) };
    for line in text.lines().take(MAX_EXCERPT_LINES) {
        writeln!(out, "{indent}|{}", whole_or_cut(line))?;
    }
    match text.lines().count().saturating_sub(MAX_EXCERPT_LINES) {
        0 => Ok(()),
        left => writeln!(out, "{indent}… {} left out", counted(left, "more line")),
    }
}

/// Writes how contents differ: the lines that do with a few around them, or sizes and digests.
pub fn write_difference(out: &mut dyn Write, old: &[u8], new: &[u8], indent: &str) -> io::Result<()> {
    let (Some(before), Some(after)) = (text(old), text(new)) else {
        return writeln!(out, "{indent}{} → {}", summary(old), summary(new));
    };
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, after);
    for (nth, group) in diff.grouped_ops(2).iter().enumerate() {
        if nth > 0 {
            writeln!(out, "{indent}…")?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let style = terminal::diff_style(sign);
            let line = change.value().trim_end_matches('\n');
            writeln!(out, "{indent}{style}{sign}{}{style:#}", whole_or_cut(line))?;
        }
    }
    // Otherwise two lines would look the same that are not.
    if before.ends_with('\n') != after.ends_with('\n') && !before.is_empty() && !after.is_empty() {
        let side = if after.ends_with('\n') { "old" } else { "new" };
        writeln!(out, "{indent}(no newline at the end of the {side} contents)")?;
    }
    Ok(())
}

fn whole_or_cut(line: &str) -> String {
    match beginning(line, MAX_LINE_CHARS) {
        Some(beginning) => format!("{}… ({} bytes)", terminal::sanitized(beginning), line.len()),
        None => terminal::sanitized(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn an_excerpt_says_how_much_is_left_out() {
        let lines: String = (0..23).map(|nth| format!("{nth}\n")).collect();
        let shown = written(|out| write_excerpt(out, lines.as_bytes(), " "));
        assert!(shown.starts_with(" |0\n |1\n") && shown.ends_with(" |19\n … 3 more lines left out\n"), "{shown}");
        assert_eq!(written(|out| write_excerpt(out, b"a\nb", "")), "|a\n|b\n");
        assert_eq!(written(|out| write_excerpt(out, b"\0", "")), "");
    }

    #[test]
    fn missing_newline_at_the_end_is_reported() {
        let shown = written(|out| write_difference(out, b"a\n", b"a", ""));
        assert_eq!(shown, "-a\n+a\n(no newline at the end of the new contents)\n");
    }

    #[test]
    fn binary_data_is_shown_by_size_and_digest() {
        let shown = written(|out| write_difference(out, b"\0", b"", ""));
        assert!(shown.starts_with("1 byte, sha256-6e34") && shown.ends_with(" → empty\n"), "{shown}");
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = "x".repeat(1000);
        let shown = written(|out| write_excerpt(out, line.as_bytes(), ""));
        assert!(shown.len() < 500 && shown.ends_with("x… (1000 bytes)\n"), "{shown}");
    }
}
