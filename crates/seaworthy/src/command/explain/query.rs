//! Queries of `explain`: finds the entries that an argument names, in any of the forms that users type.

use std::collections::HashSet;

use seaworthy_ignition::{dropin_path, unit_path};
use seaworthy_render::provenance::{Entry, Subject};
use similar::TextDiff;

/// How many suggestions are listed for a query without a match.
const MAX_LISTED: usize = 8;

/// How many characters of a name are compared for similarity.
const MAX_COMPARED_CHARS: usize = 200;

/// The entries that match a query.
pub struct Matches<'e, 'r> {
    pub entries: Vec<&'e Entry<'r>>,
    pub kind: MatchKind,
}

/// How a query matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// The entry has exactly that name.
    Named,
    /// The entry has nearly that name.
    Fuzzy,
    /// The query names a group: all files, everything below a folder, everything that a MachineConfig sets.
    Group,
}

/// One interpretation of a query: whether an entry matches it.
type Matcher<'q> = &'q dyn Fn(&Entry<'_>) -> bool;

/// Finds the entries that a query names; `None` if there are none.
pub fn find<'e, 'r>(entries: &'e [Entry<'r>], what: &str) -> Option<Matches<'e, 'r>> {
    let what = what.trim().trim_matches(['"', '\'']);
    if what.is_empty() {
        return None;
    }
    let field = what.strip_prefix("spec.").unwrap_or(what);
    if let Some((list, index)) = field.strip_suffix(']').and_then(|field| field.rsplit_once('['))
        && let Ok(index) = index.parse::<usize>()
    {
        let word = normalized(list);
        let found = entries.iter().filter(|entry| is_spec_list(&entry.subject, &word)).nth(index);
        if let Some(found) = found {
            return Some(Matches { entries: vec![found], kind: MatchKind::Named });
        }
    }
    let word = normalized(field);
    let cleaned = format!("/{}", what.trim_matches('/')).to_lowercase();
    let folder = format!("{}/", cleaned.trim_end_matches('/'));
    // From the most literal to the most forgiving; the first that matches wins.
    let matchers: [(MatchKind, Matcher<'_>); 8] = [
        (MatchKind::Named, &|entry| {
            is_named(&entry.subject, what) || is_named(&entry.subject, field) || is_argument(entry, what)
        }),
        (MatchKind::Group, &|entry| concerns(entry, what)),
        (MatchKind::Named, &|entry| is_list_of_texts(&entry.subject, &word)),
        (MatchKind::Group, &|entry| is_of_kind(&entry.subject, &word)),
        (MatchKind::Named, &|entry| is_field(entry, &word)),
        (MatchKind::Fuzzy, &|entry| is_nearly_named(&entry.subject, what, &cleaned)),
        (MatchKind::Fuzzy, &|entry| is_key_with(entry, what)),
        (MatchKind::Group, &|entry| {
            path_of(&entry.subject).is_some_and(|path| path.to_lowercase().starts_with(&folder))
        }),
    ];
    matchers.into_iter().find_map(|(kind, fits)| {
        let found: Vec<_> = entries.iter().filter(|entry| fits(entry)).collect();
        (!found.is_empty()).then_some(Matches { entries: found, kind })
    })
}

/// Kinds of entries, with the words that users type for them.
const ENTRY_KINDS: [(&str, &[&str]); 15] = [
    ("kernel arguments", &["kernelarguments", "kernelargument", "kernelargs", "kernelarg", "kargs", "karg"]),
    ("extensions", &["extensions", "extension"]),
    ("files", &["files", "file", "storagefiles"]),
    ("directories", &["directories", "directory", "storagedirectories"]),
    ("links", &["links", "link", "storagelinks"]),
    ("units", &["units", "unit", "systemd", "systemdunits"]),
    ("drop-ins", &["dropins", "dropin"]),
    ("users", &["users", "user", "passwd", "passwdusers"]),
    ("groups", &["groups", "group", "passwdgroups"]),
    ("disks", &["disks", "disk"]),
    ("filesystems", &["filesystems", "filesystem"]),
    ("raids", &["raid", "raids"]),
    ("luks devices", &["luks"]),
    ("SSH keys", &["sshauthorizedkeys", "sshauthorizedkey", "sshkeys", "sshkey", "authorizedkeys", "keys"]),
    ("Ignition settings", &["ignition", "configignition"]),
];

/// The kind of entries that a word names, even if there are none.
pub fn entry_kind(what: &str) -> Option<&'static str> {
    let word = normalized(what.strip_prefix("spec.").unwrap_or(what));
    ENTRY_KINDS.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(kind, _)| *kind)
}

