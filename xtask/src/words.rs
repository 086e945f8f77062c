//! Word lint: texts and names use the terms of the field.
//!
//! It reads the prose of all Markdown files; the string literals, comments and names of all Rust sources, tests included; and
//! all of the files in [`WHOLE`]. Files that were recorded from other programs are left out. Each entry of [`WORDS`] names the
//! accepted alternative. Texts that must equal another program's are in [`ALLOWED`], with the reason.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context as _, Result};

use crate::markdown;
use crate::step::{Outcome, Run};
use crate::workspace::Workspace;

/// Words and phrases that are not used, with what is written instead. A `…` is one of [`OBJECTS`].
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("anybody", "anyone, or the actor: any client, any user"),
    ("astray", "mismatched, lost"),
    ("ailment", "reason"),
    ("brings about", "causes"),
    ("everybody", "everyone, or the actors: all clients, all users"),
    ("farewell", "shutdown"),
    ("for ever", "indefinitely, or the time"),
    ("forever", "indefinitely, no limit, or the time"),
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
    ("put … back", "restore, revert"),
    ("put … right", "fix, correct"),
    ("put back", "restored, reverted"),
    ("put right", "fixed, corrected"),
    ("puts … back", "restores, reverts"),
    ("puts … right", "fixes, corrects"),
    ("putting … back", "restoring, reverting"),
    ("putting … right", "fixing, correcting"),
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

/// Words that may be in the middle of a phrase.
const OBJECTS: [&str; 8] = ["all", "both", "everything", "it", "that", "them", "these", "this"];

/// Names of constants that are not used, with what is written instead.
const CONSTANTS: &[(&str, &str)] =
    &[("FAREWELL", "*_TIMEOUT, *_GRACE_PERIOD"), ("PATIENCE", "*_TIMEOUT"), ("REST", "*_INTERVAL, *_DELAY")];

/// Names of types, or words in them, that are not used, with what is written instead: they would be terms of the field
/// elsewhere, so they are not in [`WORDS`].
const TYPES: &[(&str, &str)] = &[
    ("Arrival", "Connection"),
    ("Beside", "ProgressJoin"),
    ("Deed", "Action"),
    ("Dish", "ServableConfig"),
    ("Door", "Listener"),
    ("Foresight", "Preview"),
    ("Guest", "AdmissionHandle"),
    ("Hand", "Executor"),
    ("Kinship", "OwnerGraph"),
    ("Lots", "Baseline"),
    ("Manners", "NodeBehaviour"),
    ("Means", "PreviewInputs"),
    ("Oblivion", "DiscardLog"),
    ("Parcel", "ResponseBody"),
    ("Parting", "DeletionMode"),
    ("Places", "ConnectionLimiter"),
    ("Seats", "Slots"),
    ("Shelf", "AnswerStore"),
    ("Standing", "Eligibility"),
    ("Stranger", "Unauthenticated"),
    ("Strays", "UnassignedNodes"),
    ("Ties", "OwnerRefs"),
    ("Voice", "ReportedState"),
    ("Weather", "FaultInjector"),
];

/// Words that no module doc begins with: it names the thing first.
const QUESTIONS: [&str; 6] = ["How", "What", "When", "Where", "Who", "Why"];

/// How names of constants that are durations end, or begin: a search for timeouts must find all of them.
const DURATION_SUFFIXES: [&str; 5] = ["TIMEOUT", "INTERVAL", "DELAY", "DELAYS", "PERIOD"];
const DURATION_PREFIXES: [&str; 2] = ["MAX_", "MIN_"];

/// Texts that must be as they are: a path or its beginning, the word, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/operators/deploy/", "nobody", "the user of that name"),
    ("crates/machine/node/src/paths.rs", "astray", "the name of a file that earlier builds wrote"),
    ("xtask/src/words.rs", "", "the list itself"),
];

/// Folders whose files were recorded from other programs, or are generated from what is judged elsewhere; but see [`is_ours`].
const RECORDED: [&str; 6] = ["crds", "golden", "proptest-regressions", "recorded", "upstream", "upstream-crds"];

/// Extensions of files that are judged as a whole. Examples are the only YAML among them: the rest is data of tests.
const WHOLE: [&str; 6] = ["go", "mod", "sh", "toml", "txt", "yaml"];

/// Units of constants that are numbers; such a constant may also be the default of a field.
const UNITS: [&str; 4] = ["_SECONDS", "_MILLISECONDS", "_MINUTES", "_DAYS"];

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

