//! `seaworthy explain`: which MachineConfig set a value, and which ones it overrode.

mod query;
mod text;

use std::collections::HashSet;
use std::io::Write as _;

use seaworthy_render::provenance::{Entry, Overridden, Subject};
use seaworthy_render::remote::Embedded;
use seaworthy_render::{Pool, render};
use seaworthy_values::list::listed;

use self::query::{MatchKind, entry_kind, find, suggestions};
use super::loading;
use crate::cli::{Explain, ReportFormat};
use crate::display::{secret, value};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::ManifestSet;
use crate::{output, terminal};

/// Of several fuzzy matches this many are listed.
const MAX_LISTED: usize = 3;

pub fn run(options: &Explain) -> Result<u8, Failure> {
    let texts = loading::texts(&options.input)?;
    let set = ManifestSet::read(&texts)?;
    let wanted: Vec<String> = options.pool.iter().cloned().collect();
    let mut pools = set.pools(&wanted)?;
    if pools.len() > 1 {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        return Err(Failure::invalid(format!("several pools found; choose one with --pool: {}", names.join(", "))));
    }
    let Some(pool) = pools.pop() else {
        if !set.broken_pools(&wanted).is_empty() {
            loading::report(&set.broken_pools(&wanted), &set);
            return Ok(EXIT_FAILED);
        }
        return Err(Failure::invalid(no_pool_reason(&set)));
    };
    let prepared = loading::resolved(&set, std::slice::from_ref(&pool), &options.remote)?;
    let context = loading::context(&set, false);
    let rendered = match render(&pool, &prepared, &context) {
        Ok(rendered) => rendered,
        Err(findings) => {
            loading::report(&findings, &set);
            return Ok(EXIT_FAILED);
        }
    };
    let all = rendered.provenance();
    let (entries, kind): (Vec<&Entry<'_>>, MatchKind) = match &options.what {
        None => (all.iter().collect(), MatchKind::Group),
        Some(what) => {
            let place = format!("{} (pool {})", rendered.name, pool.name);
            let found = find(&all, what).ok_or_else(|| {
                let elsewhere = of_other_pools(&set, &pool, what);
                Failure::invalid(elsewhere.unwrap_or_else(|| not_found(&all, what, &place)))
            })?;
            if found.kind == MatchKind::Fuzzy {
                terminal::note(&format!("{what:?} not found; showing {}", subjects(&found.entries)));
            }
            (found.entries, found.kind)
        }
    };
    // Of all entries: the mode that makes a file secret may not be among those that were asked for.
    let secrets = secret::among(&all);
    match (options.output, kind) {
        (ReportFormat::Json, _) => print_json(&rendered.name, &pool.name, &entries, &secrets)?,
        (ReportFormat::Text, MatchKind::Group) => text::print_table(&entries, &secrets)?,
        (ReportFormat::Text, MatchKind::Named | MatchKind::Fuzzy) => {
            text::print_full(&entries, &secrets, set.lacks_images())?
        }
    }
    Ok(EXIT_OK)
}

/// Why there is nothing to explain.
fn no_pool_reason(set: &ManifestSet<'_>) -> String {
    let objects = &set.machine_configs;
    match objects.first() {
        Some(first) if set.has_only_results() => format!(
            "the input has only rendered MachineConfigs ({}), which do not record their sources; pass the \
             MachineConfigs that the pool selects, and the MachineConfigPool",
            first.name()
        ),
        _ => set.lacks_pools(),
    }
}

