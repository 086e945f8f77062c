//! Scalar styles: whether a string is written plain, quoted, or as a block of lines.

use std::borrow::Cow;

use super::resolve::is_string_when_plain;

/// A string, and the style it must be written in.
pub(super) struct Scalar<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) style: Style,
    pub(super) has_breaks: bool,
    pub(super) has_blanks: bool,
    pub(super) is_ascii: bool,
}

/// How a string is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

impl<'t> Scalar<'t> {
    pub(super) fn of(text: &'t str, is_simple_key: bool) -> Self {
        // Nearly all that a config holds are texts such as `data:;base64,…`: no blank, nothing special. They are found
        // by comparisons that the compiler does for many bytes at once: blanks, controls, everything beyond ASCII.
        let is_quiet = text.bytes().fold(true, |quiet, byte| quiet & (byte.wrapping_sub(0x21) < 0x5e));
        if is_quiet && text.len() > MAX_WORD_LENGTH && is_quiet_at_the_edges(text) {
            let text = Cow::Borrowed(text);
            return Scalar { text, style: Style::Plain, has_breaks: false, has_blanks: false, is_ascii: true };
        }
        let text = as_read(text);
        let traits = ScalarTraits::of(&text);
        let style = if text.contains('\n') {
            if traits.allows_literal && !is_simple_key { Style::Literal } else { Style::Double }
        } else if !is_string_when_plain(&text) {
            Style::Double
        } else if traits.allows_plain && !(text.is_empty() && is_simple_key) {
            Style::Plain
        } else if traits.allows_single && !(traits.has_breaks && is_simple_key) {
            Style::Single
        } else {
            Style::Double
        };
        Scalar { style, has_breaks: traits.has_breaks, has_blanks: traits.has_blanks, is_ascii: traits.is_ascii, text }
    }
}

/// What a YAML reader may take for something else than a string is shorter than this, unless it begins like a number.
const MAX_WORD_LENGTH: usize = 5;

/// Whether a text without blanks begins with a letter or a slash and does not end in a colon. (Other colons and hashes
/// only mean something beside blanks.)
fn is_quiet_at_the_edges(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && !text.ends_with(':')
}

/// The text as the library's own YAML reader hands it on: the JSON text passes through it on the way, and it takes the
/// line break of the C1 controls for one.
fn as_read(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains('\u{85}') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{85}') {
        out.push_str(rest[..at].trim_end_matches([' ', '\t']));
        let mut breaks = 0;
        rest = &rest[at..];
        loop {
            let trimmed = rest.trim_start_matches([' ', '\t']);
            match trimmed.strip_prefix('\u{85}') {
                Some(after) => {
                    breaks += 1;
                    rest = after;
                }
                None => {
                    rest = trimmed;
                    break;
                }
            }
        }
        if breaks == 1 {
            out.push(' ');
        } else {
            out.extend(std::iter::repeat_n('\n', breaks - 1));
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Properties of a text that decide its style.
struct ScalarTraits {
    allows_plain: bool,
    allows_single: bool,
    allows_literal: bool,
    has_breaks: bool,
    has_blanks: bool,
    is_ascii: bool,
}

impl ScalarTraits {
    fn of(text: &str) -> ScalarTraits {
        let first = text.as_bytes().first().copied();
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        indicator |= first.is_some_and(|byte| b"#,[]{}&*!|>'\"%@`".contains(&byte));
        let after_first = text.as_bytes().get(1).copied();
        indicator |= first.is_some_and(|byte| b"?:-".contains(&byte))
            && after_first.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n'));

        // Bytes that need a check: everything else is a plain printable character.
        let mut traits = ScalarTraits {
            allows_plain: true,
            allows_single: true,
            allows_literal: true,
            has_breaks: false,
            has_blanks: false,
            is_ascii: text.is_ascii(),
        };
        let mut special = false;
        let mut blank_before_break = false;
        let mut break_before_blank = false;
        if traits.is_ascii {
            let bytes = text.as_bytes();
            for (at, byte) in bytes.iter().enumerate() {
                match byte {
                    b' ' => {
                        traits.has_blanks = true;
                        break_before_blank |= at > 0 && bytes[at - 1] == b'\n';
                    }
                    b'\n' => {
                        traits.has_breaks = true;
                        blank_before_break |= at > 0 && bytes[at - 1] == b' ';
                    }
                    b'\r' => {
                        traits.has_breaks = true;
                        special = true;
                    }
                    b':' if at > 0 => {
                        indicator |= bytes.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'\t' | b'\n' | b'\r'));
                    }
                    b'#' if at > 0 => indicator |= matches!(bytes[at - 1], b' ' | b'\t' | b'\n' | b'\r' | 0),
                    0x21..=0x7e => {}
                    _ => special = true,
                }
            }
        } else {
            let mut before = None;
            let mut chars = text.chars().peekable();
            while let Some(c) = chars.next() {
                let after = chars.peek().copied();
                if c == ' ' {
                    traits.has_blanks = true;
                    break_before_blank |= before.is_some_and(is_break);
                } else if is_break(c) {
                    traits.has_breaks = true;
                    blank_before_break |= before == Some(' ');
                    special |= !is_printable(c);
                } else if !is_printable(c) {
                    special = true;
                } else if c == ':' && before.is_some() {
                    indicator |= after.is_none_or(|after| matches!(after, ' ' | '\t') || is_break(after));
                } else if c == '#' {
                    indicator |= before.is_some_and(|before| matches!(before, ' ' | '\t' | '\0') || is_break(before));
                }
                before = Some(c);
            }
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let ends_blank = text.ends_with(' ');
        traits.allows_plain =
            !(indicator || special || traits.has_breaks || edge(text.chars().next()) || edge(text.chars().next_back()));
        traits.allows_single = !(special || blank_before_break || break_before_blank);
        traits.allows_literal = !(special || blank_before_break || ends_blank);
        traits
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters that the library writes as they are. It knows nothing beyond the basic plane.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}
