//! What names, labels and their values may look like, and what is said when they do not.
//!
//! Each rule answers none, or the sentence that the real server puts behind `Invalid value: "…": `.

const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                         is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// A lower-case DNS label: at most 63 of letters, digits and hyphens.
pub fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    if is_dns_label(text) {
        return None;
    }
    Some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned(),
    )
}

/// A DNS label that begins with a letter, as names of services do.
pub fn dns_label_1035(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    if is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return None;
    }
    Some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
         '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned(),
    )
}

/// DNS labels joined by dots, at most 253 letters.
pub fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some(too_long(253));
    }
    if text.split('.').all(is_dns_label) {
        return None;
    }
    Some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned(),
    )
}

/// Anything that can be one part of a path, as names of roles are.
pub fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        _ => ['/', '%'].into_iter().find(|c| text.contains(*c)).map(|c| format!("may not contain '{c}'")),
    }
}

/// A key of labels, annotations and finalizers: a name, with a DNS subdomain and a slash before it if need be.
pub fn qualified_name(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, rest)) if rest.contains('/') => {
            return Some(format!(
                "a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if let Some(problem) = dns_subdomain(prefix) {
                return Some(format!("prefix part {problem}"));
            }
        }
        None => {}
    }
    match name.len() {
        0 => Some("name part must be non-empty".to_owned()),
        1..=63 if is_name_part(name) => None,
        1..=63 => Some(format!("name part {NAME_PART}")),
        _ => Some(format!("name part {}", too_long(63))),
    }
}

/// A label's value: empty, or like the name part of a key.
pub fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    if text.is_empty() || is_name_part(text) {
        return None;
    }
    Some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
         is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned(),
    )
}

/// A key of a ConfigMap or Secret.
pub fn data_key(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Some(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn is_dns_label(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_name_part(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a", true)]
    #[case("a-1.b", true)]
    #[case("", false)]
    #[case("A", false)]
    #[case("-a", false)]
    #[case("a..b", false)]
    #[case("a_b", false)]
    fn subdomain_is_lower_case_labels_between_dots(#[case] text: &str, #[case] good: bool) {
        assert_eq!(dns_subdomain(text).is_none(), good);
    }

    #[rstest]
    #[case("role", true)]
    #[case("example.com/Role_1", true)]
    #[case("/x", false)]
    #[case("a/", false)]
    #[case("a/b/c", false)]
    #[case("UPPER.com/x", false)]
    fn key_is_a_name_with_an_optional_domain(#[case] text: &str, #[case] good: bool) {
        assert_eq!(qualified_name(text).is_none(), good);
    }

    #[test]
    fn value_of_sixty_four_letters_is_too_long() {
        assert_eq!(label_value(&"v".repeat(63)), None);
        assert!(label_value(&"v".repeat(64)).unwrap().contains("63"));
    }

    #[rstest]
    #[case("system:node", true)]
    #[case("a/b", false)]
    #[case("50%", false)]
    #[case("..", false)]
    fn path_segment_is_anything_that_needs_no_escape(#[case] text: &str, #[case] good: bool) {
        assert_eq!(path_segment(text).is_none(), good);
    }
}