/// What the entries are about, in a few words.
fn subjects(entries: &[&Entry<'_>]) -> String {
    let mut names: Vec<String> = entries.iter().map(|entry| entry.subject.to_string()).collect();
    names.dedup();
    listed(names, MAX_LISTED)
}

/// Why a MachineConfig that is in the input is not part of the pool.
fn of_other_pools(set: &ManifestSet<'_>, pool: &Pool, what: &str) -> Option<String> {
    let named = set.machine_configs.iter().find(|machine_config| machine_config.name() == what)?;
    if named.is_rendered() {
        return Some(format!("MachineConfig {what} is rendered, and pools do not select rendered MachineConfigs"));
    }
    let selects =
        |pool: &&Pool| pool.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(named));
    if selects(&pool) {
        return Some(format!(
            "MachineConfig {what} contributes nothing to pool {}: it is empty, or others override it",
            pool.name
        ));
    }
    let others: Vec<&str> = set.pools.iter().filter(selects).map(|pool| pool.name.as_str()).collect();
    let hint = match (others.as_slice(), named.role()) {
        ([], Some(role)) if set.pools.is_empty() => format!("its role is {role}; choose it with --pool {role}"),
        ([], _) => "nor does any other pool; `seaworthy lint` shows why".to_owned(),
        (others, _) => format!("choose a pool that does with --pool: {}", others.join(", ")),
    };
    Some(format!("pool {} does not select MachineConfig {what}; {hint}", pool.name))
}

/// The message for a query without a match, with what there is instead.
fn not_found(all: &[Entry<'_>], what: &str, place: &str) -> String {
    if what.trim().is_empty() {
        return "the argument is empty; omit it to show everything".to_owned();
    }
    // A pattern of the shell becomes many files, and `-f` takes the first.
    let is_manifest = [".yaml", ".yml", ".json"].iter().any(|suffix| what.ends_with(suffix));
    if is_manifest && std::path::Path::new(what).is_file() {
        return format!("{what:?} is a file, not part of {place}; pass each file with its own -f, or pass the folder");
    }
    if let Some(kind) = entry_kind(what) {
        return format!("no {kind} in {place}");
    }
    let suggestions = suggestions(all, what);
    let hint = suggestions.meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    let mut message = format!("{what:?} not found in {place}{hint}");
    if !suggestions.nearest.is_empty() {
        message.push_str("\navailable there:");
        suggestions.nearest.iter().for_each(|subject| message.push_str(&format!("\n  {subject}")));
        if suggestions.more > 0 {
            message.push_str(&format!("\n  … and {} more; omit {what:?} to show all", suggestions.more));
        }
    }
    message
}

fn print_json(name: &str, pool: &str, entries: &[&Entry<'_>], secrets: &HashSet<&Subject>) -> Result<(), Failure> {
    let json = |entry: &&Entry<'_>| entry_json(entry, secrets.contains(&entry.subject));
    let list: Vec<serde_json::Value> = entries.iter().map(json).collect();
    let json = serde_json::json!({"rendered": name, "pool": pool, "entries": list});
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", seaworthy_manifest::pretty(&json))?;
    Ok(())
}

/// `is_secret` is whether the contents of the file are.
fn entry_json(entry: &Entry<'_>, is_secret: bool) -> serde_json::Value {
    let lost_json = |lost: &Overridden<'_>| lost_json(&entry.field, lost, is_secret);
    let mut json = serde_json::json!({
        "subject": entry.subject.to_string(),
        "field": entry.field,
        "value": value::json(&entry.field, &entry.value, is_secret),
        "setBy": entry.set_by,
        "default": entry.default.is_some(),
        "alsoSetBy": entry.also,
        "overrode": entry.overrode.iter().map(lost_json).collect::<Vec<_>>(),
    });
    if let Some(default) = &entry.default {
        json["reason"] = default.reason.into();
        if let Some(entry) = &default.entry {
            json["defaultFor"] = serde_json::json!(entry);
        }
    }
    if !entry.ignored.is_empty() {
        json["ignored"] = entry.ignored.iter().map(lost_json).collect();
    }
    if let Some(fetched) = entry.fetched {
        json["fetched"] = fetched_json(fetched, is_secret);
    }
    json
}

fn lost_json(field: &str, lost: &Overridden<'_>, is_secret: bool) -> serde_json::Value {
    let value = lost.value.as_ref().map(|node| value::json(field, node, is_secret));
    let mut json = serde_json::json!({"place": lost.place, "value": value});
    if let Some(fetched) = lost.fetched {
        json["fetched"] = fetched_json(fetched, is_secret);
    }
    json
}

fn fetched_json(fetched: &Embedded, is_secret: bool) -> serde_json::Value {
    let mut json = serde_json::json!({"url": fetched.url, "fetchedAt": fetched.fetched_at_utc()});
    if !is_secret {
        json["digest"] = serde_json::json!(fetched.digest);
    }
    json
}
