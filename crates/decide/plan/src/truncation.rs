//! Truncation of texts to the size that a field of the API allows.

use std::borrow::Cow;

/// The text, cut at a character boundary to this many bytes, with an ellipsis.
pub(crate) fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(most.saturating_sub("…".len()));
    format!("{}…", &text[..end]).into()
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
}
