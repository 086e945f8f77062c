//! Revisions: the rendered MachineConfigs of a pool in the order in which they were targeted last, with the source changes.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool, PoolConfiguration};
use seaworthy_api::vocabulary::seaworthy::annotation;
use serde::Serialize;

use crate::history::pin::is_of_pool;
use crate::history::target_history::TargetHistory;

/// The MachineConfigs that a rendered one was made of, each with a digest of its spec.
pub type Sources = BTreeMap<String, String>;

/// One rendered MachineConfig of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision<'a> {
    pub name: &'a str,
    pub object: &'a MachineConfig,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When the pool targeted it last, where that is on record.
    pub targeted: Option<Timestamp>,
    /// Whether the pool went on from it before every node ran it.
    pub is_unfinished: bool,
    /// What it was made of. A digest is empty where only the name is known; `None` where nothing is.
    pub sources: Option<Sources>,
    /// What changed against the one before; `None` where that is not known.
    pub changes: Option<Vec<SourceChange>>,
}

/// A difference between the sources of two rendered MachineConfigs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceChange {
    /// The MachineConfig.
    pub name: String,
    pub what: SourceChangeKind,
}

/// How a source differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceChangeKind {
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Its spec was changed.
    Changed,
}

impl SourceChangeKind {
    /// The sign that differences are shown with.
    pub const fn sign(self) -> char {
        match self {
            SourceChangeKind::Added => '+',
            SourceChangeKind::Removed => '-',
            SourceChangeKind::Changed => '~',
        }
    }
}

impl Revision<'_> {
    /// When the pool targeted it last, as far as that is known.
    pub fn since(&self) -> Option<Timestamp> {
        self.targeted.or(self.created)
    }

    /// Whether it is being deleted: it stays only as long as it is needed, so it must not be rolled back to.
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// The rendered MachineConfigs of a pool; the one that was targeted last comes last.
pub fn revisions<'a>(
    pool: &MachineConfigPool,
    machine_configs: impl IntoIterator<Item = &'a MachineConfig>,
) -> Vec<Revision<'a>> {
    let turns = TargetHistory::of(pool);
    let mut found: Vec<(usize, Revision<'a>)> = machine_configs
        .into_iter()
        .filter(|object| is_of_pool(object, pool))
        .map(|object| {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let turn = turns.last(name);
            let (targeted, nth) = (turn.map(|(since, _)| since), turn.map_or(0, |(_, nth)| nth));
            let (is_unfinished, sources) = (turns.is_unfinished(name), sources(object, pool));
            (nth, Revision { name, object, created, targeted, is_unfinished, sources, changes: None })
        })
        .collect();
    found.sort_by(|(nth, a), (other, b)| (a.since(), nth, a.name).cmp(&(b.since(), other, b.name)));
    let mut found: Vec<Revision<'a>> = found.into_iter().map(|(_, revision)| revision).collect();
    for nth in 1..found.len() {
        found[nth].changes = changes(found[nth - 1].sources.as_ref(), found[nth].sources.as_ref());
    }
    found
}

/// What a pool would roll back to: what its nodes ran before the roll-out that is under way, or else the target before the
/// present one. None that is being deleted, and one that was abandoned half-way only if there is no other.
pub fn previous<'r, 'a>(pool: &MachineConfigPool, revisions: &'r [Revision<'a>]) -> Option<&'r Revision<'a>> {
    let name_of = |configuration: Option<&PoolConfiguration>| configuration.and_then(|found| found.name.clone());
    let target = name_of(pool.spec.configuration.as_ref())?;
    let finished = name_of(pool.status.as_ref().and_then(|status| status.configuration.as_ref()));
    let under_way = finished.filter(|finished| *finished != target);
    let stays = |revision: &&Revision<'a>| !revision.is_deleting();
    if let Some(before) = under_way.and_then(|name| revisions.iter().filter(stays).find(|found| found.name == name)) {
        return Some(before);
    }
    let at = revisions.iter().position(|revision| revision.name == target)?;
    let before = &revisions[..at];
    before.iter().filter(stays).rfind(|revision| !revision.is_unfinished).or_else(|| before.iter().rfind(stays))
}

