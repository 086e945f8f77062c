//! Differences as text: added, removed, moved and changed entries.

use std::collections::BTreeMap;
use std::io::{self, Write};

use seaworthy_ignition::Change;
use seaworthy_ignition::body::BodyError;
use seaworthy_ignition::diff::{ChangeKind, Entry, FieldChange};
use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::path::Step;
use seaworthy_values::text::abbreviate;

use super::pool_diff::{FieldDifference, PoolDiff, noun};
use crate::display::value::{HIDDEN, shown, shown_or_unset};
use crate::display::{contents, secret, ssh_key};
use crate::failure::Failure;
use crate::{output, terminal};

const INDENT: &str = "    ";
const BODY_INDENT: &str = "      ";

/// For values that differ only in a part that is not shown.
const HIDDEN_DIFFERENCE: &str = "with a difference in the part not shown";

/// Longer names of entries are cut: certificates are named by their contents.
const MAX_NAME_CHARS: usize = 200;

/// Writes all differences, or a note that there are none.
pub fn print(reports: &[PoolDiff<'_>]) -> Result<(), Failure> {
    let mut out = output::colored();
    for (nth, report) in reports.iter().filter(|report| report.differs()).enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write_report(&mut out, report, false)?;
    }
    if !reports.iter().any(PoolDiff::differs) {
        terminal::note("no difference");
        for report in reports {
            if let Some((old, new)) = report.renamed() {
                terminal::note(&format!(
                    "pool {}: the name still changes, {old} → {new}: the order or the spelling differs",
                    report.pool
                ));
            }
        }
    }
    Ok(())
}

/// Writes how one pool differs. In a summary contents are only counted.
pub fn write_report(out: &mut dyn Write, report: &PoolDiff<'_>, is_summary: bool) -> io::Result<()> {
    let pool = format!("pool {}", report.pool);
    let (what, names) = match (report.old, report.new) {
        (Some(old), Some(new)) if old.name == new.name => (pool, String::new()),
        (Some(old), Some(new)) if old.pool == new.pool => (pool, format!(" ({} → {})", old.name, new.name)),
        (Some(old), Some(new)) => (format!("{} → {}", old.name, new.name), String::new()),
        (None, Some(new)) => (format!("{pool} is new"), format!(" ({})", new.name)),
        (Some(old), None) => (format!("{pool} is gone"), format!(" ({})", old.name)),
        (None, None) => (pool, String::new()),
    };
    let bold = anstyle::Style::new().bold();
    writeln!(out, "{bold}{}{bold:#}{}", terminal::sanitized(what), terminal::sanitized(names))?;
    let is_whole = is_summary || report.old.is_none() || report.new.is_none();
    for field in &report.fields {
        write_field(out, field)?;
    }
    for change in &report.changes {
        write_change(out, change, is_whole)?;
    }
    Ok(())
}

/// A line with a sign, in its colour.
fn write_signed(out: &mut dyn Write, indent: &str, sign: char, text: &str, more: &str) -> io::Result<()> {
    let style = terminal::diff_style(sign);
    writeln!(out, "{indent}{style}{sign} {}{style:#}{}", terminal::sanitized(text), terminal::sanitized(more))
}

fn write_field(out: &mut dyn Write, field: &FieldDifference<'_>) -> io::Result<()> {
    match field {
        FieldDifference::Scalar { field, old: None, new: Some(new) } => {
            write_signed(out, "", '+', &format!("{field}: {}", shown(field, new)), "")
        }
        FieldDifference::Scalar { field, old: Some(old), new: None } => {
            write_signed(out, "", '-', &format!("{field}: {}", shown(field, old)), "")
        }
        FieldDifference::Scalar { field, old, new } => {
            let (old, new) = (shown_or_unset(field, *old), shown_or_unset(field, *new));
            write_signed(out, "", '~', field, &format!(": {old} → {new}"))
        }
        FieldDifference::Item { list, sign, text } => {
            write_signed(out, "", *sign, &format!("{} {text}", noun(list)), "")
        }
        FieldDifference::Order { list } => write_signed(out, "", '~', &format!("{}s", noun(list)), ": reordered"),
    }
}

