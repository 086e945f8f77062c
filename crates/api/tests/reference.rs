//! Reference pages of the vocabulary: keys on objects, conditions, reasons and events.
//!
//! The pages are generated from the sources of `src/vocabulary`: the spelling of each word, and its doc comment as the
//! description. `UPDATE_REFERENCE=1 cargo test -p seaworthy-api reference` writes them; without the variable they
//! are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of the vocabularies that operators use, in the order of their names. A group whose operator has no controllers yet
/// is on no page.
fn sources() -> Vec<String> {
    let operators = program("crates/operators");
    let is_used = |file: &Path| {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let used = Regex::new(&format!(r"\bvocabulary::(?:\{{[^}}]*\b)?{name}\b")).unwrap();
        operators.iter().any(|source| used.is_match(source))
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vocabulary");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|file| is_used(file)).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// A doc comment as one line of Markdown, with links to constants replaced by their values.
fn description(comment: &str, constants: &BTreeMap<String, String>) -> String {
    let lines: Vec<&str> = comment.lines().map(|line| line.trim().trim_start_matches("///").trim()).collect();
    let link = Regex::new(r"\[`([^`]+)`\](\([^)]*\))?").unwrap();
    let text = lines.join(" ");
    let value =
        |found: &regex::Captures<'_>| format!("`{}`", constants.get(&found[1]).map_or(&found[1], String::as_str));
    link.replace_all(text.trim(), value).replace('|', "\\|")
}

/// The values of the constants that keys and limits have, by name.
fn constants() -> BTreeMap<String, String> {
    let constant = Regex::new(r#"pub const (\w+): [^=]+=\s*(?:\w+\()?"?([^";)]+)"?\)?;"#).unwrap();
    let sources = sources();
    let found = sources.iter().flat_map(|source| constant.captures_iter(source));
    found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

const COMMENT: &str = r"((?:[ \t]*///[^\n]*\n)+)";

/// A key with what it is for.
struct Entry {
    kind: String,
    description: String,
}

/// Every label, annotation, finalizer and taint.
fn keys() -> BTreeMap<String, Entry> {
    let constant = Regex::new(&format!(
        r#"{COMMENT}\s*pub const \w+: (Annotation|Label|Finalizer|Taint) =\s*(?:\w+\(|Taint \{{ key: )"([^"]+)""#
    ))
    .unwrap();
    let constants = constants();
    let mut keys = BTreeMap::new();
    for source in sources() {
        for found in constant.captures_iter(&source) {
            let kind = found[2].to_lowercase();
            keys.insert(found[3].to_owned(), Entry { kind, description: description(&found[1], &constants) });
        }
    }
    keys
}

fn keys_page() -> String {
    let mut page = String::from(
        "# Labels, annotations, finalizers, taints\n\n\
         Generated from `crates/api/src/vocabulary` by `UPDATE_REFERENCE=1 cargo test -p seaworthy-api reference`.\n\
         Keys that an earlier version wrote are still read; they are replaced at the next write.\n",
    );
    let keys = keys();
    let is_ours = |key: &str| key.starts_with("seaworthy.dev/");
    for (title, ours) in
        [("Seaworthy's own", true), ("Shared with the machine-config operator, Cluster API and Kubernetes", false)]
    {
        write!(page, "\n## {title}\n\n| key | kind | meaning |\n|---|---|---|\n").unwrap();
        for (key, Entry { kind, description }) in keys.iter().filter(|(key, _)| is_ours(key) == ours) {
            writeln!(page, "| `{key}` | {kind} | {description} |").unwrap();
        }
    }
    page
}

/// `PoolCondition` as `Pool condition`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            title.push(' ');
            title.push(letter.to_ascii_lowercase());
        } else {
            title.push(letter);
        }
    }
    title
}

fn words_page() -> String {
    let set = Regex::new(&format!(r"(?s)words! \{{\s*{COMMENT}\s*pub enum (\w+) \{{\n(.*?)\n    \}}")).unwrap();
    let word = Regex::new(&format!(r#"{COMMENT}\s*\w+ = "([^"]+)""#)).unwrap();
    let constants = constants();
    let mut page = String::from(
        "# States, conditions, reasons, events\n\n\
         Generated from `crates/api/src/vocabulary` by `UPDATE_REFERENCE=1 cargo test -p seaworthy-api reference`.\n\
         What to do about a waiting node: [Troubleshoot a waiting node](../how-to/troubleshoot-a-waiting-node.md).\n",
    );
    for source in sources() {
        for found in set.captures_iter(&source) {
            write!(
                page,
                "\n## {}\n\n{}\n\n| value | meaning |\n|---|---|\n",
                title(&found[2]),
                description(&found[1], &constants)
            )
            .unwrap();
            for word in word.captures_iter(&found[3]) {
                writeln!(page, "| `{}` | {} |", &word[2], description(&word[1], &constants)).unwrap();
            }
        }
    }
    page
}

/// Compares a page with what it should be, or writes it.
fn check(name: &str, page: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/{name} is stale; regenerate it with `UPDATE_REFERENCE=1 cargo test -p seaworthy-api reference`"
    );
}

#[test]
fn page_of_keys_is_current() {
    let page = keys_page();
    assert!(page.lines().filter(|line| line.starts_with("| `")).count() > 40, "{page}");
    check("annotations.md", &page);
}

#[test]
fn page_of_conditions_and_events_is_current() {
    let page = words_page();
    for known in ["`DrainBlocked`", "`RenderDegraded`", "`NodeDegraded`", "`Unreconcilable`"] {
        assert!(page.contains(known), "{known}");
    }
    check("conditions-and-events.md", &page);
}

/// What marks a word that exists for upstream's objects only.
const NEVER_SET: &str = "Upstream's, never set here.";

/// Every source file below a folder of the repository, without tests.
pub fn program(folder: &str) -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_for_tests = ["tests", "testkit", "trial", "examples"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_for_tests {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push(text.split("#[cfg(test)]").next().unwrap().to_owned());
            }
        }
    }
    sources
}

