//! `seaworthy render`.

use std::io::Write as _;

use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::{Severity, node::Map};
use seaworthy_render::{Finding, Pool, Prepared, render, yaml};

use super::workspace;
use crate::cli::{ObjectFormat, Render};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::Set;
use crate::{paint, parallel};

/// Of many warnings the first are shown; `lint` has them all.
const SHOWN_WARNINGS: usize = 10;

/// A pool's outcome, ready to be printed.
struct Outcome {
    text: String,
    warnings: Vec<Finding>,
}

pub fn run(options: &Render) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
    let set = Set::read(&texts)?;
    let pools = set.pools(&options.pool)?;
    if pools.is_empty() && set.broken_pools.is_empty() {
        return Err(Failure::unreadable(
            "there is nothing to render: no MachineConfigPool, and no MachineConfig with a role, in the input",
        ));
    }
    let prepared = workspace::prepared(&set, Some(&options.remote))?;
    let context = workspace::context(&set, false);
    let outcomes = parallel::map_few(&pools, |pool| one(pool, &prepared, &context, options.output));

    let mut failed = set.broken_pools.clone();
    let mut done = Vec::new();
    let mut warnings = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => {
                warnings.extend(outcome.warnings);
                done.push(outcome.text);
            }
            Err(findings) => failed.extend(findings),
        }
    }
    print(&done, options.output)?;
    workspace::report(&warnings[..warnings.len().min(SHOWN_WARNINGS)], &set);
    if warnings.len() > SHOWN_WARNINGS {
        paint::note(&format!("{} more warnings: `seaworthy lint` shows them all", warnings.len() - SHOWN_WARNINGS));
    }
    workspace::report(&failed, &set);
    Ok(if failed.is_empty() { OK } else { WRONG })
}

fn one(
    pool: &Pool,
    prepared: &[Prepared<'_>],
    context: &seaworthy_render::Context,
    format: ObjectFormat,
) -> Result<Outcome, Vec<Finding>> {
    let rendered = render(pool, prepared, context)?;
    let json = rendered.to_json();
    let mut warnings = rendered.notices(json.len());
    warnings.retain(|finding| finding.severity == Severity::Warning);
    let text = match format {
        ObjectFormat::Json => json,
        ObjectFormat::Name => rendered.name.clone(),
        ObjectFormat::Yaml => {
            let list = Node::made(Value::List(vec![rendered.object()]));
            yaml::to_string(&list)
        }
    };
    Ok(Outcome { text, warnings })
}

/// Prints the results as one List, or as names.
fn print(results: &[String], format: ObjectFormat) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match format {
        ObjectFormat::Name => {
            for name in results {
                writeln!(out, "{name}")?;
            }
        }
        ObjectFormat::Json => {
            out.write_all(br#"{"apiVersion":"v1","items":["#)?;
            for (nth, json) in results.iter().enumerate() {
                if nth > 0 {
                    out.write_all(b",")?;
                }
                out.write_all(json.as_bytes())?;
            }
            out.write_all(b"],\"kind\":\"List\"}\n")?;
        }
        ObjectFormat::Yaml if results.is_empty() => {
            out.write_all(yaml::to_string(&empty_list()).as_bytes())?;
        }
        ObjectFormat::Yaml => {
            out.write_all(b"apiVersion: v1\nitems:\n")?;
            for item in results {
                out.write_all(item.as_bytes())?;
            }
            out.write_all(b"kind: List\n")?;
        }
    }
    out.flush()?;
    Ok(())
}

fn empty_list() -> Node<'static> {
    let entry = |key: &'static str, value| (key.into(), Node::made(value));
    Node::made(Value::Map(Map(vec![
        entry("apiVersion", Value::Str("v1".into())),
        entry("items", Value::List(Vec::new())),
        entry("kind", Value::Str("List".into())),
    ])))
}