/// A word without what people leave out or put in: `Kernel-Arguments` and `kernelArguments` are the same.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix("config.").unwrap_or(text);
    text.chars().filter(|c| !matches!(c, '-' | '_' | ' ' | '.')).flat_map(char::to_lowercase).collect()
}

/// Whether something is called like that.
fn is_named(subject: &Subject, text: &str) -> bool {
    if subject.to_string() == text {
        return true;
    }
    match subject {
        Subject::Field(name) | Subject::Config(name) => name == text,
        Subject::KernelArgument(argument) => {
            let mut words = argument.split_whitespace();
            argument == text || words.any(|word| word == text || word.split('=').next() == Some(text))
        }
        Subject::Extension(name) | Subject::Group(name) | Subject::User(name) | Subject::Device { name, .. } => {
            name == text
        }
        Subject::File(path) | Subject::Directory(path) | Subject::Link(path) => path == text,
        Subject::Unit(name) => name == text || unit_path(name) == text,
        Subject::Dropin { unit, name } => {
            let names = [unit.clone(), name.clone(), format!("{unit}.d/{name}"), format!("{unit}/{name}")];
            names.iter().any(|name| name == text)
                || format!("{unit}.d") == text
                || unit_path(unit) == text
                || dropin_path(unit, name) == text
        }
    }
}

/// Whether a value is a kernel argument of the Ignition config itself, where all of them share a subject.
fn is_argument(entry: &Entry<'_>, text: &str) -> bool {
    let Subject::Config(path) = &entry.subject else { return false };
    let is_meant = |argument: &str| is_named(&Subject::KernelArgument(argument.to_owned()), text);
    path.starts_with("kernelArguments.") && entry.value.as_str().is_some_and(is_meant)
}

/// Whether an entry nearly has a name: without the first slash or with one too many, in another case, without the suffix,
/// without the folder.
fn is_nearly_named(subject: &Subject, text: &str, cleaned: &str) -> bool {
    let text = text.trim_end_matches('/').to_lowercase();
    if text.is_empty() {
        return false;
    }
    let is_near = |name: &str| {
        let name = name.to_lowercase();
        let without_suffix = || name.rsplit_once('.').is_some_and(|(stem, _)| stem == text);
        name == text || without_suffix()
    };
    match subject {
        Subject::Field(name) => name.to_lowercase() == text,
        Subject::Config(path) => {
            let path = path.to_lowercase();
            path == text || path.split(['.', '[']).any(|step| step == text)
        }
        Subject::KernelArgument(argument) => is_named(&Subject::KernelArgument(argument.to_lowercase()), &text),
        Subject::Extension(name) | Subject::Group(name) | Subject::User(name) => name.to_lowercase() == text,
        Subject::File(_) | Subject::Directory(_) | Subject::Link(_) | Subject::Device { .. } => {
            let path = path_of(subject).unwrap_or_default().to_lowercase();
            path == cleaned || path.rsplit('/').next().is_some_and(is_near)
        }
        Subject::Unit(name) => is_near(name) || unit_path(name).to_lowercase() == cleaned,
        Subject::Dropin { unit, name } => {
            let path = dropin_path(unit, name).to_lowercase();
            // A query for a unit matches its drop-ins too.
            is_near(unit) || is_near(name) || path == cleaned || path.ends_with(cleaned)
        }
    }
}

