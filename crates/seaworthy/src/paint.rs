//! Messages for people, on standard error; colours only where a terminal shows them.

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

/// The style of what is gone (`-`) and what is new (`+`).
pub fn change(sign: char) -> Style {
    match sign {
        '-' => AnsiColor::Red.on_default(),
        '+' => AnsiColor::Green.on_default(),
        _ => Style::new(),
    }
}

/// An error.
pub fn error(message: &str) {
    say(style(Severity::Error), "error", message);
}

/// A warning.
pub fn warning(message: &str) {
    say(style(Severity::Warning), "warning", message);
}

/// Something worth knowing.
pub fn note(message: &str) {
    say(style(Severity::Info), "note", message);
}

fn say(style: Style, word: &str, message: &str) {
    let lines: Vec<String> = message.split('\n').map(plain).collect();
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{style}{word}{style:#}: {}", lines.join("\n"));
}

/// A text in quotes, whole unless it is very long: two images differ in the last digits of their names. The passwords in
/// URLs are left out.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 400;
    let is_url = text.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
    let text = if is_url { seaworthy_fetch::redact(text) } else { text.to_owned() };
    if text.len() <= LONGEST { format!("{text:?}") } else { quote(&text) }
}

/// A line of text that may quote a manifest: what is written there must not command the terminal.
pub fn plain(text: impl Display) -> String {
    let harmless = |c: char| match c {
        '\t' => '\t',
        // Some characters change the order in which the rest of the line is shown.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.to_string().chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::{plain, quoted};

    #[test]
    fn a_line_keeps_its_letters_and_loses_its_commands() {
        assert_eq!(
            plain("zoë\t→ \u{1b}[2J\u{9b}\u{7}\n\u{202e}x"),
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
