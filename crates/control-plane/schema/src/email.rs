//! E-mail address format, with or without a display name.
//!
//! Differs: comments in parentheses and encoded display names are not read, because they do not occur in objects;
//! such addresses are refused.

pub(crate) fn is_address(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if let Some(inside) = text.strip_suffix('>') {
        let Some((name, address)) = inside.rsplit_once('<') else { return false };
        return is_phrase(name.trim_matches([' ', '\t'])) && is_plain(address);
    }
    is_plain(text)
}

fn is_plain(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let local_is_fine = match local.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').is_some_and(|inside| !inside.is_empty() && is_quotable(inside)),
        None => is_dotted(local),
    };
    let domain_is_fine = match domain.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|inside| inside.parse::<std::net::IpAddr>().is_ok()),
        None => is_dotted(domain),
    };
    local_is_fine && domain_is_fine
}

fn is_dotted(text: &str) -> bool {
    text.split('.').all(is_atom)
}

fn is_atom(text: &str) -> bool {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && !c.is_control());
    !text.is_empty() && text.chars().all(allowed)
}

fn is_quotable(text: &str) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    !escaped
}

/// A display name: words, or words in quotes. It may be missing.
fn is_phrase(text: &str) -> bool {
    if let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return is_quotable(inside);
    }
    text.split([' ', '\t'])
        .filter(|word| !word.is_empty())
        .all(|word| word.split('.').all(|part| part.is_empty() || is_atom(part)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a@b", true)]
    #[case("Ann B. <a.b@example.com>", true)]
    #[case("\"a b\"@example.com", true)]
    #[case("a@[127.0.0.1]", true)]
    #[case("a", false)]
    #[case("a@", false)]
    #[case("a b@example.com", false)]
    #[case("a..b@example.com", false)]
    fn addresses(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_address(text), expected);
    }
}