/// Whether an entry is one of those that are texts themselves, and of the kind that is asked for.
fn is_list_of_texts(subject: &Subject, word: &str) -> bool {
    match subject {
        Subject::KernelArgument(_) => entry_kind(word) == Some("kernel arguments"),
        Subject::Config(path) => entry_kind(word) == Some("kernel arguments") && path.starts_with("kernelArguments"),
        Subject::Extension(_) => entry_kind(word) == Some("extensions"),
        _ => false,
    }
}

/// Whether an entry is one of a list of the spec, whose order is that of the entries.
fn is_spec_list(subject: &Subject, word: &str) -> bool {
    !matches!(subject, Subject::Config(_)) && is_list_of_texts(subject, word)
}

fn is_of_kind(subject: &Subject, word: &str) -> bool {
    let Some(kind) = entry_kind(word) else { return word == "storage" && path_of(subject).is_some() };
    match subject {
        Subject::File(_) => kind == "files",
        Subject::Directory(_) => kind == "directories",
        Subject::Link(_) => kind == "links",
        Subject::Unit(_) => kind == "units",
        Subject::Dropin { .. } => kind == "drop-ins" || (kind == "units" && word != "unit" && word != "units"),
        Subject::User(_) => kind == "users",
        Subject::Group(_) => kind == "groups" || word == "passwd",
        Subject::Device { noun, .. } => kind.strip_suffix('s') == Some(*noun),
        Subject::Config(path) => kind == "Ignition settings" && path.starts_with("ignition."),
        Subject::Field(_) | Subject::KernelArgument(_) | Subject::Extension(_) => false,
    }
}

/// Whether a value is of a field that is asked for in all entries: `sshAuthorizedKeys`, `enabled`.
fn is_field(entry: &Entry<'_>, word: &str) -> bool {
    let root = entry.field.split(['.', '[']).next().unwrap_or_default();
    let wanted = if entry_kind(word) == Some("SSH keys") { "sshauthorizedkeys" } else { word };
    !root.is_empty() && root.to_lowercase() == wanted
}

/// Whether a value is an SSH key that holds the text: mostly its comment.
fn is_key_with(entry: &Entry<'_>, what: &str) -> bool {
    entry.field.starts_with("sshAuthorizedKeys")
        && what.len() > 2
        && entry.value.as_str().is_some_and(|key| key.contains(what))
}