/// The words of a text in lower case, each with its line. A possessive is the word itself.
fn tokens(text: &Text) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut line = text.line;
    let mut word = String::new();
    for c in text.text.chars().chain(['\n']) {
        if c.is_alphabetic() || c == '\'' || c == '’' {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            let owner = word.trim_end_matches("'s").trim_end_matches("’s").trim_matches('\'');
            tokens.push((line, owner.to_owned()));
            word.clear();
        }
        line += usize::from(c == '\n');
    }
    tokens
}

/// A word or phrase: its parts, and the entry.
struct Phrase {
    parts: Vec<&'static str>,
    word: &'static str,
    instead: &'static str,
}

impl Phrase {
    fn matches(&self, tokens: &[(usize, String)]) -> bool {
        let is_part = |(part, (_, token)): (&&str, &(usize, String))| match *part {
            "…" => OBJECTS.contains(&token.as_str()),
            part => part == token,
        };
        tokens.len() >= self.parts.len() && self.parts.iter().zip(tokens).all(is_part)
    }
}

/// The entries of [`WORDS`] by their first part.
static PHRASES: LazyLock<HashMap<&'static str, Vec<Phrase>>> = LazyLock::new(|| {
    let mut phrases: HashMap<&str, Vec<Phrase>> = HashMap::new();
    for (word, instead) in WORDS {
        let parts: Vec<&str> = word.split(' ').collect();
        phrases.entry(parts[0]).or_default().push(Phrase { parts, word, instead });
    }
    phrases
});

fn is_allowed(file: &Path, word: &str) -> bool {
    ALLOWED.iter().any(|(path, allowed, _)| file.starts_with(path) && (*allowed == word || allowed.is_empty()))
}

fn offences_in(file: &Path, text: &Text) -> Vec<Offence> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        for Phrase { word, instead, .. } in PHRASES
            .get(token.as_str())
            .into_iter()
            .flatten()
            .filter(|phrase| phrase.matches(&tokens[at..]) && !is_allowed(file, phrase.word))
        {
            found.push(Offence { file: file.to_owned(), line: *line, word, instead });
        }
    }
    found
}

/// The prose of a page: its paragraphs, so that a phrase is found across lines.
fn prose(text: &str) -> Vec<Text> {
    let mut paragraphs: Vec<Text> = Vec::new();
    let mut next = 0;
    for line in markdown::prose(text) {
        let text = markdown::without_code(line.text);
        match paragraphs.last_mut() {
            Some(paragraph) if line.number == next && !text.trim().is_empty() => {
                paragraph.text.push('\n');
                paragraph.text.push_str(&text);
            }
            _ => paragraphs.push(Text { line: line.number, text }),
        }
        next = if line.text.trim().is_empty() { 0 } else { line.number + 1 };
    }
    paragraphs
}

/// The parts of a source that count.
struct Source {
    texts: Vec<Text>,
    /// In names of constants and types, and in module docs.
    offences: Vec<Offence>,
}

/// Reads string literals, comments and names, and the names of constants and types in particular.
fn source(file: &Path, text: &str) -> Source {
    let bytes = text.as_bytes();
    let mut source = Source { texts: Vec::new(), offences: Vec::new() };
    let (mut at, mut line) = (0, 1);
    // The line after a comment, and the text that it continues there.
    let mut comment: Option<(usize, usize)> = None;
    // The line after one of a module doc.
    let mut module_doc = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            if let Some(doc) = rest[..end].strip_prefix("//!") {
                if module_doc != line {
                    source.offences.extend(offence_of_module_doc(file, line, doc));
                }
                module_doc = line + 1;
            }
            let words = markdown::without_code(rest[..end].trim_start_matches(['/', '!']));
            match comment.filter(|(next, _)| *next == line) {
                Some((_, nth)) => {
                    source.texts[nth].text.push('\n');
                    source.texts[nth].text.push_str(&words);
                    comment = Some((line + 1, nth));
                }
                None => {
                    comment = Some((line + 1, source.texts.len()));
                    source.texts.push(Text { line, text: words });
                }
            }
            end
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            source.texts.push(Text { line, text: markdown::without_code(&rest[..end]) });
            end
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
        } else if let Some(lifetime) = rest.strip_prefix('\'') {
            match character_length(rest) {
                1 => 1 + identifier(lifetime).len(),
                length => length,
            }
        } else if let Some(declaration) = rest.strip_prefix("const ").or_else(|| rest.strip_prefix("static ")) {
            source.offences.extend(offence_of_constant(file, line, declaration));
            rest.len() - declaration.len()
        } else if rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            let name = identifier(rest);
            source.offences.extend(offences_of_type(file, line, name));
            source.texts.push(Text { line, text: split_name(name) });
            comment = None;
            name.len()
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line += rest[..end].matches('\n').count();
        at += end;
    }
    source
}

