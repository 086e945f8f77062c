//! Field selectors: `spec.nodeName=w1,status.phase!=Running`.

use super::SelectorError;

/// Terms that must all match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    is_equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads a selector. Commas, equals signs and backslashes in values are written with a backslash before them.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let term = parse_term(part)
                .ok_or_else(|| SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            terms.push(term);
        }
        Ok(FieldSelector { terms })
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The fields that it names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// The value that the selector requires of a field.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.is_equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Whether an object with these values matches. A missing field is empty.
    pub fn matches<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.terms.iter().all(|term| (value(&term.field).unwrap_or("") == term.value) == term.is_equal)
    }
}

/// The parts between commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_term(part: &str) -> Option<Term> {
    let (at, operator) = part.char_indices().find_map(|(at, _)| {
        ["!=", "==", "="].into_iter().find(|operator| part[at..].starts_with(operator)).map(|operator| (at, operator))
    })?;
    let value = unescaped(&part[at + operator.len()..])?;
    Some(Term { field: part[..at].to_owned(), is_equal: operator != "!=", value })
}

/// A value with its backslashes resolved; none if something is left unescaped or half escaped.
fn unescaped(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                escaped @ ('\\' | ',' | '=') => value.push(escaped),
                _ => return None,
            },
            ',' | '=' => return None,
            plain => value.push(plain),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pod(field: &str) -> Option<&'static str> {
        match field {
            "spec.nodeName" => Some("w1"),
            "metadata.name" => Some("a,b"),
            _ => None,
        }
    }

    #[rstest]
    #[case("", true)]
    #[case("spec.nodeName=w1", true)]
    #[case("spec.nodeName==w1", true)]
    #[case("spec.nodeName!=w1", false)]
    #[case("spec.nodeName=w1,status.phase=Running", false)]
    #[case("status.phase=", true)]
    #[case("metadata.name=a\\,b", true)]
    fn every_term_must_hold(#[case] selector: &str, #[case] selected: bool) {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(pod), selected);
    }

    #[rstest]
    #[case("metadata.name")]
    #[case("a=b=c")]
    #[case("a=\\x")]
    #[case("a=b\\")]
    fn what_is_no_term_is_refused_with_its_text(#[case] selector: &str) {
        let error = FieldSelector::parse(selector).unwrap_err().to_string();
        assert_eq!(error, format!("invalid selector: '{selector}'; can't understand '{selector}'"));
    }
}
