//! `seaworthy rollout history`: the rendered MachineConfigs that a pool targeted.

use std::io::Write as _;

use jiff::Timestamp;
use seaworthy_plan::duration::short;
use seaworthy_plan::history::pin;
use seaworthy_plan::history::revision::{Revision, SourceChange, revisions};
use seaworthy_plan::rendering::targeted;
use seaworthy_values::text::counted;
use serde_json::json;

use super::read;
use crate::cli::{PoolOf, ReportFormat};
use crate::failure::{EXIT_OK, Failure};
use crate::table::Table;
use crate::{output, terminal};

/// Lists the targets of a pool, the newest first, with what changed.
pub async fn run(of: &PoolOf, format: ReportFormat) -> Result<u8, Failure> {
    let (_, cluster, pool) = read(of).await?;
    let all = revisions(&pool, cluster.machine_configs().iter().map(|object| &**object));
    let target = targeted(&pool);
    let finished = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
    let word = |name: &str| match (target == Some(name), finished == Some(name)) {
        (true, _) if pin::name(&pool) == Some(name) => "target, pinned",
        (true, true) => "target, complete",
        (true, false) => "target",
        (false, true) => "last completed",
        (false, false) => "",
    };
    let state = |revision: &Revision<'_>| match (word(revision.name), revision.is_deleting()) {
        (word, false) => word.to_owned(),
        ("", true) => "being deleted".to_owned(),
        (word, true) => format!("{word}, being deleted"),
    };
    if format == ReportFormat::Json {
        let list: Vec<_> = all
            .iter()
            .map(|revision| {
                json!({
                    "name": revision.name,
                    "created": revision.created.map(|time| time.to_string()),
                    "targeted": revision.targeted.map(|time| time.to_string()),
                    "isGoing": revision.is_deleting(),
                    "sources": revision.sources.as_ref().map(|found| found.keys().collect::<Vec<_>>()),
                    "changes": revision.changes,
                    "isTarget": target == Some(revision.name),
                    "isFinished": finished == Some(revision.name),
                })
            })
            .collect();
        writeln!(output::plain(), "{}", seaworthy_manifest::pretty(&json!(list)))?;
        return Ok(EXIT_OK);
    }
    if all.is_empty() {
        terminal::note(&format!("pool {} has no rendered MachineConfig yet", of.pool));
        return Ok(EXIT_OK);
    }
    let now = Timestamp::now();
    let mut table = Table::new(["NAME", "AGE", "CHANGED", "STATE"]);
    for (nth, revision) in all.iter().enumerate() {
        let age = revision.since().map_or_else(String::new, |time| short(now.duration_since(time).as_secs()));
        let changed = match (&revision.changes, &revision.sources) {
            (Some(list), _) if list.is_empty() => "no MachineConfig".to_owned(),
            (Some(list), _) => signed(list),
            (None, Some(sources)) => {
                let of = counted(sources.len(), "MachineConfig");
                if nth == 0 { format!("first on record, from {of}") } else { format!("not recorded, from {of}") }
            }
            (None, None) => "not recorded".to_owned(),
        };
        table.row([terminal::sanitized(revision.name), age, changed, state(revision)]);
    }
    let mut out = output::plain();
    for line in table.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(EXIT_OK)
}

/// Changed MachineConfigs, each with a sign.
pub fn signed(changes: &[SourceChange]) -> String {
    let entries: Vec<String> =
        changes.iter().map(|change| format!("{}{}", change.what.sign(), terminal::sanitized(&change.name))).collect();
    entries.join(", ")
}
