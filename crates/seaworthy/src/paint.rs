//! Messages for people, on standard error; colours only where a terminal shows them.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use seaworthy_ignition::Severity;

/// The style of a severity.
pub fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Info => AnsiColor::Cyan.on_default(),
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
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{style}{word}{style:#}: {message}");
}