/// What is wrong with the name of a constant.
fn offence_of_constant(file: &Path, line: usize, declaration: &str) -> Option<Offence> {
    let name = identifier(declaration);
    let offence = |word, instead| Offence { file: file.to_owned(), line, word, instead };
    // `const fn` declares none.
    if is_allowed(file, name) || name.chars().any(char::is_lowercase) {
        return None;
    }
    if let Some((word, instead)) = CONSTANTS.iter().find(|(word, _)| *word == name) {
        return Some(offence(word, instead));
    }
    let is_unclear = match UNITS.iter().find_map(|unit| name.strip_suffix(unit)) {
        Some(stem) => !is_duration_name(stem) && !is_duration_name(name) && !name.starts_with("DEFAULT_"),
        None => is_duration(declaration) && !is_duration_name(name),
    };
    is_unclear.then(|| {
        offence(
            "a duration whose name does not say what it limits",
            "*_TIMEOUT, *_INTERVAL, *_DELAY, *_PERIOD, MAX_*, MIN_*",
        )
    })
}

/// What is wrong with a name, if it is one of a type.
fn offences_of_type(file: &Path, line: usize, name: &str) -> Vec<Offence> {
    // Constants have no small letters.
    if !name.starts_with(char::is_uppercase) || !name.contains(char::is_lowercase) {
        return Vec::new();
    }
    let words = split_name(name);
    let is_named = |word: &str| words.split(' ').any(|part| part == word);
    let found = TYPES.iter().filter(|(word, _)| is_named(word) && !is_allowed(file, word));
    found.map(|(word, instead)| Offence { file: file.to_owned(), line, word, instead }).collect()
}

/// What is wrong with the first line of a module doc.
fn offence_of_module_doc(file: &Path, line: usize, text: &str) -> Option<Offence> {
    let first = identifier(text.trim_start());
    let word = QUESTIONS.into_iter().find(|question| *question == first)?;
    let instead = "the name of the thing, and what it does";
    (!is_allowed(file, word)).then(|| Offence { file: file.to_owned(), line, word, instead })
}

/// The words of a name: `told_twice` and `ToldTwice` are two.
fn split_name(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = c.is_lowercase();
        words.push(if c == '_' { ' ' } else { c });
    }
    words
}

/// A literal without `{names}`, which are code, and with its line breaks as spaces.
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

/// Whether a file is written for this repository. Sources and the page about a recording are, in any folder.
fn is_ours(file: &Path) -> bool {
    let is_source = file.extension().is_some_and(|extension| extension == "rs");
    let is_page = file.file_name().is_some_and(|name| name == "README.md");
    is_source || is_page || !file.components().any(|part| RECORDED.iter().any(|folder| part.as_os_str() == *folder))
}

