//! `seaworthy render`: one rendered MachineConfig per pool.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;

use seaworthy_ignition::Severity;
use seaworthy_ignition::node::{Node, Value};
use seaworthy_manifest::parallel;
use seaworthy_render::{Finding, Merged, Rendered, merge, yaml};

use super::loading;
use crate::cli::{ObjectFormat, Render};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::ManifestSet;
use crate::output::Output;
use crate::terminal;

/// Of many warnings the first are shown; `lint` has them all.
const MAX_SHOWN_WARNINGS: usize = 10;

pub fn run(options: &Render) -> Result<u8, Failure> {
    // The process ends with this command: giving back a million small pieces one by one would take as long as reading
    // them, and the system takes them all at once.
    let texts = ManuallyDrop::new(loading::texts(&options.input)?);
    let set = ManuallyDrop::new(ManifestSet::read(&texts)?);
    let pools = set.pools(&options.pool)?;
    if pools.is_empty() && set.broken_pools(&options.pool).is_empty() {
        return Err(Failure::invalid(set.lacks_pools()));
    }
    if set.lacks_images() {
        terminal::note(
            "no ControllerConfig in the input; assuming a default one: osImageURL is empty unless a MachineConfig \
             sets it, and the names may differ from a cluster's",
        );
    }
    let prepared = ManuallyDrop::new(loading::resolved(&set, &pools, &options.remote)?);
    let context = loading::context(&set, false);
    let mut failed = set.broken_pools(&options.pool);
    let mut notices = Vec::new();
    let mut printer = Printer::new(options.output, Output::new(raw_stdout()?));
    // The name is a digest of everything: as much work as the merge.
    parallel::two_steps(
        &pools,
        |pool| merge(pool, &prepared, &context),
        name,
        |result| match result {
            Ok((rendered, found)) => {
                notices.extend(found);
                printer.print(rendered)
            }
            Err(findings) => {
                failed.extend(findings);
                Ok(())
            }
        },
    )?;
    printer.finish()?;
    // Findings of the inputs come first: a dropped key may explain a later one.
    let of_inputs = prepared.iter().filter(|input| loading::feeds(input, &pools)).flat_map(|input| &input.findings);
    let mut warnings: Vec<Finding> = pools.iter().flat_map(|pool| &pool.findings).chain(of_inputs).cloned().collect();
    if options.pool.is_empty() {
        warnings.extend(loading::unselected(&set, &prepared, &pools));
    }
    warnings.extend(notices);
    warnings.retain(|finding| finding.severity == Severity::Warning);
    loading::report(&warnings[..warnings.len().min(MAX_SHOWN_WARNINGS)], &set);
    if warnings.len() > MAX_SHOWN_WARNINGS {
        terminal::note(&format!(
            "{} more warnings: `seaworthy lint` shows them all",
            warnings.len() - MAX_SHOWN_WARNINGS
        ));
    }
    loading::report(&failed, &set);
    Ok(if failed.is_empty() { EXIT_OK } else { EXIT_FAILED })
}

/// Standard output without the library's buffer, which looks for line ends in all that passes.
fn raw_stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// A result, what is worth knowing about it, or why there is none.
type Outcome<'r, 't> = Result<(ManuallyDrop<Rendered<'r, 't>>, Vec<Finding>), Vec<Finding>>;

fn name<'r, 't>(merged: Result<Merged<'r, 't>, Vec<Finding>>) -> Outcome<'r, 't> {
    let merged = merged?;
    let name = merged.name();
    let rendered = merged.named(name);
    let notices = rendered.notices();
    Ok((ManuallyDrop::new(rendered), notices))
}

/// Prints results as one List, or as names, one after the other.
struct Printer<W: std::io::Write> {
    format: ObjectFormat,
    out: BufWriter<W>,
    printed: usize,
}

impl<W: std::io::Write> Printer<W> {
    fn new(format: ObjectFormat, out: W) -> Self {
        Printer { format, out: BufWriter::with_capacity(1 << 16, out), printed: 0 }
    }

    fn print(&mut self, rendered: ManuallyDrop<Rendered<'_, '_>>) -> io::Result<()> {
        let is_first = self.printed == 0;
        self.printed += 1;
        match self.format {
            ObjectFormat::Name => writeln!(self.out, "{}", rendered.name),
            ObjectFormat::Json => {
                self.out.write_all(if is_first { br#"{"apiVersion":"v1","items":["# } else { b"," })?;
                rendered.write_json(&mut self.out)
            }
            ObjectFormat::Yaml => {
                if is_first {
                    self.out.write_all(b"apiVersion: v1\nitems:\n")?;
                }
                let object = ManuallyDrop::into_inner(rendered).into_manifest();
                yaml::write_bytes(&ManuallyDrop::new(Node::made(Value::List(vec![object]))), &mut self.out)
            }
        }
    }

    fn finish(mut self) -> io::Result<()> {
        match (self.format, self.printed) {
            (ObjectFormat::Name, _) => {}
            (ObjectFormat::Json, 0) => {
                self.out.write_all(b"{\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"List\"}\n")?
            }
            (ObjectFormat::Json, _) => self.out.write_all(b"],\"kind\":\"List\"}\n")?,
            (ObjectFormat::Yaml, 0) => self.out.write_all(b"apiVersion: v1\nitems: []\nkind: List\n")?,
            (ObjectFormat::Yaml, _) => self.out.write_all(b"kind: List\n")?,
        }
        self.out.flush()
    }
}