/// Every `Enum::Variant` in the sources, under the enum's own name.
fn used_words() -> BTreeSet<(String, String)> {
    let alias = Regex::new(r"\b(\w+) as (\w+)\b").unwrap();
    let path = Regex::new(r"\b([A-Z]\w+)::([A-Z]\w+)\b").unwrap();
    let mut used = BTreeSet::new();
    for source in program("crates") {
        let names: BTreeMap<&str, &str> =
            alias.captures_iter(&source).map(|found| found.extract()).map(|(_, [name, alias])| (alias, name)).collect();
        for (_, [name, variant]) in path.captures_iter(&source).map(|found| found.extract()) {
            used.insert((names.get(name).copied().unwrap_or(name).to_owned(), variant.to_owned()));
        }
    }
    used
}

/// The page says of a condition, reason or event whether it is ever set.
#[test]
fn words_that_nothing_sets_are_marked() {
    let set = Regex::new(r"(?s)words! \{\s*(?:[ \t]*///[^\n]*\n)+\s*pub enum (\w+) \{\n(.*?)\n    \}").unwrap();
    let word = Regex::new(&format!(r#"{COMMENT}\s*(\w+) = "[^"]+""#)).unwrap();
    let used = used_words();
    let mut wrong = Vec::new();
    let mut count = 0;
    for source in sources() {
        for found in set.captures_iter(&source) {
            // Not reports: users set the one, providers' definitions have the other.
            if ["KernelType", "Contract"].contains(&&found[1]) {
                continue;
            }
            for word in word.captures_iter(&found[2]) {
                count += 1;
                let is_used = used.contains(&(found[1].to_owned(), word[2].to_owned()));
                let is_marked = description(&word[1], &BTreeMap::new()).ends_with(NEVER_SET);
                if is_used == is_marked {
                    let what = if is_used { "is used, and marked" } else { "is used nowhere, and not marked" };
                    wrong.push(format!("{}::{} {what}: {NEVER_SET:?}", &found[1], &word[2]));
                }
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A key that prose mentions is one that the code uses.
#[test]
fn keys_in_the_documentation_exist() {
    let keys = keys();
    let mention = Regex::new(r"seaworthy\.dev/[a-z](?:[a-z-]*[a-z])?").unwrap();
    let mut unknown = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                let mentions = mention.find_iter(&text).filter(|found| !keys.contains_key(found.as_str()));
                unknown.extend(mentions.map(|found| format!("{}: {}", path.display(), found.as_str())));
            }
        }
    }
    assert!(unknown.is_empty(), "no such key in the vocabulary:\n{}", unknown.join("\n"));
}
