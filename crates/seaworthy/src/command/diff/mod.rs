//! `seaworthy diff`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path as FilePath, PathBuf};

use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_fetch::Digest;
use seaworthy_ignition::body::bytes_of;
use seaworthy_ignition::diff::{FieldChange, What};
use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::{Change, diff};
use seaworthy_render::{MachineConfig, Prepared, render};
use similar::TextDiff;

use super::workspace;
use crate::cli::{Diff, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::{Inputs, Set, load};
use crate::paint;

/// Bodies are unpacked for comparison up to this size.
const LARGEST_BODY: u64 = 16 * 1024 * 1024;

/// The fields of a MachineConfig's spec that hold one value.
const SCALARS: [&str; 4] = ["osImageURL", "baseOSExtensionsContainerImage", "kernelType", "fips"];

/// What one side puts on machines, by pool.
type Side = BTreeMap<String, Outcome>;

/// What a pool's machines get.
struct Outcome {
    name: String,
    spec: Node<'static>,
}

pub fn run(options: &Diff) -> Result<u8, Failure> {
    let [old, new] = options.files.as_slice() else {
        let times = match options.files.len() {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        return Err(Failure::unreadable(format!("-f is given {times}; give it twice: the old side and the new one")));
    };
    let (old, new) = match (side(options, old)?, side(options, new)?) {
        (Some(old), Some(new)) => (old, new),
        _ => return Ok(crate::failure::UNREADABLE),
    };
    let (old, new) = align(old, new);
    let pools: Vec<&String> = old.keys().chain(new.keys().filter(|pool| !old.contains_key(*pool))).collect();
    let mut reports = Vec::new();
    for pool in pools {
        reports.push(Report { pool, old: old.get(pool), new: new.get(pool) });
    }
    let differs = match options.output {
        ReportFormat::Json => print_json(&reports)?,
        ReportFormat::Text => print_text(&reports)?,
    };
    Ok(if differs { WRONG } else { OK })
}

/// Two single objects are compared with each other, whatever pools they are for.
fn align(mut old: Side, new: Side) -> (Side, Side) {
    if let (1, 1, Some(from), Some(to)) = (old.len(), new.len(), old.keys().next().cloned(), new.keys().next().cloned())
        && from != to
        && let Some(outcome) = old.remove(&from)
    {
        old.insert(to, outcome);
    }
    (old, new)
}

/// Reads one side. `None` when a pool cannot be rendered, which is said.
fn side(options: &Diff, file: &FilePath) -> Result<Option<Side>, Failure> {
    let files: [PathBuf; 1] = [file.to_owned()];
    let texts = load(&Inputs { files: &files, recursive: options.recursive, max_mib: options.max_input })?;
    let set = Set::read(&texts)?;
    if set.pools.is_empty() && set.broken_pools(&options.pool).is_empty() {
        let prepared = workspace::prepared(&set);
        let is_result = |input: &&Prepared<'_>| input.source.is_rendered();
        let rendered: Vec<&Prepared<'_>> = prepared.iter().filter(is_result).collect();
        if !rendered.is_empty() && rendered.len() == prepared.len() {
            return finished(&rendered, &set, file);
        }
        if let [only] = prepared.as_slice() {
            return finished(&[only], &set, file);
        }
    }
    let pools = set.pools(&options.pool)?;
    let prepared = workspace::resolved(&set, &pools, &options.remote)?;
    let context = workspace::context(&set, false);
    let mut side = Side::new();
    let mut failed = set.broken_pools(&options.pool);
    for pool in &pools {
        match render(pool, &prepared, &context) {
            Ok(rendered) => {
                let outcome = Outcome { name: rendered.name.clone(), spec: rendered.spec.clone().into_owned() };
                side.insert(pool.name.clone(), outcome);
            }
            Err(findings) => failed.extend(findings),
        }
    }
    if side.is_empty() && failed.is_empty() {
        return Err(Failure::unreadable(format!("there is nothing to compare in {}", file.display())));
    }
    workspace::report(&failed, &set);
    Ok(failed.is_empty().then_some(side))
}

/// Objects that are compared as they are.
fn finished(inputs: &[&Prepared<'_>], set: &Set<'_>, file: &FilePath) -> Result<Option<Side>, Failure> {
    let mut side = Side::new();
    for input in inputs {
        if !input.is_valid() {
            workspace::report(&input.findings, set);
            return Ok(None);
        }
        let pool = pool_of(input.source);
        let outcome = Outcome { name: input.source.name().to_owned(), spec: spec_of(input) };
        if let Some(other) = side.insert(pool.clone(), outcome) {
            return Err(Failure::unreadable(format!(
                "{} has several rendered MachineConfigs of pool {pool}: {} and {}; give one of them",
                file.display(),
                other.name,
                input.source.name()
            )));
        }
    }
    Ok(Some(side))
}

/// The pool that a rendered MachineConfig is for.
fn pool_of(source: &MachineConfig<'_>) -> String {
    if let Some(owner) = source.owner().filter(|owner| owner.kind == "MachineConfigPool") {
        return owner.name.to_owned();
    }
    let name = source.name();
    let pool = name.strip_prefix(RENDERED_PREFIX).and_then(|rest| rest.rsplit_once('-'));
    pool.map_or(name, |(pool, _)| pool).to_owned()
}

/// The spec of an object, its Ignition config in the version that everything is compared in.
fn spec_of(input: &Prepared<'_>) -> Node<'static> {
    let spec = input.source.object().get("spec").cloned().map(Node::into_owned);
    let mut spec = spec.unwrap_or_else(|| Node::made(Value::Map(Default::default())));
    if let (Some(map), Some(config)) = (spec.as_map_mut(), &input.config) {
        map.set("config", config.clone().into_owned());
    }
    spec
}

/// A pool on both sides.
struct Report<'s> {
    pool: &'s str,
    old: Option<&'s Outcome>,
    new: Option<&'s Outcome>,
}

/// A difference beside the Ignition config.
enum FieldDifference<'n> {
    Scalar { field: &'static str, old: Option<&'n Node<'n>>, new: Option<&'n Node<'n>> },
    Item { list: &'static str, sign: char, text: &'n str },
    Order { list: &'static str },
}

impl<'s> Report<'s> {
    fn config_changes(&self, empty: &'s Node<'static>) -> Vec<Change<'s>> {
        let config =
            |outcome: Option<&'s Outcome>| outcome.and_then(|outcome| outcome.spec.get("config")).unwrap_or(empty);
        let mut changes = diff(config(self.old), config(self.new));
        // Every rendered config has the same version; of others it says nothing about the machine.
        changes.retain(|change| change.entry.to_string() != "ignition.version");
        changes
    }

    fn field_differences(&self) -> Vec<FieldDifference<'s>> {
        let field = |outcome: Option<&'s Outcome>, key: &str| -> Option<&'s Node<'s>> {
            let node: &'s Node<'s> = outcome?.spec.get(key)?;
            Some(node).filter(|node| !node.is_null() && node.as_str() != Some(""))
        };
        let mut differences = Vec::new();
        for key in SCALARS {
            let (old, new) = (field(self.old, key), field(self.new, key));
            if old != new {
                differences.push(FieldDifference::Scalar { field: key, old, new });
            }
        }
        for list in ["kernelArguments", "extensions"] {
            let items = |outcome: Option<&'s Outcome>| -> Vec<&'s str> {
                let node = field(outcome, list).and_then(Node::as_list).unwrap_or_default();
                node.iter().filter_map(Node::as_str).collect()
            };
            list_differences(list, &items(self.old), &items(self.new), &mut differences);
        }
        differences
    }
}

fn list_differences<'n>(list: &'static str, old: &[&'n str], new: &[&'n str], out: &mut Vec<FieldDifference<'n>>) {
    let mut left = new.to_vec();
    let before = out.len();
    for text in old {
        match left.iter().position(|other| other == text) {
            Some(at) => drop(left.remove(at)),
            None => out.push(FieldDifference::Item { list, sign: '-', text }),
        }
    }
    out.extend(left.into_iter().map(|text| FieldDifference::Item { list, sign: '+', text }));
    if out.len() == before && old != new {
        out.push(FieldDifference::Order { list });
    }
}

