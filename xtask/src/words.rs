//! Word lint: public texts use the terms of the field.
//!
//! The texts are the prose of all Markdown files, the string literals of Rust sources outside of tests, and the comments of the
//! product: many become help texts (clap), descriptions of definitions (`kubectl explain`) or reference pages. Each entry of [`WORDS`] names the accepted
//! alternative. Texts that must equal another program's are in [`ALLOWED`], with the reason.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::markdown;
use crate::step::{Outcome, Run};
use crate::workspace::Workspace;

/// Words and phrases that are not used, with what is written instead.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("astray", "mismatched, lost"),
    ("ailment", "reason"),
    ("brings about", "causes"),
    ("farewell", "shutdown"),
    ("for ever", "indefinitely, or the time"),
    ("heed", "handle, follow"),
    ("hindrance", "blocker"),
    ("larder", "cache"),
    ("lived through", "tested with"),
    ("lives through", "tolerates"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mending", "fixing"),
    ("mends", "fixes"),
    ("nobody", "no one, or the actor: no controller, no pool"),
    ("put back", "restored, reverted"),
    ("put right", "fixed, corrected"),
    ("putting back", "restoring, reverting"),
    ("putting right", "fixing, correcting"),
    ("puts back", "restores, reverts"),
    ("puts right", "fixes, corrects"),
    ("said", "reported"),
    ("somebody", "someone, or the actor: a user, another client"),
    ("speaks of", "matches, mentions"),
    ("stands", "is"),
    ("stood", "was"),
    ("tell", "report, show"),
    ("telling", "reporting, showing"),
    ("tells", "reports, shows"),
    ("told", "reported, notified, ordered"),
    ("whoever", "the actor: a user who, a client that"),
    ("wish", "request, want"),
    ("wishes", "requests, wants"),
];

/// Names of constants that are not used, with what is written instead.
const CONSTANTS: &[(&str, &str)] =
    &[("FAREWELL", "*_TIMEOUT, *_GRACE_PERIOD"), ("PATIENCE", "*_TIMEOUT"), ("REST", "*_INTERVAL, *_DELAY")];

/// How names of constants that are durations end, or begin: a search for timeouts must find all of them.
const DURATION_SUFFIXES: [&str; 5] = ["TIMEOUT", "INTERVAL", "DELAY", "DELAYS", "PERIOD"];
const DURATION_PREFIXES: [&str; 2] = ["MAX_", "MIN_"];

/// Texts that must be as they are: a path or its beginning, the word, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/operators/deploy/", "nobody", "the user of that name"),
    ("crates/machine/node/src/paths.rs", "astray", "the name of a file that earlier builds wrote"),
];

/// Crates that are used by tests alone.
const TEST_CRATES: [&str; 2] = ["crates/testkit", "crates/trial"];

/// A public text: where it begins, and what it says.
struct Text {
    line: usize,
    text: String,
}

/// A word that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offence {
    file: PathBuf,
    line: usize,
    word: &'static str,
    instead: &'static str,
}

/// The words of a text in lower case, each with its line.
fn tokens(text: &Text) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut line = text.line;
    let mut word = String::new();
    for c in text.text.chars().chain(['\n']) {
        if c.is_alphabetic() || c == '\'' {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            tokens.push((line, std::mem::take(&mut word)));
        }
        line += usize::from(c == '\n');
    }
    tokens
}

fn offences_in(file: &Path, text: &Text) -> Vec<Offence> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (word, instead) in WORDS {
        let parts: Vec<&str> = word.split(' ').collect();
        for window in tokens.windows(parts.len()) {
            let is_allowed = |(path, allowed, _): &(&str, &str, &str)| file.starts_with(path) && allowed == word;
            if window.iter().map(|(_, token)| token.as_str()).eq(parts.iter().copied())
                && !ALLOWED.iter().any(is_allowed)
            {
                found.push(Offence { file: file.to_owned(), line: window[0].0, word, instead });
            }
        }
    }
    found
}

/// The prose of a page.
fn prose(text: &str) -> Vec<Text> {
    let lines = markdown::prose(text);
    lines.iter().map(|line| Text { line: line.number, text: markdown::without_code(line.text) }).collect()
}

/// Whether comments of this source count: those of the developer commands reach no user.
fn has_public_comments(file: &Path) -> bool {
    file.starts_with("crates")
}

