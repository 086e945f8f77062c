//! Sentences that fit where they are written.

use std::borrow::Cow;

/// The text, or as much of it as fits into so many bytes, with an ellipsis.
pub(crate) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
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
        assert_eq!(shorten("ééé", 6), "ééé");
        assert_eq!(shorten("éééé", 6), "é…");
        assert_eq!(shorten("éééé", 2), "…");
        assert_eq!(shorten(&"x".repeat(99), 50).len(), 50);
    }
}