fn noun(list: &str) -> &'static str {
    if list == "kernelArguments" { "kernel argument" } else { "extension" }
}

fn print_text(reports: &[Report<'_>]) -> Result<bool, Failure> {
    let empty = Node::empty_config("3.5.0");
    let mut out = anstream::stdout().lock();
    let bold = anstyle::Style::new().bold();
    let mut differs = false;
    for report in reports {
        let (changes, fields) = (report.config_changes(&empty), report.field_differences());
        if changes.is_empty() && fields.is_empty() && report.old.is_some() == report.new.is_some() {
            continue;
        }
        if std::mem::replace(&mut differs, true) {
            writeln!(out)?;
        }
        let name = |outcome: Option<&Outcome>| outcome.map_or("(none)".to_owned(), |outcome| outcome.name.clone());
        let heading = format!("{}: {} → {}", report.pool, name(report.old), name(report.new));
        writeln!(out, "{bold}{}{bold:#}", paint::plain(heading))?;
        for field in &fields {
            write_field(&mut out, field)?;
        }
        for change in &changes {
            write_change(&mut out, change)?;
        }
    }
    if !differs {
        paint::note("no difference");
    }
    Ok(differs)
}

fn write_field(out: &mut impl std::io::Write, field: &FieldDifference<'_>) -> std::io::Result<()> {
    let shown = |node: &Option<&Node<'_>>| node.map_or("(unset)".to_owned(), short);
    match field {
        FieldDifference::Scalar { field, old, new } => writeln!(out, "~ {field}: {} → {}", shown(old), shown(new)),
        FieldDifference::Item { list, sign, text } => {
            let style = line_style(*sign);
            writeln!(out, "{style}{sign} {} {}{style:#}", noun(list), paint::plain(text))
        }
        FieldDifference::Order { list } => writeln!(out, "~ {}s: the same ones in another order", noun(list)),
    }
}

fn write_change(out: &mut impl std::io::Write, change: &Change<'_>) -> std::io::Result<()> {
    let heading = |out: &mut dyn std::io::Write, sign: char, more: &str| {
        let style = line_style(sign);
        writeln!(out, "{style}{sign} {}{style:#}{more}", paint::plain(&change.entry))
    };
    match &change.what {
        What::Added(node) => {
            heading(out, '+', &facts(node))?;
            write_bodies(out, None, Some(node))
        }
        What::Removed(node) => heading(out, '-', &facts(node)),
        What::Moved { from, to, .. } => heading(out, '~', &format!(": was one of {from}, is one of {to}")),
        What::Changed { old, new, fields } => {
            heading(out, '~', "")?;
            for field in fields {
                write_field_change(out, field)?;
            }
            write_bodies(out, Some(old), Some(new))
        }
    }
}

/// What else is worth a word about an entry that came or went.
fn facts(node: &Node<'_>) -> String {
    let mut facts = Vec::new();
    if let Some(mode) = node.int_of("mode") {
        facts.push(format!("mode 0{mode:o}"));
    }
    if let Some(target) = node.str_of("target") {
        facts.push(format!("to {target}"));
    }
    if let Some(enabled) = node.bool_of("enabled") {
        facts.push(if enabled { "enabled" } else { "disabled" }.to_owned());
    }
    if node.bool_of("mask") == Some(true) {
        facts.push("masked".to_owned());
    }
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

/// Whether a changed field is shown as a difference of texts below: sources and contents, not how they are packed.
fn is_body_field(path: &str) -> bool {
    path == "contents" || path == "append" || path.starts_with("append[") || path.ends_with(".source")
}

fn write_field_change(out: &mut impl std::io::Write, change: &FieldChange<'_>) -> std::io::Result<()> {
    let path = change.path.to_string();
    if is_body_field(&path) || change.path.is_root() {
        return Ok(());
    }
    let shown = |node: Option<&Node<'_>>| match node {
        None => "(unset)".to_owned(),
        // The value of a header is a password more often than not; that it has changed says enough.
        Some(_) if path.contains("httpHeaders") => "(hidden)".to_owned(),
        Some(node) => match (node.as_int(), path.as_str()) {
            (Some(mode), "mode") => format!("0{mode:o}"),
            _ => short(node),
        },
    };
    writeln!(out, "    {}", paint::plain(format!("{path}: {} → {}", shown(change.old), shown(change.new))))
}

/// Shows how the texts of an entry differ: a file's body and what is appended to it, a unit's contents, drop-ins.
fn write_bodies(out: &mut impl std::io::Write, old: Option<&Node<'_>>, new: Option<&Node<'_>>) -> std::io::Result<()> {
    let bodies = |node: Option<&Node<'_>>| -> Vec<Vec<u8>> {
        let Some(node) = node else { return Vec::new() };
        if let Some(text) = node.str_of("contents") {
            return vec![text.as_bytes().to_vec()];
        }
        let body = |node: &Node<'_>| match bytes_of(node, LARGEST_BODY) {
            Ok(bytes) => bytes.into_owned(),
            Err(error) => format!("({error})\n").into_bytes(),
        };
        node.get("contents").into_iter().chain(node.list_of("append")).map(body).collect()
    };
    let (old, new) = (bodies(old), bodies(new));
    for nth in 0..old.len().max(new.len()) {
        let side = |bodies: &[Vec<u8>]| bodies.get(nth).cloned().unwrap_or_default();
        let (old, new) = (side(&old), side(&new));
        if old == new {
            continue;
        }
        match (std::str::from_utf8(&old), std::str::from_utf8(&new)) {
            (Ok(old), Ok(new)) if !old.contains('\0') && !new.contains('\0') => {
                write_text_difference(out, old, new, "      ")?;
            }
            _ => writeln!(out, "      {} → {}", digest(&old), digest(&new))?,
        }
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(nothing)".to_owned();
    }
    format!("{} bytes, {}", bytes.len(), Digest::sha256(bytes))
}

