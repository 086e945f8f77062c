//! Messages on standard error: errors, warnings and notes, coloured on a terminal, with control characters removed.

use std::fmt::Display;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use seaworthy_ignition::Severity;
use seaworthy_ignition::node::quote;

/// The style of a severity.
pub fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Info => AnsiColor::Cyan.on_default(),
    }
}

/// The style of removed (`-`) and added (`+`) lines.
pub fn diff_style(sign: char) -> Style {
    match sign {
        '-' => AnsiColor::Red.on_default(),
        '+' => AnsiColor::Green.on_default(),
        _ => Style::new(),
    }
}

pub fn error(message: &str) {
    print(style(Severity::Error), "error", message);
}

pub fn warning(message: &str) {
    print(style(Severity::Warning), "warning", message);
}

pub fn note(message: &str) {
    print(style(Severity::Info), "note", message);
}

fn print(style: Style, word: &str, message: &str) {
    let lines: Vec<String> = message.split('\n').map(sanitized).collect();
    // If standard error is closed, there is nowhere to report to.
    let _ = writeln!(anstream::stderr(), "{style}{word}{style:#}: {}", lines.join("\n"));
}

/// A text in quotes, whole unless it is very long: two images differ in the last digits of their names. The passwords in
/// URLs are left out.
pub fn quoted(text: &str) -> String {
    const MAX_QUOTED_CHARS: usize = 400;
    let is_url = text.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
    let text = if is_url { seaworthy_fetch::redact(text) } else { text.to_owned() };
    if text.len() <= MAX_QUOTED_CHARS { format!("{text:?}") } else { quote(&text) }
}

/// A line of text without control characters: it may quote a manifest, which must not control the terminal.
pub fn sanitized(text: impl Display) -> String {
    let harmless = |c: char| match c {
        '\t' => '\t',
        // Some characters change the order in which the rest of the line is shown.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let text = text.to_string();
    // Most lines are plain ASCII.
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    if is_plain { text } else { text.chars().map(harmless).collect() }
}

#[cfg(test)]
mod tests {
    use super::{quoted, sanitized};

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            sanitized("zoë\t→ \u{1b}[2J\u{9b}\u{7}\n\u{202e}x"),
            "zoë\t→ \u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}x"
        );
    }

    #[test]
    fn a_quoted_text_is_whole_and_without_passwords() {
        let image = format!("registry.example.org/os/base@sha256:{}", "0123456789abcdef".repeat(4));
        assert_eq!(quoted(&image), format!("\"{image}\""));
        assert_eq!(quoted("http://me:secret@proxy:3128/"), "\"http://proxy:3128/\"");
        assert!(quoted(&"x".repeat(1000)).len() < 100);
    }
}
