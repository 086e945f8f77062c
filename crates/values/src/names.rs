//! Name rules, and the messages for violations.
//!
//! Each function returns the sentences of the rules that a text breaks; none means that it is fine.

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// The longest DNS subdomain, and so the longest name of most objects.
pub const MAX_SUBDOMAIN_LENGTH: usize = 253;

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

/// The same for names of DNS, of which the original counts the characters. They are the same: others are refused.
fn too_long_name(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// The sentence about a pattern, with examples.
fn shape(sentence: &str, examples: &[&str], pattern: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    // The two spaces after the comma are the original's.
    format!("{sentence} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or "))
}

fn is_label(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inside)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Whether this can be the name of most objects: [`dns_subdomain`] without the sentences.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN_LENGTH && is_subdomain(text)
}

fn is_name_part(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inside)
}

/// A DNS label, as most names inside an object are.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long_name(text, 63).into_iter().collect();
    if !is_label(text) && text.split('.').all(is_label) {
        broken.push("must not contain dots".to_owned());
    } else if !is_label(text) {
        let sentence = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                        start and end with an alphanumeric character";
        broken.push(shape(sentence, &["my-name", "123-abc"], DNS_LABEL));
    }
    broken
}

/// A DNS subdomain, as most object names are.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long_name(text, MAX_SUBDOMAIN_LENGTH).into_iter().collect();
    if !is_subdomain(text) {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                        and must start and end with an alphanumeric character";
        broken.push(shape(sentence, &["example.com"], DNS_SUBDOMAIN));
    }
    broken
}

/// A DNS label that starts with a letter, as resource names are.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long_name(text, 63).into_iter().collect();
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        let sentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character";
        broken.push(shape(sentence, &["my-name", "abc-123"], DNS_1035_LABEL));
    }
    broken
}

/// The key of a label or an annotation: a name, or a domain, a slash and a name.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                broken.push("prefix part must be non-empty".to_owned());
            } else {
                broken.extend(dns_subdomain(prefix).into_iter().map(|sentence| format!("prefix part {sentence}")));
            }
            *name
        }
        _ => {
            let sentence =
                shape(&qualified_sentence("a valid label key"), &["MyName", "my.name", "123-abc"], QUALIFIED_NAME);
            return vec![format!(
                "{sentence} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        broken.push("name part must be non-empty".to_owned());
    } else {
        broken.extend(too_long(name, 63).map(|sentence| format!("name part {sentence}")));
    }
    if !is_name_part(name) {
        broken.push(shape(&qualified_sentence("name part"), &["MyName", "my.name", "123-abc"], QUALIFIED_NAME));
    }
    broken
}

fn qualified_sentence(subject: &str) -> String {
    format!(
        "{subject} must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character"
    )
}

/// The value of a label; it may be empty.
pub fn label_value(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long(text, 63).into_iter().collect();
    if !text.is_empty() && !is_name_part(text) {
        let sentence = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                        and must start and end with an alphanumeric character";
        broken.push(shape(sentence, &["MyValue", "my_value", "12345"], LABEL_VALUE));
    }
    broken
}

/// A name that is one segment of a URL path.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let forbidden = ["/", "%"].into_iter().filter(|part| text.contains(part));
    forbidden.map(|part| format!("may not contain '{part}'")).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(dns_label, "a-1", true)]
    #[case(dns_label, "a.b", false)]
    #[case(dns_subdomain, "a.b-c.1", true)]
    #[case(dns_subdomain, "a..b", false)]
    #[case(dns_1035_label, "1a", false)]
    #[case(dns_1035_label, "", false)]
    #[case(qualified_name, "example.com/My_Name", true)]
    #[case(qualified_name, "/x", false)]
    #[case(qualified_name, "a/b/c", false)]
    #[case(label_value, "", true)]
    #[case(label_value, "-", false)]
    #[case(path_segment, "..", false)]
    #[case(path_segment, "Any thing", true)]
    fn names(#[case] rule: fn(&str) -> Vec<String>, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(rule(text).is_empty(), expected, "{:?}", rule(text));
    }

    #[test]
    fn object_names_are_recognized() {
        for name in ["a", "rendered-worker-0a", "a.b-c.d", &"a".repeat(253)] {
            assert!(is_dns_subdomain(name) && dns_subdomain(name).is_empty(), "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a b", "ä", &"a".repeat(254)] {
            assert!(!is_dns_subdomain(name) && !dns_subdomain(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn sentence_names_the_pattern() {
        assert_eq!(
            dns_1035_label("X"),
            ["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                 validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"]
        );
    }
}
