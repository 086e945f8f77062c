//! `seaworthy explain`.

use std::io::Write as _;

use anstyle::Style;
use seaworthy_ignition::node::{Node, Value, quote};
use seaworthy_ignition::{data_url, gzip};
use seaworthy_render::provenance::Entry;
use seaworthy_render::render;
use similar::TextDiff;

use super::workspace;
use crate::cli::{Explain, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::Set;
use crate::paint;
use crate::table::Table;

pub fn run(options: &Explain) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
    let set = Set::read(&texts)?;
    let wanted: Vec<String> = options.pool.iter().cloned().collect();
    let mut pools = set.pools(&wanted)?;
    if pools.len() > 1 {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        return Err(Failure::unreadable(format!(
            "there are several pools; choose one with --pool: {}",
            names.join(", ")
        )));
    }
    let Some(pool) = pools.pop() else {
        if !set.broken_pools(&wanted).is_empty() {
            workspace::report(&set.broken_pools(&wanted), &set);
            return Ok(WRONG);
        }
        return Err(Failure::unreadable(set.lacks_pools()));
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
    let mut entries = rendered.provenance();
    if let Some(what) = &options.what {
        let all = entries;
        entries = all.iter().filter(|entry| entry.subject.is_meant_by(what)).cloned().collect();
        if entries.is_empty() {
            let near = nearest(&all, what);
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(Failure::unreadable(format!(
                "there is no {what:?} in {} (pool {}){hint}",
                rendered.name, pool.name
            )));
        }
    }
    match (options.output, &options.what) {
        (ReportFormat::Json, _) => print_json(&rendered.name, &pool.name, &entries)?,
        (ReportFormat::Text, None) => print_table(&entries)?,
        (ReportFormat::Text, Some(_)) => print_full(&entries)?,
    }
    Ok(OK)
}

/// The subject that shares most of what was typed.
fn nearest(entries: &[Entry<'_>], what: &str) -> Option<String> {
    entries
        .iter()
        .map(|entry| entry.subject.to_string())
        .map(|subject| (TextDiff::from_chars(what, subject.rsplit(' ').next().unwrap_or(&subject)).ratio(), subject))
        .filter(|(ratio, _)| *ratio > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, subject)| subject)
}

fn print_json(name: &str, pool: &str, entries: &[Entry<'_>]) -> Result<(), Failure> {
    let list: Vec<serde_json::Value> = entries
        .iter()
        .map(|entry| {
            let overrode: Vec<serde_json::Value> = entry
                .overrode
                .iter()
                .map(|lost| {
                    let value = lost.value.as_ref().map(Node::to_json);
                    serde_json::json!({"place": lost.place, "value": value})
                })
                .collect();
            serde_json::json!({
                "subject": entry.subject.to_string(),
                "field": entry.field,
                "value": entry.value.to_json(),
                "setBy": entry.set_by,
                "alsoSetBy": entry.also,
                "overrode": overrode,
            })
        })
        .collect();
    let json = serde_json::json!({"rendered": name, "pool": pool, "entries": list});
    // A value always has a JSON form.
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&json).unwrap_or_default())?;
    Ok(())
}

fn print_table(entries: &[Entry<'_>]) -> Result<(), Failure> {
    let mut table = Table::new(["WHAT", "FIELD", "VALUE", "SET BY", "OVERRODE"]);
    for entry in entries {
        let overrode: Vec<&str> = entry.overrode.iter().map(|lost| lost.place.name.as_str()).collect();
        table.row([
            entry.subject.to_string(),
            entry.field.clone(),
            if entry.field == "mode" { shown(&entry.field, &entry.value) } else { short(&entry.value) },
            set_by(entry),
            overrode.join(", "),
        ]);
    }
    let mut out = anstream::stdout().lock();
    for line in table.lines() {
        writeln!(out, "{}", paint::plain(line))?;
    }
    Ok(())
}

fn set_by(entry: &Entry<'_>) -> String {
    let name = entry.set_by.as_ref().map_or("(rendering)", |place| place.name.as_str());
    match entry.also.len() {
        0 => name.to_owned(),
        more => format!("{name} (+{more})"),
    }
}

/// A value in a few characters.
fn short(node: &Node<'_>) -> String {
    const SHOWN: usize = 36;
    let text = match &node.value {
        Value::Str(text) if text.starts_with("data:") => match data_url::decode(text) {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(_) => text.to_string(),
        },
        Value::Str(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > SHOWN || line.len() < text.len() {
        let cut: String = line.chars().take(SHOWN).collect();
        return format!("{cut}…");
    }
    line.to_owned()
}

fn print_full(entries: &[Entry<'_>]) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    let mut last = None;
    for entry in entries {
        if last != Some(&entry.subject) {
            if last.is_some() {
                writeln!(out)?;
            }
            writeln!(out, "{bold}{}{bold:#}", paint::plain(&entry.subject))?;
            last = Some(&entry.subject);
        }
        let field = if entry.field.is_empty() { "value" } else { &entry.field };
        writeln!(out, "  {}", paint::plain(format!("{field}: {}", shown(&entry.field, &entry.value))))?;
        match &entry.set_by {
            Some(place) => writeln!(out, "    set by {}", paint::plain(place))?,
            None => writeln!(out, "    set by rendering itself")?,
        }
        for place in &entry.also {
            writeln!(out, "    the same in {}", paint::plain(place))?;
        }
        let mut newer = Some(&entry.value);
        for lost in &entry.overrode {
            writeln!(out, "    overrides {}", paint::plain(&lost.place))?;
            if let (Some(old), Some(new)) = (&lost.value, newer) {
                write_difference(&mut out, &entry.field, old, new)?;
            }
            newer = lost.value.as_ref();
        }
    }
    Ok(())
}

fn shown(field: &str, node: &Node<'_>) -> String {
    match (&node.value, field) {
        (Value::Int(mode), "mode") => format!("{mode} (0{mode:o})"),
        (Value::Str(text), _) if text.starts_with("data:") => match data_url::decode(text) {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(_) => quote(text),
        },
        (Value::Str(text), _) if text.contains('\n') => format!("{} lines", text.lines().count()),
        (Value::Str(text), _) => paint::quoted(text),
        _ => short(node),
    }
}

/// The text behind a value: a file's contents rather than their encoding.
fn text_of(node: &Node<'_>) -> Option<String> {
    let text = node.as_str()?;
    if !text.starts_with("data:") {
        return Some(text.to_owned());
    }
    let bytes = data_url::decode(text).ok()?.into_owned();
    // The value stands alone here, without the field that says how it is packed; gzip says so itself.
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) { gzip::unpack(&bytes, LARGEST_BODY).ok()? } else { bytes };
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Bodies are unpacked for comparison up to this size.
const LARGEST_BODY: u64 = 16 * 1024 * 1024;

fn write_difference(out: &mut impl std::io::Write, field: &str, old: &Node<'_>, new: &Node<'_>) -> Result<(), Failure> {
    let (Some(before), Some(after)) = (text_of(old), text_of(new)) else {
        writeln!(out, "      {} became {}", shown(field, old), shown(field, new))?;
        return Ok(());
    };
    if !before.contains('\n') && !after.contains('\n') && !old.as_str().unwrap_or_default().starts_with("data:") {
        writeln!(out, "      {} became {}", shown(field, old), shown(field, new))?;
        return Ok(());
    }
    super::diff::write_text_difference(out, &before, &after, "      ")?;
    Ok(())
}