/// What changed between two sets of sources, by name; `None` where one of them is not known.
pub fn changes(old: Option<&Sources>, new: Option<&Sources>) -> Option<Vec<SourceChange>> {
    let (old, new) = (old?, new?);
    let change = |name: &str, what| SourceChange { name: name.to_owned(), what };
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| change(name, SourceChangeKind::Removed));
    let rest = new.iter().filter_map(|(name, digest)| match old.get(name) {
        None => Some(change(name, SourceChangeKind::Added)),
        Some(before) if !before.is_empty() && !digest.is_empty() && before != digest => {
            Some(change(name, SourceChangeKind::Changed))
        }
        Some(_) => None,
    });
    let mut all: Vec<SourceChange> = gone.chain(rest).collect();
    all.sort();
    Some(all)
}

/// The sources of a rendered MachineConfig: by its annotation, or by the pool that targets it.
fn sources(object: &MachineConfig, pool: &MachineConfigPool) -> Option<Sources> {
    if let Some(text) = annotation::SOURCES.of(&object.metadata)
        && let Ok(sources) = serde_json::from_str(text)
    {
        return Some(sources);
    }
    let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    let reported = [pool.spec.configuration.as_ref(), status];
    let configuration = reported.into_iter().flatten().find(|found| found.name == object.metadata.name)?;
    let names = configuration.source.as_ref()?.iter().filter_map(|source| source.name.clone());
    Some(names.map(|name| (name, String::new())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(name: &str, second: i64, sources: &str) -> MachineConfig {
        let owner = json!({"apiVersion": "v1", "kind": "MachineConfigPool", "name": "worker", "uid": "1"});
        let created = Timestamp::from_second(second).unwrap().to_string();
        let annotations = json!({annotation::SOURCES.as_str(): sources});
        let metadata = json!({
            "name": name, "ownerReferences": [owner], "creationTimestamp": created, "annotations": annotations,
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
    }

    fn pool(target: &str, finished: &str) -> MachineConfigPool {
        serde_json::from_value(json!({
            "metadata": {"name": "worker"},
            "spec": {"configuration": {"name": target}},
            "status": {"configuration": {"name": finished}},
        }))
        .unwrap()
    }

    #[test]
    fn history_is_by_age_and_lists_what_changed() {
        let c = rendered("rendered-worker-c", 30, r#"{"00-worker":"1","50-x":"2"}"#);
        let a = rendered("rendered-worker-a", 20, r#"{"00-worker":"1","40-w":"7"}"#);
        let b = rendered("rendered-worker-b", 10, r#"{"00-worker":"0","40-w":"7"}"#);
        let pool = pool("rendered-worker-c", "rendered-worker-c");
        let found = revisions(&pool, [&c, &a, &b]);
        assert_eq!(
            found.iter().map(|found| found.name).collect::<Vec<_>>(),
            ["rendered-worker-b", "rendered-worker-a", "rendered-worker-c"]
        );
        let reported = |nth: usize| {
            let changes: &Vec<SourceChange> = found[nth].changes.as_ref().unwrap();
            changes.iter().map(|change| format!("{}{}", change.what.sign(), change.name)).collect::<Vec<_>>()
        };
        assert_eq!(found[0].changes, None);
        assert_eq!(reported(1), ["~00-worker"]);
        assert_eq!(reported(2), ["-40-w", "+50-x"]);
    }

    #[test]
    fn undo_returns_to_the_previous_target_whenever_that_was_rendered() {
        let base = rendered("rendered-worker-base", 1, r#"{"00-worker":"1"}"#);
        let mut with_a = rendered("rendered-worker-a", 20, r#"{"00-worker":"1","50-a":"2"}"#);
        let late = rendered("rendered-worker-late", 15, "{}");
        let mut pool = pool("rendered-worker-base", "rendered-worker-base");
        for (name, second) in [("rendered-worker-late", 15), ("rendered-worker-a", 20), ("rendered-worker-base", 30)] {
            let text =
                TargetHistory::of(&pool).next(name, Some("rendered-worker-a"), Timestamp::from_second(second).unwrap());
            annotation::TARGET_HISTORY.set(&mut pool.metadata, text);
        }
        let found = revisions(&pool, [&base, &with_a, &late]);
        let names: Vec<&str> = found.iter().map(|found| found.name).collect();
        assert_eq!(names, ["rendered-worker-late", "rendered-worker-a", "rendered-worker-base"]);
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-a"));
        let changes: Vec<_> =
            found[2].changes.iter().flatten().map(|change| (change.what.sign(), &*change.name)).collect();
        assert_eq!(changes, [('-', "50-a")]);

        // Those who came later than it were never run everywhere.
        let text = TargetHistory::of(&pool).next(
            "rendered-worker-b",
            Some("rendered-worker-a"),
            Timestamp::from_second(40).unwrap(),
        );
        annotation::TARGET_HISTORY.set(&mut pool.metadata, text);
        pool.spec.configuration = serde_json::from_value(json!({"name": "rendered-worker-b"})).unwrap();
        pool.status = serde_json::from_value(json!({"configuration": {"name": "rendered-worker-b"}})).unwrap();
        let b = rendered("rendered-worker-b", 40, "{}");
        let found = revisions(&pool, [&base, &with_a, &late, &b]);
        assert!(found[2].is_unfinished && found[2].name == "rendered-worker-base");
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-a"));
        let found = revisions(&pool, [&base, &b]);
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-base"), "there is no other");

        pool.spec.configuration = serde_json::from_value(json!({"name": "rendered-worker-base"})).unwrap();
        pool.status = serde_json::from_value(json!({"configuration": {"name": "rendered-worker-base"}})).unwrap();
        with_a.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let found = revisions(&pool, [&base, &with_a, &late]);
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-late"), "a is going");
        pool.status = serde_json::from_value(json!({"configuration": {"name": "rendered-worker-a"}})).unwrap();
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-late"));
    }

    #[test]
    fn undo_returns_to_what_an_earlier_version_targeted_last_between_two_upgrades() {
        // By age it would be the one that was targeted first.
        let objects = ["b", "a", "c"].map(|name| rendered(&format!("rendered-worker-{name}"), 1, "{}"));
        let mut pool = pool("rendered-worker-c", "rendered-worker-c");
        let entry = |name: &str, second: i64| {
            let since = Timestamp::from_second(second).unwrap().to_string();
            json!({"config": format!("rendered-worker-{name}"), "since": since, "finished": true})
        };
        // The newer program has targeted a and b, the earlier one a again and then c.
        let (present, former) = (json!([entry("a", 10), entry("b", 20)]), json!([entry("a", 30), entry("c", 40)]));
        annotation::TARGET_HISTORY.set(&mut pool.metadata, present.to_string());
        annotation::FORMER_TARGET_HISTORY.set(&mut pool.metadata, former.to_string());
        let found = revisions(&pool, &objects);
        let names: Vec<&str> = found.iter().map(|found| found.name).collect();
        assert_eq!(names, ["rendered-worker-b", "rendered-worker-a", "rendered-worker-c"]);
        assert_eq!(previous(&pool, &found).map(|found| found.name), Some("rendered-worker-a"));
    }

    #[test]
    fn undo_returns_to_what_nodes_had() {
        let (a, b, c) = (
            rendered("rendered-worker-a", 1, "{}"),
            rendered("rendered-worker-b", 2, "{}"),
            rendered("rendered-worker-c", 3, "{}"),
        );
        let back = |target, finished| {
            let pool = pool(target, finished);
            let revisions = revisions(&pool, [&a, &b, &c]);
            previous(&pool, &revisions).map(|found| found.name)
        };
        assert_eq!(back("rendered-worker-c", "rendered-worker-c"), Some("rendered-worker-b"));
        assert_eq!(back("rendered-worker-c", "rendered-worker-a"), Some("rendered-worker-a"), "b was never finished");
        assert_eq!(back("rendered-worker-a", "rendered-worker-a"), None);
        assert_eq!(back("rendered-worker-x", "rendered-worker-x"), None);
    }
}