/// All offences of the repository.
fn offences(root: &Path) -> Result<Vec<Offence>> {
    let mut found = Vec::new();
    let files = |extension: &str| -> Result<Vec<(PathBuf, String)>> {
        let mut texts = Vec::new();
        for path in markdown::files(root, extension)? {
            let file = path.strip_prefix(root)?.to_owned();
            if is_ours(&file) && (extension != "yaml" || file.starts_with("examples")) {
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                texts.push((file, text));
            }
        }
        Ok(texts)
    };
    for (file, text) in files("md")? {
        found.extend(prose(&text).iter().flat_map(|text| offences_in(&file, text)));
    }
    for (file, text) in files("rs")? {
        let source = source(&file, &text);
        found.extend(source.texts.iter().flat_map(|text| offences_in(&file, text)));
        found.extend(source.offences);
    }
    for extension in WHOLE {
        for (file, text) in files(extension)? {
            found.extend(offences_in(&file, &Text { line: 1, text: text.replace('_', " ") }));
        }
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
            source.texts.iter().flat_map(|text| offences_in(file, text)).chain(source.offences).collect()
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
    fn possessives_pronouns_and_line_breaks_do_not_hide_a_phrase() {
        assert_eq!(words("docs/x.md", "It is nobody's.\n"), [(1, "nobody")]);
        assert_eq!(words("docs/x.md", "puts them right, puts the right one\n"), [(1, "puts … right")]);
        assert_eq!(words("docs/x.md", "it is put\nright\n\nput\n\nright\n"), [(1, "put right")]);
        assert_eq!(
            words("crates/x/src/a.rs", "// it is put\n// right\nlet x = 1; // put\nf(); // right\n"),
            [(1, "put right")]
        );
    }

    #[test]
    fn literals_count() {
        let text = "// `told`\nlet a = 'a'; // a\nlet x = \"not told\\\"\"; let y = '\"'; let z = \"wish\";\n";
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
    fn names_count_word_by_word() {
        assert_eq!(
            words("crates/x/tests/a.rs", "fn it_tells_all() {}\nstruct NewsTold;\nlet foretold = retelling;\n"),
            [(1, "tells"), (2, "told")]
        );
        assert_eq!(words("crates/x/src/a.rs", "fn puts_it_right() {}"), [(1, "puts … right")]);
    }

    #[test]
    fn tests_and_comments_count_everywhere() {
        let text =
            "//! Tells all\n\n/// It was told.\nconst A: u8 = 1; // said\n#[cfg(test)]\nmod tests {\n \"wish\" }\n";
        let expected = [(1, "tells"), (3, "told"), (4, "said"), (7, "wish")];
        for file in ["crates/x/src/a.rs", "crates/x/tests/a.rs", "crates/testkit/src/a.rs", "xtask/src/a.rs"] {
            assert_eq!(words(file, text), expected, "{file}");
        }
    }

    #[test]
    fn recorded_files_are_not_ours() {
        assert!(is_ours(Path::new("crates/x/tests/rows/a.rs")) && is_ours(Path::new("deny.toml")));
        assert!(!is_ours(Path::new("crates/x/tests/golden/a.md")) && !is_ours(Path::new("crates/x/tests/crds/a.yaml")));
    }

    #[test]
    fn sources_and_readme_are_ours_beside_recorded_files() {
        assert!(is_ours(Path::new("crates/x/tests/golden/README.md")));
        assert!(is_ours(Path::new("crates/x/tests/recorded/mod.rs")));
        let page = "It was told.\n";
        assert_eq!(words("crates/x/tests/recorded/README.md", page), [(1, "told")]);
    }

    #[test]
    fn time_without_a_limit_has_a_name() {
        assert_eq!(words("docs/x.md", "It waits forever.\n"), [(1, "forever")]);
    }

    #[test]
    fn former_names_of_types_are_found_in_names_of_types() {
        let text = "struct DoorOptions(Doors);\nlet door = Outdoor;\nconst DOOR: u8 = 1; // A Door\nf(\"Door\");\n";
        assert_eq!(words("crates/x/src/a.rs", text), [(1, "Door")]);
        let others = ["Ailment", "Foresight", "Kinship", "Larder", "Manners", "Strays", "Telling", "Weather", "Wish"];
        for name in TYPES.iter().map(|(name, _)| *name).chain(others) {
            assert!(!words("crates/x/src/a.rs", &format!("struct {name};")).is_empty(), "{name}");
        }
    }

    #[test]
    fn module_doc_does_not_begin_with_a_question() {
        let text = "//! What it is.\n//! How it works.\n\n/// Who asks\nfn f() {}\nmod m {\n    //! Why it is.\n}\n";
        assert_eq!(words("crates/x/src/a.rs", text), [(1, "What"), (7, "Why")]);
        assert_eq!(words("crates/x/tests/a.rs", "//! Whether it is, and why.\n"), []);
    }

    #[test]
    fn names_of_constants_count() {
        assert_eq!(
            words("crates/x/src/a.rs", "const PATIENCE: u8 = 1;\nconst PATIENCE_B: u8 = 2;\n"),
            [(1, "PATIENCE")]
        );
        let durations = "const A_TIMEOUT: Duration = x;\nconst WAITS: [std::time::Duration; 2] = x;\nconst MAX_AGE: Duration = x;\n";
        let unclear = "a duration whose name does not say what it limits";
        assert_eq!(words("crates/x/src/a.rs", durations), [(2, unclear)]);
        let others = "static HOUR: Duration = x;\nconst AGE_SECONDS: u64 = 1;\nconst MAX_AGE_SECONDS: u64 = 1;\n";
        assert_eq!(words("crates/x/src/a.rs", others), [(1, unclear), (2, unclear)]);
    }

    #[test]
    fn allowed_texts_are_those_of_others() {
        assert_eq!(words("crates/operators/deploy/src/a.rs", "\"nobody was told\""), [(1, "told")]);
    }
}
