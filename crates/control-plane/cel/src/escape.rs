//! Escaping of field names: Kubernetes names may hold characters and words that are no CEL identifiers.

/// Words that cannot be identifiers and are written `__word__`.
const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// The identifier for a field name, or nothing when the name cannot be written in an expression at all.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            '_' if chars.peek() == Some(&'_') => {
                chars.next();
                out.push_str("__underscores__");
            }
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// The field name of an identifier, or nothing when it holds an unknown escape.
pub fn unescape(ident: &str) -> Option<String> {
    let mut out = String::with_capacity(ident.len());
    let mut rest = ident;
    while let Some(start) = rest.find("__") {
        let after = &rest[start + 2..];
        let word_len = after.find('_').unwrap_or(after.len());
        if word_len == 0 || !after[word_len..].starts_with("__") {
            // Two underscores that start no escape are themselves; the scan goes on behind the first.
            out.push_str(&rest[..start + 1]);
            rest = &rest[start + 1..];
            continue;
        }
        let word = &after[..word_len];
        out.push_str(&rest[..start]);
        rest = &after[word_len + 2..];
        match word {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if RESERVED.contains(&word) && word.len() + 4 == ident.len() => return Some(word.to_owned()),
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for (name, ident) in [
            ("a", "a"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("namespace", "__namespace__"),
            ("_a", "_a"),
            ("a_b", "a_b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(ident));
            assert_eq!(unescape(ident).as_deref(), Some(name));
        }
        assert_eq!(escape("1a"), None);
        assert_eq!(escape("a b"), None);
        assert_eq!(unescape("a__what__b"), None);
        assert_eq!(unescape("x__if__"), None);
    }
}