/// Writes a change of the Ignition config. Of a whole pool contents are only counted.
fn write_change(out: &mut dyn Write, change: &Change<'_>, is_whole: bool) -> io::Result<()> {
    let name = change.entry.to_string();
    let name = abbreviate(&name, MAX_NAME_CHARS);
    // The argument is listed, and the machine shall not have it.
    let unwanted = if change.list == "shouldNotExist" { " must not exist" } else { "" };
    let is_secret = secret::is_in(change);
    match &change.what {
        ChangeKind::Added(node) => {
            write_signed(out, "", '+', &name, &format!("{unwanted}{}", facts(&change.entry, node, is_secret)))?;
            if !is_whole {
                write_bodies(out, None, Some(node), is_secret)?;
            }
            write_parts(out, '+', node, is_whole)
        }
        ChangeKind::Removed(node) => {
            write_signed(out, "", '-', &name, &format!("{unwanted}{}", facts(&change.entry, node, is_secret)))?;
            write_parts(out, '-', node, is_whole)
        }
        ChangeKind::Moved { from, to, new, .. } => {
            let more = format!(": was {}, is now {}{}", kind(from), kind(to), facts(&change.entry, new, is_secret));
            write_signed(out, "", '~', &name, &more)?;
            if is_whole { Ok(()) } else { write_bodies(out, None, Some(new), is_secret) }
        }
        ChangeKind::Changed { old, new, fields } => {
            if let [FieldChange { path, old: Some(old), new: Some(new) }] = fields.as_slice()
                && path.is_root()
            {
                return write_signed(out, "", '~', &name, &became(&name, Some(old), Some(new)));
            }
            write_signed(out, "", '~', &name, "")?;
            for field in fields {
                write_field_change(out, field, &change.entry, is_secret)?;
            }
            if is_whole { Ok(()) } else { write_bodies(out, Some(old), Some(new), is_secret) }
        }
    }
}

/// What the entries of a list are.
fn kind(list: &str) -> &str {
    match list {
        "files" => "a file",
        "directories" => "a directory",
        "links" => "a link",
        "shouldExist" => "wanted",
        "shouldNotExist" => "unwanted",
        other => other,
    }
}

