//! Unit enablement without systemd: the links that it reads when it starts.
//!
//! Compat: systemd's `src/shared/install.c` as far as units of a configuration need it; `tests/installed.rs` compares the
//! outcome with `systemctl --root`.

use super::files::Files;
use crate::{Entry, EntryKind, HostError, UnitState};

/// The administrator's units.
const ADMIN_DIR: &str = "/etc/systemd/system";
/// Folders of units, by precedence.
const UNIT_DIRS: [&str; 5] = [
    ADMIN_DIR,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const PRESET_DIRS: [&str; 5] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
    "/lib/systemd/system-preset",
];
/// Keys of a unit's `[Install]` section, with the suffix of the folder of their links.
const INSTALL_KEYS: [(&str, &str); 3] = [("WantedBy", "wants"), ("RequiredBy", "requires"), ("UpheldBy", "upholds")];
/// Limits the recursion over units that name each other.
const MAX_DEPTH: usize = 16;

/// The `[Install]` section of a unit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Install {
    /// Links, below [`ADMIN_DIR`].
    links: Vec<String>,
    /// Units that are enabled and disabled together with it.
    also: Vec<String>,
}

/// A unit's file; the text is `None` for one that is masked.
struct UnitFile {
    path: String,
    text: Option<String>,
}

pub(super) fn state(files: &Files, unit: &str) -> Result<UnitState, HostError> {
    let Some(file) = unit_file(files, unit)? else { return Ok(UnitState::NotFound) };
    let Some(text) = &file.text else {
        let is_for_now = file.path.starts_with("/run/");
        return Ok(if is_for_now { UnitState::MaskedRuntime } else { UnitState::Masked });
    };
    if !links_of(files, ADMIN_DIR, unit)?.is_empty() {
        return Ok(UnitState::Enabled);
    }
    if !links_of(files, "/run/systemd/system", unit)?.is_empty() {
        return Ok(UnitState::EnabledRuntime);
    }
    let install = install(unit, text);
    Ok(match (install.links.is_empty(), install.also.is_empty()) {
        (false, _) => UnitState::Disabled,
        (true, false) => UnitState::Other("indirect".to_owned()),
        (true, true) => UnitState::Other("static".to_owned()),
    })
}

pub(super) fn enable(files: &Files, unit: &str) -> Result<(), HostError> {
    enable_below(files, unit, 0)
}

fn enable_below(files: &Files, unit: &str, depth: usize) -> Result<(), HostError> {
    let Some(file) = unit_file(files, unit)? else {
        return Err(HostError::file("enable", unit, "there is no such unit"));
    };
    let Some(text) = &file.text else { return Err(HostError::file("enable", unit, "it is masked")) };
    let install = install(unit, text);
    for link in &install.links {
        files.symlink(&format!("{ADMIN_DIR}/{link}"), &file.path)?;
    }
    for other in install.also.iter().filter(|other| *other != unit && depth < MAX_DEPTH) {
        enable_below(files, other, depth + 1)?;
    }
    Ok(())
}

pub(super) fn disable(files: &Files, unit: &str) -> Result<(), HostError> {
    disable_below(files, unit, 0)
}

fn disable_below(files: &Files, unit: &str, depth: usize) -> Result<(), HostError> {
    for link in links_of(files, ADMIN_DIR, unit)? {
        files.remove(&link)?;
        if let Some((folder, _)) = link.rsplit_once('/').filter(|(folder, _)| *folder != ADMIN_DIR)
            && files.names(folder)?.is_empty()
        {
            files.remove_directory(folder)?;
        }
    }
    let text = unit_file(files, unit)?.and_then(|file| file.text).unwrap_or_default();
    for other in install(unit, &text).also.iter().filter(|other| *other != unit && depth < MAX_DEPTH) {
        disable_below(files, other, depth + 1)?;
    }
    Ok(())
}

/// Applies the first preset that matches a unit; it is enabled if none does.
pub(super) fn preset(files: &Files, unit: &str) -> Result<(), HostError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for place in PRESET_DIRS {
        for name in files.names(place)?.into_iter().filter(|name| name.ends_with(".preset")) {
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name.clone(), format!("{place}/{name}")));
            }
        }
    }
    found.sort();
    for (_, path) in found {
        let text = text_of(files, &path)?.unwrap_or_default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            let (Some(verb), Some(pattern)) = (words.next(), words.next()) else { continue };
            if !matches(pattern, unit) {
                continue;
            }
            match verb {
                "enable" => return enable_again(files, unit),
                "disable" => return disable(files, unit),
                _ => {}
            }
        }
    }
    enable_again(files, unit)
}

/// Removes the links of an older unit file first.
fn enable_again(files: &Files, unit: &str) -> Result<(), HostError> {
    disable(files, unit)?;
    enable(files, unit)
}

fn unit_file(files: &Files, unit: &str) -> Result<Option<UnitFile>, HostError> {
    let mut names = vec![unit.to_owned()];
    // An instance uses its template.
    if let Some((prefix, rest)) = unit.split_once('@')
        && let Some((_, suffix)) = rest.rsplit_once('.').filter(|(instance, _)| !instance.is_empty())
    {
        names.push(format!("{prefix}@.{suffix}"));
    }
    for name in names {
        for place in UNIT_DIRS {
            let path = format!("{place}/{name}");
            match files.entry(&path)? {
                None => {}
                Some(Entry { kind: EntryKind::Link(target), .. }) if target == "/dev/null" => {
                    return Ok(Some(UnitFile { path, text: None }));
                }
                Some(Entry { kind: EntryKind::Link(target), .. }) => {
                    let target = if target.starts_with('/') { target } else { format!("{place}/{target}") };
                    let text = text_of(files, &target)?.unwrap_or_default();
                    return Ok(Some(UnitFile { path, text: Some(text) }));
                }
                Some(_) => {
                    let text = text_of(files, &path)?.unwrap_or_default();
                    return Ok(Some(UnitFile { path, text: Some(text) }));
                }
            }
        }
    }
    Ok(None)
}

