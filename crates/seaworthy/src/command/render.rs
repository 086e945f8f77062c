//! `seaworthy render`.

use std::io::Write as _;
use std::mem::ManuallyDrop;

use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::{Severity, node::Map};
use seaworthy_render::{Finding, Merged, Rendered, merge, yaml};

use super::workspace;
use crate::cli::{ObjectFormat, Render};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::Set;
use crate::{paint, parallel};

/// Of many warnings the first are shown; `lint` has them all.
const SHOWN_WARNINGS: usize = 10;

pub fn run(options: &Render) -> Result<u8, Failure> {
    // The process ends with this command: giving back a million small pieces one by one would take as long as reading
    // them, and the system takes them all at once.
    let texts = ManuallyDrop::new(workspace::texts(&options.input)?);
    let set = ManuallyDrop::new(Set::read(&texts)?);
    let pools = set.pools(&options.pool)?;
    if pools.is_empty() && set.broken_pools(&options.pool).is_empty() {
        return Err(Failure::unreadable(set.lacks_pools()));
    }
    let prepared = ManuallyDrop::new(workspace::resolved(&set, &pools, &options.remote)?);
    let context = workspace::context(&set, false);
    // Merging first, then the names, which are a digest of everything: so all cores are busy most of the time.
    let mut failed = set.broken_pools(&options.pool);
    let mut merged = Vec::new();
    for result in parallel::map_few(&pools, |pool| merge(pool, &prepared, &context)) {
        match result {
            Ok(pool) => merged.push(pool),
            Err(findings) => failed.extend(findings),
        }
    }
    let names = parallel::map_few(&merged, Merged::name);
    let rendered: Vec<_> = merged.into_iter().zip(names).map(|(merged, name)| merged.named(name)).collect();
    let rendered = ManuallyDrop::new(rendered);
    print(&rendered, options.output)?;
    // What the inputs themselves have to say comes first: a key that is dropped explains the error that follows.
    let of_inputs = prepared.iter().filter(|input| workspace::feeds(input, &pools)).flat_map(|input| &input.findings);
    let mut warnings: Vec<Finding> = pools.iter().flat_map(|pool| &pool.findings).chain(of_inputs).cloned().collect();
    if options.pool.is_empty() {
        warnings.extend(workspace::unselected(&set, &prepared, &pools));
    }
    warnings.extend(rendered.iter().flat_map(Rendered::notices));
    warnings.retain(|finding| finding.severity == Severity::Warning);
    workspace::report(&warnings[..warnings.len().min(SHOWN_WARNINGS)], &set);
    if warnings.len() > SHOWN_WARNINGS {
        paint::note(&format!("{} more warnings: `seaworthy lint` shows them all", warnings.len() - SHOWN_WARNINGS));
    }
    workspace::report(&failed, &set);
    Ok(if failed.is_empty() { OK } else { WRONG })
}

/// Prints the results as one List, or as names.
fn print(results: &[Rendered<'_, '_>], format: ObjectFormat) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match format {
        ObjectFormat::Name => {
            for rendered in results {
                writeln!(out, "{}", rendered.name)?;
            }
        }
        ObjectFormat::Json => {
            out.write_all(br#"{"apiVersion":"v1","items":["#)?;
            for (nth, rendered) in results.iter().enumerate() {
                if nth > 0 {
                    out.write_all(b",")?;
                }
                rendered.write_json(&mut out)?;
            }
            out.write_all(b"],\"kind\":\"List\"}\n")?;
        }
        ObjectFormat::Yaml if results.is_empty() => {
            out.write_all(yaml::to_string(&empty_list()).as_bytes())?;
        }
        ObjectFormat::Yaml => {
            out.write_all(b"apiVersion: v1\nitems:\n")?;
            for rendered in results {
                let item = Node::made(Value::List(vec![rendered.object()]));
                out.write_all(yaml::to_string(&item).as_bytes())?;
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