/// What else is worth a word about an entry that came or went. `is_secret` is whether its contents are.
fn facts(entry: &Entry<'_>, node: &Node<'_>, is_secret: bool) -> String {
    let Some(map) = node.as_map() else {
        return match entry {
            // The path ends with what it is.
            Entry::Field(path) if path.last_key() != node.as_str() => format!(": {}", shown(&path.to_string(), node)),
            _ => String::new(),
        };
    };
    let mut facts = Vec::new();
    for (key, value) in map.iter() {
        match (key, &value.value) {
            // The name of the entry, what goes without saying, and what has lines of its own.
            ("path" | "name" | "device", _) if entry.to_string().ends_with(value.as_str().unwrap_or_default()) => {}
            ("overwrite", Value::Bool(true)) | ("dropins" | "sshAuthorizedKeys", _) | (_, Value::Null) => {}
            ("mask" | "hard" | "system" | "wipeTable" | "wipeFilesystem", Value::Bool(false)) => {}
            ("contents" | "append" | "keyFile", _) => {}
            ("enabled", Value::Bool(enabled)) => facts.push(if *enabled { "enabled" } else { "disabled" }.to_owned()),
            ("mask", Value::Bool(true)) => facts.push("masked".to_owned()),
            ("target", Value::Str(target)) => facts.push(format!("to {target}")),
            ("passwordHash", _) => facts.push("with a password".to_owned()),
            (key, Value::Bool(true)) => facts.push(key.to_owned()),
            ("user" | "group", Value::Map(owner)) => {
                let who: Vec<String> =
                    owner.iter().map(|(_, id)| id.as_str().map_or_else(|| shown("", id), str::to_owned)).collect();
                facts.push(format!("{key} {}", who.join(" ")));
            }
            (key, _) => facts.push(format!("{key} {}", shown(key, value))),
        }
    }
    for body in bodies(node, is_secret) {
        let label = if body.appended.is_some() { format!("{} ", body.label()) } else { String::new() };
        facts.push(format!("{label}{}", body.summary()));
    }
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

/// What an entry that came or went brings or takes along: the drop-ins of a unit, the keys of a user.
fn write_parts(out: &mut dyn Write, sign: char, node: &Node<'_>, is_whole: bool) -> io::Result<()> {
    let name = node.text_of("name");
    for dropin in node.list_of("dropins") {
        let entry = Entry::Dropin { unit: name, name: dropin.text_of("name") };
        write_signed(out, "", sign, &entry.to_string(), &facts(&entry, dropin, false))?;
        if sign == '+' && !is_whole {
            write_bodies(out, None, Some(dropin), false)?;
        }
    }
    for key in node.list_of("sshAuthorizedKeys").iter().filter_map(Node::as_str) {
        write_signed(out, INDENT, sign, &ssh_key_of(name, key), "")?;
    }
    Ok(())
}

fn ssh_key_of(user: &str, key: &str) -> String {
    let key = ssh_key::described(key).unwrap_or_else(|| terminal::quoted(key));
    format!("SSH key for {user}: {key}")
}

fn write_field_change(
    out: &mut dyn Write,
    change: &FieldChange<'_>,
    entry: &Entry<'_>,
    is_secret: bool,
) -> io::Result<()> {
    let path = change.path.to_string();
    let list = match change.path.0.first() {
        Some(Step::Key(key)) => key.as_str(),
        _ => "",
    };
    // An entry of a list of texts came or went.
    let text = |node: Option<&'_ Node<'_>>| {
        node.and_then(Node::as_str).filter(|text| change.path.last_key() == Some(*text)).map(str::to_owned)
    };
    let item = match (change.old, change.new) {
        (None, new) => text(new).map(|text| ('+', text)),
        (old, None) => text(old).map(|text| ('-', text)),
        _ => None,
    };
    match (item, entry) {
        (Some((sign, key)), Entry::User(user)) if list == "sshAuthorizedKeys" => {
            write_signed(out, INDENT, sign, &ssh_key_of(user, &key), "")
        }
        (Some((sign, text)), _) if change.path.0.len() == 2 => {
            write_signed(out, INDENT, sign, &format!("{list}: {}", terminal::quoted(&text)), "")
        }
        // Below, as a difference of texts.
        _ if is_body_field(&path) => Ok(()),
        // The hash of a short secret gives it away.
        _ if is_secret && path.contains("verification") => writeln!(out, "{INDENT}{path}: {HIDDEN}"),
        _ => {
            writeln!(out, "{INDENT}{}", terminal::sanitized(format!("{path}{}", became(&path, change.old, change.new))))
        }
    }
}

/// Whether a changed field is shown as a difference of texts: sources and contents, not how they are packed.
fn is_body_field(path: &str) -> bool {
    path == "contents" || path == "append" || path.starts_with("append[") || path == "contents.source"
}

fn became(field: &str, old: Option<&Node<'_>>, new: Option<&Node<'_>>) -> String {
    let (old, new) = (shown_or_unset(field, old), shown_or_unset(field, new));
    if old == new && old != HIDDEN {
        return format!(": {old}, {HIDDEN_DIFFERENCE}");
    }
    format!(": {old} → {new}")
}

/// A text of an entry.
struct Body {
    /// Which of the appended ones it is; `None` for the contents.
    appended: Option<usize>,
    /// How it is written, for comparison.
    spelling: String,
    content: Result<Vec<u8>, BodyError>,
    /// Whether it is not to be shown.
    is_secret: bool,
}

impl Body {
    fn label(&self) -> String {
        self.appended.map_or_else(|| "contents".to_owned(), |nth| format!("append[{nth}]"))
    }

    fn summary(&self) -> String {
        match &self.content {
            Ok(bytes) if self.is_secret => secret::summary(bytes),
            Ok(bytes) => contents::summary(bytes),
            Err(BodyError::Remote { url }) => format!("what is at {}", terminal::quoted(url)),
            Err(error) => error.to_string(),
        }
    }
}

/// The texts of an entry: a file's body and what is appended to it, the contents of a unit or a drop-in.
fn bodies(node: &Node<'_>, is_secret: bool) -> Vec<Body> {
    let body = |appended: Option<usize>, node: &Node<'_>| {
        let content = match node.as_str() {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => contents::of_body(node),
        };
        Body { appended, spelling: node.to_json().to_string(), content, is_secret }
    };
    let contents = node.get("contents").filter(|node| node.as_str().is_some() || node.get("source").is_some());
    let appended = node.list_of("append").iter().enumerate().map(|(nth, node)| body(Some(nth), node));
    contents.map(|node| body(None, node)).into_iter().chain(appended).collect()
}