fn short(node: &Node<'_>) -> String {
    match &node.value {
        Value::Str(text) => paint::quoted(text),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        _ => {
            let json = node.to_json().to_string();
            if json.chars().count() > 80 { format!("{}…", json.chars().take(80).collect::<String>()) } else { json }
        }
    }
}

fn print_json(reports: &[Report<'_>]) -> Result<bool, Failure> {
    let empty = Node::empty_config("3.5.0");
    let mut differs = false;
    let mut pools = Vec::new();
    for report in reports {
        let changes: Vec<serde_json::Value> = report
            .field_differences()
            .iter()
            .map(field_json)
            .chain(report.config_changes(&empty).iter().map(change_json))
            .collect();
        differs |= !changes.is_empty() || report.old.is_some() != report.new.is_some();
        pools.push(serde_json::json!({
            "pool": report.pool,
            "old": report.old.map(|outcome| outcome.name.as_str()),
            "new": report.new.map(|outcome| outcome.name.as_str()),
            "changes": changes,
        }));
    }
    let json = serde_json::json!({"differs": differs, "pools": pools});
    let json = serde_json::to_string_pretty(&json).map_err(Failure::unreadable)?;
    writeln!(std::io::stdout().lock(), "{json}")?;
    Ok(differs)
}

fn field_json(field: &FieldDifference<'_>) -> serde_json::Value {
    let value = |node: &Option<&Node<'_>>| node.map(Node::to_json);
    match field {
        FieldDifference::Scalar { field, old, new } => {
            serde_json::json!({"subject": field, "change": "changed", "old": value(old), "new": value(new)})
        }
        FieldDifference::Item { list, sign, text } => {
            let change = if *sign == '+' { "added" } else { "removed" };
            serde_json::json!({"subject": format!("{} {text}", noun(list)), "change": change})
        }
        FieldDifference::Order { list } => serde_json::json!({"subject": list, "change": "reordered"}),
    }
}

fn change_json(change: &Change<'_>) -> serde_json::Value {
    let subject = change.entry.to_string();
    match &change.what {
        What::Added(node) => serde_json::json!({"subject": subject, "change": "added", "new": node.to_json()}),
        What::Removed(node) => serde_json::json!({"subject": subject, "change": "removed", "old": node.to_json()}),
        What::Moved { from, to, old, new } => serde_json::json!({
            "subject": subject, "change": "moved", "from": from, "to": to, "old": old.to_json(), "new": new.to_json(),
        }),
        What::Changed { fields, .. } => {
            let fields: Vec<serde_json::Value> = fields
                .iter()
                .map(|field| {
                    serde_json::json!({
                        "path": field.path.to_string(),
                        "old": field.old.map(Node::to_json),
                        "new": field.new.map(Node::to_json),
                    })
                })
                .collect();
            serde_json::json!({"subject": subject, "change": "changed", "fields": fields})
        }
    }
}

/// The style of lines that are gone and lines that are new.
fn line_style(sign: char) -> anstyle::Style {
    match sign {
        '-' => anstyle::AnsiColor::Red.on_default(),
        '+' => anstyle::AnsiColor::Green.on_default(),
        _ => anstyle::Style::new(),
    }
}

/// Writes the lines that differ, with a few around them.
pub fn write_text_difference(
    out: &mut impl std::io::Write,
    before: &str,
    after: &str,
    indent: &str,
) -> std::io::Result<()> {
    let diff = TextDiff::from_lines(before, after);
    for (nth, group) in diff.grouped_ops(2).iter().enumerate() {
        if nth > 0 {
            writeln!(out, "{indent}…")?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                similar::ChangeTag::Delete => '-',
                similar::ChangeTag::Insert => '+',
                similar::ChangeTag::Equal => ' ',
            };
            let style = line_style(sign);
            let line = change.value().trim_end_matches('\n');
            writeln!(out, "{indent}{style}{sign}{}{style:#}", paint::plain(line))?;
        }
    }
    Ok(())
}