fn text_of(files: &Files, path: &str) -> Result<Option<String>, HostError> {
    Ok(files.read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The links below a folder that enable a unit: its name in folders of other units, and aliases.
fn links_of(files: &Files, place: &str, unit: &str) -> Result<Vec<String>, HostError> {
    let mut links = Vec::new();
    // A template matches all its instances.
    let is_it = |name: &str| match unit.split_once("@.") {
        Some((prefix, suffix)) => name.strip_prefix(prefix).is_some_and(|rest| {
            rest.starts_with('@') && rest.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
        }),
        None => name == unit,
    };
    for name in files.names(place)? {
        let path = format!("{place}/{name}");
        match files.entry(&path)? {
            Some(Entry { kind: EntryKind::Directory, .. })
                if INSTALL_KEYS.iter().any(|(_, kind)| is_kind(&name, kind)) =>
            {
                for inner in files.names(&path)?.into_iter().filter(|inner| is_it(inner)) {
                    links.push(format!("{path}/{inner}"));
                }
            }
            Some(Entry { kind: EntryKind::Link(target), .. })
                if name != unit && target.rsplit('/').next() == Some(unit) =>
            {
                links.push(path);
            }
            _ => {}
        }
    }
    Ok(links)
}

fn is_kind(name: &str, kind: &str) -> bool {
    name.strip_suffix(kind).is_some_and(|unit| unit.ends_with('.'))
}

/// Parses the `[Install]` section of a unit.
fn install(unit: &str, text: &str) -> Install {
    let mut install = Install::default();
    let mut default_instance = "";
    let mut values: Vec<(&str, &str)> = Vec::new();
    let mut is_install = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_install = line == "[Install]";
        } else if is_install
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let (key, value) = (key.trim(), value.trim());
            if value.is_empty() {
                // An empty value resets the list.
                values.retain(|(known, _)| *known != key);
            }
            values.push((key, value));
            if key == "DefaultInstance" {
                default_instance = value;
            }
        }
    }
    // A template enables its default instance.
    let name = match unit.split_once("@.") {
        Some((prefix, suffix)) if !default_instance.is_empty() => format!("{prefix}@{default_instance}.{suffix}"),
        _ => unit.to_owned(),
    };
    for (key, value) in values {
        let words = value.split_whitespace().map(|word| expanded(word, &name));
        match key {
            "Alias" => install.links.extend(words.filter(|alias| *alias != name)),
            "Also" => install.also.extend(words),
            _ => {
                if let Some((_, kind)) = INSTALL_KEYS.iter().find(|(known, _)| *known == key) {
                    install.links.extend(words.map(|other| format!("{other}.{kind}/{name}")));
                }
            }
        }
    }
    // A name with a slash would be in another folder.
    let is_plain = |link: &String| link.matches('/').count() <= 1 && !link.contains("..");
    install.links.retain(is_plain);
    install
}

/// Expands the specifiers of `[Install]` sections.
fn expanded(word: &str, unit: &str) -> String {
    if !word.contains('%') {
        return word.to_owned();
    }
    let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let mut text = String::new();
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match (letter, if letter == '%' { letters.next() } else { None }) {
            ('%', Some('i')) => text.push_str(instance),
            ('%', Some('p')) => text.push_str(prefix),
            ('%', Some('n')) => text.push_str(unit),
            ('%', Some('N')) => text.push_str(stem),
            ('%', Some('%') | None) => text.push('%'),
            ('%', Some(other)) => text.extend(['%', other]),
            (letter, _) => text.push(letter),
        }
    }
    text
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[from] => {
                at += 1;
                from += 1;
            }
            // Backtrack: the last star matches one more character.
            _ => match star {
                Some((place, taken)) => {
                    at = place + 1;
                    from = taken + 1;
                    star = Some((place, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "a.service", true)]
    #[case("a.*", "a.service", true)]
    #[case("a?.service", "ab.service", true)]
    #[case("*b*.service", "abc.service", true)]
    #[case("a.service", "b.service", false)]
    #[case("*.socket", "a.service", false)]
    #[case("a", "a.service", false)]
    fn patterns_match_whole_names(#[case] pattern: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, name), expected);
    }

    #[test]
    fn an_install_section_gives_the_locations_of_links() {
        let text = "[Unit]\nWantedBy=x\n[Install]\nWantedBy=a.target b.target\nRequiredBy=c.target\nAlias=d.service ../e\nAlso=f.socket\n";
        let found = install("u.service", text);
        assert_eq!(
            found.links,
            ["a.target.wants/u.service", "b.target.wants/u.service", "c.target.requires/u.service", "d.service"]
        );
        assert_eq!(found.also, ["f.socket"]);
        assert_eq!(install("u.service", "[Install]\nWantedBy=a\nWantedBy=\nWantedBy=b\n").links, ["b.wants/u.service"]);
    }

    #[test]
    fn a_template_is_started_as_its_default_instance() {
        let text = "[Install]\nDefaultInstance=tty1\nWantedBy=%p.target\n";
        assert_eq!(install("getty@.service", text).links, ["getty.target.wants/getty@tty1.service"]);
        assert_eq!(install("getty@x.service", text).links, ["getty.target.wants/getty@x.service"]);
    }
}