/// Shows how the texts of an entry differ.
fn write_bodies(
    out: &mut dyn Write,
    old: Option<&Node<'_>>,
    new: Option<&Node<'_>>,
    is_secret: bool,
) -> io::Result<()> {
    let bodies = |node| bodies(node, is_secret);
    let mut pairs: BTreeMap<Option<usize>, (Option<Body>, Option<Body>)> = BTreeMap::new();
    for body in old.map(bodies).unwrap_or_default() {
        let pair = pairs.entry(body.appended).or_default();
        pair.0 = Some(body);
    }
    for body in new.map(bodies).unwrap_or_default() {
        let pair = pairs.entry(body.appended).or_default();
        pair.1 = Some(body);
    }
    pairs.into_values().try_for_each(|(old, new)| write_body(out, old.as_ref(), new.as_ref()))
}

fn write_body(out: &mut dyn Write, old: Option<&Body>, new: Option<&Body>) -> io::Result<()> {
    let Some(either) = old.or(new) else { return Ok(()) };
    if old.zip(new).is_some_and(|(old, new)| old.spelling == new.spelling) {
        return Ok(());
    }
    // New contents that are binary or secret are summarized in the line of the entry.
    let is_shown = |bytes: &Vec<u8>| !either.is_secret && contents::text(bytes).is_some();
    if old.is_none() && either.content.as_ref().is_ok_and(|bytes| !is_shown(bytes)) {
        return Ok(());
    }
    let label = either.label();
    let bytes = |body: Option<&Body>| match body.map(|body| &body.content) {
        None => Some(Vec::new()),
        Some(content) => content.as_ref().ok().cloned(),
    };
    match (bytes(old), bytes(new)) {
        (Some(before), Some(after)) if before == after && old.is_some() && new.is_some() => {
            let summary = if either.is_secret { secret::summary(&after) } else { contents::summary(&after) };
            writeln!(out, "{INDENT}{label}: unchanged ({summary}), encoded differently")
        }
        (Some(before), Some(after)) if either.is_secret => {
            writeln!(out, "{INDENT}{label}: {}", secret::difference(&before, &after))
        }
        (Some(before), Some(after)) => {
            if either.appended.is_some() {
                writeln!(out, "{INDENT}{label}:")?;
            }
            contents::write_difference(out, &before, &after, BODY_INDENT)
        }
        _ => {
            let summary = |body: Option<&Body>| body.map_or_else(|| "(unset)".to_owned(), Body::summary);
            let (old, new) = (summary(old), summary(new));
            let text = if old == new { format!("{old}, {HIDDEN_DIFFERENCE}") } else { format!("{old} → {new}") };
            writeln!(out, "{INDENT}{}", terminal::sanitized(format!("{label}: {text}")))
        }
    }
}
