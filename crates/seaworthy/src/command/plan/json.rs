//! Plan as JSON.

use std::io::Write as _;

use seaworthy_change::ObjectRef;
use seaworthy_ignition::Severity;
use seaworthy_machineconfig::preview::PoolPreview;
use seaworthy_manifest::{EntryPart, FileLocation};
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_preview::{AdmissionIssue, PreviewProblem};
use seaworthy_render::Finding;
use serde_json::{Value, json};

use super::report::{PlanReport, code, comparison, name_of, part_of};
use crate::display::outlook;
use crate::failure::Failure;
use crate::output;

/// Prints a plan.
pub fn print(report: &PlanReport<'_>) -> Result<(), Failure> {
    let preview = &report.preview;
    let pool = |pool: &PoolPreview| {
        let mut value = outlook::to_json(&pool.name, &pool.outlook);
        value["before"] = json!(pool.before.as_ref().map(|object| name_of(object)));
        value["after"] = json!(pool.after.as_ref().map(|object| name_of(object)));
        value["diff"] = comparison(pool).json().0;
        value["failure"] = json!(
            pool.failure
                .as_ref()
                .map(|failure| { json!({"reason": failure.reason.as_str(), "message": failure.message}) })
        );
        value["findings"] = pool.findings.iter().map(Finding::to_json).collect();
        for node in value["nodes"].as_array_mut().into_iter().flatten() {
            let caused = pool.moved_nodes.get(node["node"].as_str().unwrap_or_default());
            node["byManifests"] = caused.is_some().into();
            if let Some(from) = caused {
                node["poolBefore"] = json!(from);
            }
        }
        value
    };
    let unassigned = |waiting: &Waiting| {
        let mut value = outlook::waiting_json(waiting);
        value["poolBefore"] = json!(preview.newly_unassigned.get(&waiting.node));
        value
    };
    let placed = |mut value: Value, found: Option<FileLocation<'_>>| {
        if let Some(FileLocation { file, position }) = found {
            value["file"] = file.into();
            if let Some((line, column)) = position {
                value["line"] = line.into();
                value["column"] = column.into();
            }
        }
        value
    };
    let objection = |objection: &AdmissionIssue| {
        let value = json!({
            "code": code(objection),
            "severity": Severity::Error.to_string(),
            "object": objection.subject(),
            "path": objection.path,
            "message": objection.message,
        });
        placed(value, report.file(&objection.object, &objection.path, part_of(objection)))
    };
    let problem = |problem: &PreviewProblem| {
        let file = |object: &ObjectRef| report.file(object, &problem.path, EntryPart::Value);
        placed(outlook::problem_json(problem), problem.object.as_ref().and_then(file))
    };
    let value = json!({
        "manifests": report.objections.iter().map(objection).collect::<Vec<_>>(),
        "findings": preview.unselected.iter().map(Finding::to_json).collect::<Vec<_>>(),
        "withoutPool": preview.without_pool.iter().map(unassigned).collect::<Vec<_>>(),
        "pools": preview.pools.iter().map(pool).collect::<Vec<_>>(),
        "problems": preview.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", seaworthy_manifest::pretty(&value))?;
    Ok(())
}