/// The parts of a source that count.
struct Source {
    texts: Vec<Text>,
    constants: Vec<Offence>,
}

/// The source without the tests at its end. A declaration of a test module that is a file of its own ends nothing.
fn before_tests(text: &str) -> &str {
    const MARK: &str = "#[cfg(test)]\nmod ";
    let mut begins = text.match_indices(MARK).map(|(at, _)| at);
    let is_inline = |at: &usize| text[at + MARK.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    begins.find(is_inline).map_or(text, |end| &text[..end])
}

/// Reads string literals, comments where they count, and the names of constants; up to the tests at the end.
fn source(file: &Path, text: &str) -> Source {
    let text = before_tests(text);
    let with_comments = has_public_comments(file);
    let bytes = text.as_bytes();
    let mut source = Source { texts: Vec::new(), constants: Vec::new() };
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            if with_comments {
                source.texts.push(Text { line, text: markdown::without_code(&rest[2..end]) });
            }
            end
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let open = rest.find('"').unwrap_or(0) + 1;
            let close = format!("\"{}", "#".repeat(hashes));
            let length = rest[open..].find(&close).unwrap_or(rest.len() - open);
            source.texts.push(Text { line, text: without_placeholders(&rest[open..open + length]) });
            (open + length + close.len()).min(rest.len())
        } else if rest.starts_with('"') {
            let length = string_length(rest);
            source.texts.push(Text { line, text: without_placeholders(&rest[1..length - 1]) });
            length
        } else if rest.starts_with('\'') {
            character_length(rest)
        } else if let Some(name) = rest.strip_prefix("const ").map(identifier) {
            let known = CONSTANTS.iter().filter(|(word, _)| *word == name);
            source.constants.extend(known.map(|(word, instead)| Offence {
                file: file.to_owned(),
                line,
                word,
                instead,
            }));
            if is_duration(rest) && !is_duration_name(name) {
                source.constants.push(Offence {
                    file: file.to_owned(),
                    line,
                    word: "a duration whose name does not say what it limits",
                    instead: "*_TIMEOUT, *_INTERVAL, *_DELAY, *_PERIOD, MAX_*, MIN_*",
                });
            }
            6
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line += rest[..end].matches('\n').count();
        at += end;
    }
    source
}

/// A literal without `{names}`, which are code, and with its line breaks as blanks.
fn without_placeholders(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((before, after)) = rest.split_once('{') {
        let end = after.find(|c: char| c == '}' || c.is_whitespace()).unwrap_or(after.len());
        text.push_str(before);
        rest = if after[end..].starts_with('}') { &after[end + 1..] } else { after };
    }
    text.push_str(rest);
    text.replace("\\n", "  ")
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Whether the constant that is declared here is a duration, or a list of them.
fn is_duration(declaration: &str) -> bool {
    let kind = declaration.split_once(':').map_or("", |(_, kind)| kind);
    let kind = kind.split('=').next().unwrap_or_default().trim().trim_start_matches('[');
    let name = kind.rsplit("::").next().unwrap_or_default();
    ["Duration", "SignedDuration"].contains(&identifier(name))
}

fn is_duration_name(name: &str) -> bool {
    DURATION_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || DURATION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// How many hashes a raw string has that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a string literal with its quotes.
fn string_length(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or of the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next(), chars.next()) {
        (Some((_, '\\')), Some((_, escaped)), Some((close, _))) => match escaped {
            'u' | 'x' => rest[close..].find('\'').map_or(1, |end| close + end + 1),
            _ => close + 1,
        },
        (Some(_), Some((close, '\'')), _) => close + 1,
        _ => 1,
    }
}

/// All offences of the repository.
fn offences(root: &Path) -> Result<Vec<Offence>> {
    let mut found = Vec::new();
    let read = |file: &Path| std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    for path in markdown::files(root, "md")? {
        let file = path.strip_prefix(root)?;
        // Transcripts and notes of tests: what a program prints there is a literal of its source.
        if file.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        found.extend(prose(&read(&path)?).iter().flat_map(|text| offences_in(file, text)));
    }
    for path in markdown::files(root, "rs")? {
        let file = path.strip_prefix(root)?;
        let is_source = file.components().any(|part| part.as_os_str() == "src");
        let is_test = file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
        // This file spells the words.
        let is_list = file == Path::new("xtask/src/words.rs");
        if !is_source || is_test || is_list || TEST_CRATES.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        let source = source(file, &read(&path)?);
        found.extend(source.texts.iter().flat_map(|text| offences_in(file, text)));
        found.extend(source.constants);
    }
    Ok(found)
}

/// Prints every offence with its place.
fn check(root: &Path) -> Result<Outcome> {
    let offences = offences(root)?;
    for Offence { file, line, word, instead } in &offences {
        println!("{}:{line}: {word:?}; write: {instead}", file.display());
    }
    Ok(match offences.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} words are not terms of the field; see docs/glossary.md")),
    })
}

