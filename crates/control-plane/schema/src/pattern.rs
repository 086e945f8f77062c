//! Regular expressions as schemas write them, in the RE2 dialect of Go.
//!
//! The two dialects look alike and differ in ways that matter: `\d` and its like are ASCII only, `[[]` is a bracket,
//! `{` alone is a brace, `\<` is a character, `a**` is a mistake. Expressions are therefore read once, mistakes are
//! named in the words of the original, and valid expressions are rewritten for the matcher.

mod translation;

use std::fmt;
use std::sync::OnceLock;

use regex::Regex;

use translation::translate;

/// An expression and, once it was needed, its matcher.
#[derive(Default)]
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    /// Keeps an expression; it is read when it is first used.
    pub fn new(source: &str) -> Pattern {
        Pattern { source: source.into(), compiled: OnceLock::new() }
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether it occurs anywhere in the text; an error says what is wrong with the expression.
    pub fn is_match(&self, text: &str) -> Result<bool, &str> {
        match self.compiled.get_or_init(|| compile(&self.source)) {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(error) => Err(error),
        }
    }
}

impl Clone for Pattern {
    fn clone(&self) -> Pattern {
        Pattern { source: self.source.clone(), compiled: self.compiled.clone() }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// What is wrong with an expression, if anything.
pub fn mistake(source: &str) -> Option<String> {
    compile(source).err()
}

fn compile(source: &str) -> Result<Regex, String> {
    let translated = translate(source)?;
    // What the reader lets pass but the matcher cannot hold is too large.
    Regex::new(&translated).map_err(|_| format!("error parsing regexp: expression too large: `{source}`"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("^[a-z]+$", "abc", true)]
    #[case("^[a-z]+$", "abC", false)]
    #[case(r"^\d+$", "٣", false)]
    #[case(r"^\D+$", "٣", true)]
    #[case(r"^[\w-]+$", "a-b_9", true)]
    #[case("[[]", "[", true)]
    #[case("^[]a]+$", "]a", true)]
    #[case("^[a&&b]+$", "&", true)]
    #[case("a{,5}", "a{,5}", true)]
    #[case("^{$", "{", true)]
    #[case(r"\<", "<", true)]
    #[case(r"\Qa.b\E+", "a.bbb", true)]
    #[case(r"\Qa.b", "axb", false)]
    #[case("(?i)abc", "xABCx", true)]
    #[case("(?P<n>a)(?<m>b)", "ab", true)]
    #[case(r"^\p{^L}\pN$", "-1", true)]
    #[case("^[[:alpha:]]$", "x", true)]
    #[case("a$", "a\n", false)]
    #[case(r"\x41\x{42}\103", "ABC", true)]
    #[case(r"\bword\b", "a word.", true)]
    #[case("(?:a|b){2,3}?$", "ab", true)]
    #[case("", "anything", true)]
    #[case("#x y", "#x y", true)]
    fn matches_as_the_original(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(Pattern::new(pattern).is_match(text), Ok(expected));
    }

    #[rstest]
    #[case("([", "missing closing ]: `[`")]
    #[case("a(b", "missing closing ): `a(b`")]
    #[case("a)", "unexpected ): `a)`")]
    #[case("*a", "missing argument to repetition operator: `*`")]
    #[case("a**", "invalid nested repetition operator: `**`")]
    #[case("a{2}{3}", "invalid nested repetition operator: `{2}{3}`")]
    #[case("a{1001}", "invalid repeat count: `{1001}`")]
    #[case("(?=a)", "invalid or unsupported Perl syntax: `(?=`")]
    #[case(r"\1", r"invalid escape sequence: `\1`")]
    #[case(r"\Z", r"invalid escape sequence: `\Z`")]
    #[case("[z-a]", "invalid character class range: `z-a`")]
    #[case("a\\", "trailing backslash at end of expression: ``")]
    fn mistakes_in_the_words_of_the_original(#[case] pattern: &str, #[case] expected: &str) {
        assert_eq!(mistake(pattern), Some(format!("error parsing regexp: {expected}")));
    }
}
