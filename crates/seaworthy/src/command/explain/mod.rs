//! `seaworthy explain`.

mod question;
mod text;

use std::collections::HashSet;
use std::io::Write as _;

use seaworthy_render::provenance::{Entry, Overridden, Subject};
use seaworthy_render::remote::Embedded;
use seaworthy_render::{Pool, render};

use self::question::{Kind, answer, instead, kind_named};
use super::{secret, value, workspace};
use crate::cli::{Explain, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::Set;
use crate::{output, paint};

/// Of several things that may have been meant this many are named.
const MOST_NAMED: usize = 3;

pub fn run(options: &Explain) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
    let set = Set::read(&texts)?;
    let wanted: Vec<String> = options.pool.iter().cloned().collect();
    let mut pools = set.pools(&wanted)?;
    if pools.len() > 1 {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        return Err(Failure::unreadable(format!("several pools found; choose one with --pool: {}", names.join(", "))));
    }
    let Some(pool) = pools.pop() else {
        if !set.broken_pools(&wanted).is_empty() {
            workspace::report(&set.broken_pools(&wanted), &set);
            return Ok(WRONG);
        }
        return Err(Failure::unreadable(why_nothing(&set)));
    };
    let prepared = workspace::resolved(&set, std::slice::from_ref(&pool), &options.remote)?;
    let context = workspace::context(&set, false);
    let rendered = match render(&pool, &prepared, &context) {
        Ok(rendered) => rendered,
        Err(findings) => {
            workspace::report(&findings, &set);
            return Ok(WRONG);
        }
    };
    let all = rendered.provenance();
    let (entries, kind): (Vec<&Entry<'_>>, Kind) = match &options.what {
        None => (all.iter().collect(), Kind::Many),
        Some(what) => {
            let place = format!("{} (pool {})", rendered.name, pool.name);
            let found = answer(&all, what).ok_or_else(|| {
                let elsewhere = of_other_pools(&set, &pool, what);
                Failure::unreadable(elsewhere.unwrap_or_else(|| not_found(&all, what, &place)))
            })?;
            if found.kind == Kind::Nearly {
                paint::note(&format!("{what:?} not found; showing {}", subjects(&found.entries)));
            }
            (found.entries, found.kind)
        }
    };
    // Of all, since the mode of a file may tell, and somebody else be asked for.
    let secrets = secret::among(&all);
    match (options.output, kind) {
        (ReportFormat::Json, _) => print_json(&rendered.name, &pool.name, &entries, &secrets)?,
        (ReportFormat::Text, Kind::Many) => text::print_table(&entries, &secrets)?,
        (ReportFormat::Text, Kind::Named | Kind::Nearly) => text::print_full(&entries, &secrets, set.lacks_images())?,
    }
    Ok(OK)
}

/// Why there is nothing to explain.
fn why_nothing(set: &Set<'_>) -> String {
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
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// Says where the MachineConfig is that the question names, if it is in the input and not in the pool.
fn of_other_pools(set: &Set<'_>, pool: &Pool, what: &str) -> Option<String> {
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

/// Says that something is not there, and what is.
fn not_found(all: &[Entry<'_>], what: &str, place: &str) -> String {
    if what.trim().is_empty() {
        return "the argument is empty; omit it to show everything".to_owned();
    }
    // A pattern of the shell becomes many files, and `-f` takes the first.
    let is_manifest = [".yaml", ".yml", ".json"].iter().any(|suffix| what.ends_with(suffix));
    if is_manifest && std::path::Path::new(what).is_file() {
        return format!("{what:?} is a file, not part of {place}; pass each file with its own -f, or pass the folder");
    }
    if let Some(kind) = kind_named(what) {
        return format!("no {kind} in {place}");
    }
    let instead = instead(all, what);
    let hint = instead.meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    let mut message = format!("{what:?} not found in {place}{hint}");
    if !instead.nearest.is_empty() {
        message.push_str("\navailable there:");
        instead.nearest.iter().for_each(|subject| message.push_str(&format!("\n  {subject}")));
        if instead.more > 0 {
            message.push_str(&format!("\n  … and {} more; omit {what:?} to show all", instead.more));
        }
    }
    message
}

fn print_json(name: &str, pool: &str, entries: &[&Entry<'_>], secrets: &HashSet<&Subject>) -> Result<(), Failure> {
    let json = |entry: &&Entry<'_>| entry_json(entry, secrets.contains(&entry.subject));
    let list: Vec<serde_json::Value> = entries.iter().map(json).collect();
    let json = serde_json::json!({"rendered": name, "pool": pool, "entries": list});
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", serde_json::to_string_pretty(&json).unwrap_or_default())?;
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
