//! Changes of `registries.conf`: whether one can be applied while pods run.
//!
//! A change is safe when every image that could be pulled before still comes from the same place, or from a mirror that
//! is asked by digest only: then it cannot be a different image.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, Item, Table};

/// A registry of the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Registry {
    /// What must stay as it is: prefix, location, blocked, insecure.
    fixed: (String, String, bool, bool),
    is_by_digest_only: bool,
    /// Whether each mirror is asked by digest only.
    mirrors: BTreeMap<String, bool>,
    /// The pull policy of each mirror as it is written.
    policies: BTreeMap<String, String>,
}

/// Whether nodes can take the change over without being drained. What cannot be read is not safe.
pub fn is_safe(old: &str, new: &str) -> bool {
    match (read(old), read(new)) {
        (Some(old), Some(new)) => is_safe_change(&old, &new),
        _ => false,
    }
}

type Registries = (Vec<String>, BTreeMap<String, Registry>);

fn is_safe_change((old_search, old): &Registries, (new_search, new): &Registries) -> bool {
    let keeps_search = new_search.starts_with(old_search);
    let keeps_old = old.iter().all(|(key, old)| new.get(key).is_some_and(|new| keeps(old, new)));
    let mut added = new.iter().filter(|(key, _)| !old.contains_key(*key)).map(|(_, registry)| registry);
    keeps_search && keeps_old && added.all(is_safe_addition)
}

fn keeps(old: &Registry, new: &Registry) -> bool {
    let keeps_mirrors = old.policies.iter().all(|(location, policy)| {
        new.policies.get(location).is_some_and(|other| other == policy || new.mirrors.get(location) == Some(&true))
    });
    let mut added = new.mirrors.iter().filter(|(location, _)| !old.mirrors.contains_key(*location));
    old.fixed == new.fixed && keeps_mirrors && added.all(|(_, by_digest)| *by_digest || new.is_by_digest_only)
}

fn is_safe_addition(registry: &Registry) -> bool {
    match registry.mirrors.is_empty() {
        true => registry.is_by_digest_only,
        false => registry.is_by_digest_only || registry.mirrors.values().all(|by_digest| *by_digest),
    }
}

fn read(text: &str) -> Option<Registries> {
    let document: DocumentMut = text.parse().ok()?;
    let search = document.get("unqualified-search-registries").and_then(Item::as_array);
    let search = search.into_iter().flatten().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let mut registries = BTreeMap::new();
    for table in tables(document.get("registry"))? {
        let (location, prefix) = (text_of(table, "location"), text_of(table, "prefix"));
        let key = if prefix.is_empty() { location.clone() } else { prefix.clone() };
        let mut registry = Registry {
            fixed: (prefix, location, flag_of(table, "blocked"), flag_of(table, "insecure")),
            is_by_digest_only: flag_of(table, "mirror-by-digest-only"),
            ..Registry::default()
        };
        for mirror in tables(table.get("mirror"))? {
            let (location, policy) = (text_of(mirror, "location"), text_of(mirror, "pull-from-mirror"));
            registry.mirrors.insert(location.clone(), policy == "digest-only");
            registry.policies.insert(location, policy);
        }
        registries.insert(key, registry);
    }
    Some((search, registries))
}

fn tables(item: Option<&Item>) -> Option<Vec<&Table>> {
    match item {
        None => Some(Vec::new()),
        Some(item) => item.as_array_of_tables().map(|tables| tables.iter().collect()),
    }
}

fn text_of(table: &Table, key: &str) -> String {
    table.get(key).and_then(Item::as_str).unwrap_or_default().to_owned()
}

fn flag_of(table: &Table, key: &str) -> bool {
    table.get(key).and_then(Item::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_safe;

    const OLD: &str = "unqualified-search-registries = [\"a\", \"b\"]\n\
        [[registry]]\nprefix = \"\"\nlocation = \"r\"\n\
        [[registry.mirror]]\nlocation = \"m\"\npull-from-mirror = \"digest-only\"\n";

    // D-30.
    #[rstest]
    #[case::unchanged(OLD.to_owned())]
    #[case::registry_by_digest(format!("{OLD}[[registry]]\nlocation = \"s\"\n[[registry.mirror]]\nlocation = \"n\"\npull-from-mirror = \"digest-only\"\n"))]
    #[case::mirror_by_digest(format!("{OLD}[[registry.mirror]]\nlocation = \"n\"\npull-from-mirror = \"digest-only\"\n"))]
    #[case::search_appended(OLD.replace("\"b\"]", "\"b\", \"c\"]"))]
    #[case::registry_without_mirrors_by_digest(format!("{OLD}[[registry]]\nlocation = \"s\"\nmirror-by-digest-only = true\n"))]
    fn is_taken_over_while_pods_run(#[case] new: String) {
        assert!(is_safe(OLD, &new));
    }

    #[test]
    fn a_registry_by_digest_only_may_gain_any_mirror() {
        let old = "[[registry]]\nlocation = \"r\"\nmirror-by-digest-only = true\n";
        assert!(is_safe(old, &format!("{old}[[registry.mirror]]\nlocation = \"m\"\n")));
    }

    #[test]
    fn a_mirror_may_become_one_by_digest_only_and_not_the_other_way() {
        let all = OLD.replace("digest-only", "all");
        assert!(is_safe(&all, OLD));
        assert!(!is_safe(OLD, &all));
    }

    // D-31.
    #[rstest]
    #[case::registry_without_mirror(format!("{OLD}[[registry]]\nlocation = \"s\"\n"))]
    #[case::registry_removed("unqualified-search-registries = [\"a\", \"b\"]\n".to_owned())]
    #[case::mirror_removed(OLD.split("[[registry.mirror]]").next().unwrap_or_default().to_owned())]
    #[case::search_removed(OLD.replace("\"a\", \"b\"", "\"a\""))]
    #[case::search_reordered(OLD.replace("\"a\", \"b\"", "\"b\", \"a\""))]
    #[case::prefix_changed(OLD.replace("prefix = \"\"", "prefix = \"p\""))]
    #[case::blocked(OLD.replace("location = \"r\"", "location = \"r\"\nblocked = true"))]
    #[case::mirror_by_tag(format!("{OLD}[[registry.mirror]]\nlocation = \"n\"\n"))]
    #[case::no_toml("[[".to_owned())]
    fn needs_a_drain(#[case] new: String) {
        assert!(!is_safe(OLD, &new));
    }
}