/// Whether a MachineConfig of that name has a word in a value, or the path leads to one in any of them.
fn concerns(entry: &Entry<'_>, what: &str) -> bool {
    let name = what.strip_prefix("MachineConfig ").unwrap_or(what);
    let (name, path) = name.split_once(", ").unwrap_or((name, name));
    let is_below = |found: &str| {
        path.contains('.')
            && found.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let lost = entry.overrode.iter().map(|lost| &lost.place);
    let mut places = entry.set_by.iter().chain(&entry.also).chain(lost);
    if name == path {
        return places.any(|place| place.name == name || is_below(&place.path));
    }
    places.any(|place| place.name == name && is_below(&place.path))
}

/// The path of what has one.
fn path_of(subject: &Subject) -> Option<&str> {
    match subject {
        Subject::File(path) | Subject::Directory(path) | Subject::Link(path) => Some(path),
        Subject::Device { name, .. } => Some(name),
        _ => None,
    }
}

/// What to query instead of something that does not exist.
pub struct Suggestions {
    /// What was probably meant.
    pub meant: Option<String>,
    /// What there is, the nearest first.
    pub nearest: Vec<String>,
    /// How much more there is.
    pub more: usize,
}

/// The entries that are most similar to a query without a match.
pub fn suggestions(entries: &[Entry<'_>], what: &str) -> Suggestions {
    let what: String = what.trim().to_lowercase().chars().take(MAX_COMPARED_CHARS).collect();
    let mut seen = HashSet::new();
    let subjects = entries.iter().map(|entry| &entry.subject).filter(|subject| seen.insert(*subject));
    let mut ranked: Vec<(f32, &Subject)> = subjects.map(|subject| (likeness(subject, &what), subject)).collect();
    let is_of_same_kind = |subject: &Subject| path_of(subject).is_some() == what.contains('/');
    let rank = |(likeness, subject): &(f32, &Subject)| (*likeness > 0.6, is_of_same_kind(subject));
    ranked.sort_by(|a, b| rank(b).cmp(&rank(a)).then(b.0.total_cmp(&a.0)).then_with(|| a.1.cmp(b.1)));
    let meant = ranked.first().filter(|(likeness, _)| *likeness > 0.6).map(|(_, subject)| subject.to_string());
    let more = ranked.len().saturating_sub(MAX_LISTED);
    let nearest = ranked.into_iter().take(MAX_LISTED).map(|(_, subject)| subject.to_string()).collect();
    Suggestions { meant, nearest, more }
}

/// The similarity of a name and a query, from 0 to 1.
fn likeness(subject: &Subject, what: &str) -> f32 {
    let full = subject.to_string();
    // Without the noun, which users do not type.
    let name = match subject {
        Subject::KernelArgument(text) => text.as_str(),
        _ => full.rsplit(' ').next().unwrap_or(&full),
    };
    let name: String = name.to_lowercase().chars().take(MAX_COMPARED_CHARS).collect();
    let ratio = |a: &str, b: &str| TextDiff::from_chars(a, b).ratio();
    // A file that was moved keeps its last name, and suffixes are left out; the whole counts for more.
    let last = |text: &str| text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let parts = [ratio(&last(what), &last(&name)), name.rsplit_once('.').map_or(0.0, |(stem, _)| ratio(what, stem))];
    parts.into_iter().fold(ratio(what, &name), |best, part| best.max(0.9 * part))
}

#[cfg(test)]
mod tests {
    use seaworthy_ignition::node::{Node, Origin};

    use super::*;

    fn entry<'r>(subject: Subject, field: &str, value: &'r str) -> Entry<'r> {
        let place = |name: &str| seaworthy_render::FieldLocation {
            kind: "MachineConfig",
            name: name.to_owned(),
            path: format!("spec.of.{value}"),
            remote: None,
        };
        Entry {
            subject,
            field: field.to_owned(),
            value: Node::str_at(value, Origin::NONE),
            set_by: Some(place("50-mine")),
            default: None,
            also: Vec::new(),
            overrode: Vec::new(),
            ignored: Vec::new(),
            fetched: None,
        }
    }

    fn entries() -> Vec<Entry<'static>> {
        let dropin = |unit: &str, name: &str| Subject::Dropin { unit: unit.into(), name: name.into() };
        vec![
            entry(Subject::Field("osImageURL".into()), "", "i"),
            entry(Subject::Config("ignition.proxy.httpProxy".into()), "", "p"),
            entry(Subject::Config("kernelArguments.shouldExist".into()), "", "root=a"),
            entry(Subject::File("/etc/chrony.conf".into()), "mode", "m"),
            entry(Subject::File("/etc/Sub.d/20.conf".into()), "mode", "m"),
            entry(Subject::Directory("/var/lib/x".into()), "path", "d"),
            entry(Subject::Link("/etc/localtime".into()), "path", "l"),
            entry(Subject::Unit("kubelet.service".into()), "name", "u"),
            entry(dropin("kubelet.service", "10-nice.conf"), "name", "n"),
            entry(Subject::User("core".into()), "name", "c"),
            entry(Subject::User("core".into()), "sshAuthorizedKeys[0]", "ssh-ed25519 AAAA zoe@host"),
            entry(Subject::Extension("usbguard".into()), "", "usbguard"),
            entry(Subject::KernelArgument("nosmt audit=1".into()), "", "nosmt audit=1"),
        ]
    }

    /// The values of the entries that a query finds.
    fn found(what: &str) -> Option<(MatchKind, String)> {
        let entries = entries();
        let found = find(&entries, what)?;
        let values: Vec<_> = found.entries.iter().filter_map(|entry| entry.value.as_str()).collect();
        Some((found.kind, values.join(" ")))
    }

    #[test]
    fn queries_have_many_forms() {
        use MatchKind::{Fuzzy, Group, Named};
        let key = "ssh-ed25519 AAAA zoe@host";
        for (what, kind, values) in [
            ("osImageURL", Named, "i"),
            ("spec.osImageURL", Named, "i"),
            ("osimageurl", Fuzzy, "i"),
            ("/etc/chrony.conf", Named, "m"),
            ("file /etc/chrony.conf", Named, "m"),
            ("etc/chrony.conf", Fuzzy, "m"),
            ("\"/etc/chrony.conf/\"", Fuzzy, "m"),
            ("chrony.conf", Fuzzy, "m"),
            ("chrony", Fuzzy, "m"),
            ("/etc/sub.d", Group, "m"),
            ("/etc/", Group, "m m l"),
            ("/var/lib/x/", Fuzzy, "d"),
            ("LOCALTIME", Fuzzy, "l"),
            ("kubelet.service", Named, "u n"),
            ("kubelet", Fuzzy, "u n"),
            ("/etc/systemd/system/kubelet.service", Named, "u n"),
            ("kubelet.service.d/10-nice.conf", Named, "n"),
            ("kubelet.service/10-nice.conf", Named, "n"),
            ("10-nice.conf", Named, "n"),
            ("10-nice", Fuzzy, "n"),
            ("units", Group, "u"),
            ("systemd", Group, "u n"),
            ("dropins", Group, "n"),
            ("core", Named, &format!("c {key}")),
            ("Core", Fuzzy, &format!("c {key}")),
            ("sshAuthorizedKeys", Named, key),
            ("ssh-keys", Named, key),
            ("zoe@host", Fuzzy, key),
            ("extensions", Named, "usbguard"),
            ("usbguard", Named, "usbguard"),
            ("kernelArguments", Named, "root=a nosmt audit=1"),
            ("kargs", Named, "root=a nosmt audit=1"),
            ("audit", Named, "nosmt audit=1"),
            ("kernel argument nosmt audit=1", Named, "nosmt audit=1"),
            ("root", Named, "root=a"),
            ("proxy", Fuzzy, "p"),
            ("mode", Named, "m m"),
            ("spec.of.i", Group, "i"),
            ("MachineConfig 50-mine, spec.of.i", Group, "i"),
        ] {
            assert_eq!(found(what), Some((kind, values.to_owned())), "{what}");
        }
        assert_eq!(found("50-mine").unwrap().1.split(' ').count(), 16, "everything that it says");
        for what in ["", " ", "/etc/crony.conf", "raid", "conf", "/etc/chrony.conf/x"] {
            assert_eq!(found(what), None, "{what}");
        }
    }

    #[test]
    fn suggestions_start_with_the_most_similar_and_are_limited() {
        let meant = |what: &str| suggestions(&entries(), what).meant;
        assert_eq!(meant("/etc/crony.conf").as_deref(), Some("file /etc/chrony.conf"));
        assert_eq!(meant("kubelt").as_deref(), Some("unit kubelet.service"));
        assert_eq!(meant("/opt/chrony.cnf").as_deref(), Some("file /etc/chrony.conf"));
        assert_eq!(meant("zzz"), None);
        let suggestions = suggestions(&entries(), "/usr/lib/zzz");
        assert_eq!((suggestions.nearest.len(), suggestions.more), (8, 4));
        let is_path = |name: &String| name.contains(" /");
        assert_eq!(suggestions.nearest.iter().take_while(|name| is_path(name)).count(), 4, "{:?}", suggestions.nearest);
    }
}
