//! Texts for people and for fields of a limited size: truncation, numbers with their noun.

use std::borrow::Cow;

/// The text, truncated at a character boundary to this many bytes with an ellipsis: for a field of the API with a limit.
pub fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(max_bytes.saturating_sub("…".len()));
    format!("{}…", &text[..end]).into()
}

/// The text, of a longer one this many characters and an ellipsis: for a line that a person reads.
pub fn abbreviate(text: &str, max_chars: usize) -> Cow<'_, str> {
    match beginning(text, max_chars) {
        Some(beginning) => format!("{beginning}…").into(),
        None => text.into(),
    }
}

/// The first characters of a longer text; `None` if the text has no more than these.
pub fn beginning(text: &str, max_chars: usize) -> Option<&str> {
    text.char_indices().nth(max_chars).map(|(end, _)| &text[..end])
}

/// A number with its noun: `1 line`, `2 lines`.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(truncate("ééé", 6), "ééé");
        assert_eq!(truncate("éééé", 6), "é…");
        assert_eq!(truncate("éééé", 2), "…");
        assert_eq!(truncate(&"x".repeat(99), 50).len(), 50);
    }

    #[test]
    fn abbreviation_counts_characters_and_adds_the_ellipsis() {
        assert_eq!(abbreviate("ééé", 3), "ééé");
        assert_eq!(abbreviate("éééé", 3), "ééé…");
        assert_eq!(beginning("éé", 2), None);
        assert_eq!(beginning("éé", 0), Some(""));
    }

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "line")), ["0 lines", "1 line", "2 lines"]);
    }
}