pub fn step(run: &mut Run<'_>) -> Result<Outcome> {
    check(&run.workspace.root)
}

/// `cargo xtask words`.
pub fn run(workspace: &Workspace) -> Result<bool> {
    Ok(check(&workspace.root)? == Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(file: &str, text: &str) -> Vec<(usize, &'static str)> {
        let file = Path::new(file);
        let found: Vec<Offence> = if file.extension().is_some_and(|extension| extension == "md") {
            prose(text).iter().flat_map(|text| offences_in(file, text)).collect()
        } else {
            let source = source(file, text);
            source.texts.iter().flat_map(|text| offences_in(file, text)).chain(source.constants).collect()
        };
        found.into_iter().map(|offence| (offence.line, offence.word)).collect()
    }

    #[test]
    fn words_and_phrases_are_found_with_their_line() {
        assert_eq!(
            words("docs/x.md", "fine\nIt was Told so.\nIt is put\tright, and puts.\n"),
            [(2, "told"), (3, "put right")]
        );
        assert_eq!(words("docs/x.md", "`told` in code, retold, storytelling\n```\ntold\n```\n"), []);
    }

    #[test]
    fn literals_count_and_code_does_not() {
        let text = "// `told`\nlet told = 'a'; // a\nlet x = \"not told\\\"\"; let y = '\"'; let z = \"wish\";\n";
        assert_eq!(words("crates/x/src/a.rs", text), [(3, "told"), (3, "wish")]);
        assert_eq!(
            words("crates/x/src/a.rs", "fn f<'a>(x: &'a str) { r#\"a \"told\" b\"#; b\"said\"; }"),
            [(1, "told"), (1, "said")]
        );
        assert_eq!(words("crates/x/src/a.rs", "f(\"a\nb\n  told\")"), [(3, "told")]);
        assert_eq!(
            words("crates/x/src/a.rs", "f(\"{said}, {told:?} {{ a told }}\\ntold\")"),
            [(1, "told"), (1, "told")]
        );
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        assert_eq!(
            words("crates/x/src/a.rs", "const A: &str = \"told\";\n#[cfg(test)]\nmod tests {\n \"said\" }\n"),
            [(1, "told")]
        );
        let declared = "#[cfg(test)]\nmod tests;\nconst A: &str = \"told\";\n";
        assert_eq!(words("crates/x/src/a.rs", declared), [(3, "told")]);
    }

    #[test]
    fn comments_of_the_product_count_and_those_of_the_developer_commands_do_not() {
        let text = "//! Tells all\n/// It was told.\nconst A: u8 = 1; // said\n";
        assert_eq!(words("crates/x/src/a.rs", text), [(1, "tells"), (2, "told"), (3, "said")]);
        assert_eq!(words("xtask/src/a.rs", text), []);
    }

    #[test]
    fn names_of_constants_count() {
        assert_eq!(
            words("crates/x/src/a.rs", "const PATIENCE: u8 = 1;\nconst PATIENCE_B: u8 = 2;\n"),
            [(1, "PATIENCE")]
        );
        let durations = "const A_TIMEOUT: Duration = x;\nconst WAITS: [std::time::Duration; 2] = x;\nconst MAX_AGE: Duration = x;\n";
        assert_eq!(words("crates/x/src/a.rs", durations), [(2, "a duration whose name does not say what it limits")]);
    }

    #[test]
    fn allowed_texts_are_those_of_others() {
        assert_eq!(words("crates/operators/deploy/src/a.rs", "\"nobody was told\""), [(1, "told")]);
    }
}
