//! Completion scripts and manual pages.

use std::io::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::{EXIT_OK, Failure};
use crate::output;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "seaworthy", &mut script);
    output::plain().write_all(&script)?;
    Ok(EXIT_OK)
}

/// Prints the manual page, or writes one page per command.
pub fn manual(dir: Option<&Path>, of: &[String]) -> Result<u8, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, "seaworthy", None, &mut pages)?;
    let Some(dir) = dir else {
        let wanted: String =
            std::iter::once("seaworthy").chain(of.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
        let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
            let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
            let known = names.join(", ");
            return Err(Failure::invalid(format!("no manual page {wanted}; available pages: {known}")));
        };
        output::plain().write_all(page)?;
        return Ok(EXIT_OK);
    };
    let cannot =
        |error: std::io::Error| Failure::invalid(format!("cannot write manual pages to {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    for (name, page) in pages {
        std::fs::write(dir.join(format!("{name}.1")), page).map_err(cannot)?;
    }
    Ok(EXIT_OK)
}

/// The pages of a command and of those below it, by name.
fn collect(
    command: &clap::Command,
    name: &str,
    parent: Option<&str>,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), Failure> {
    let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    let names: Vec<String> = below.iter().map(|below| format!("{name}-{}", below.get_name())).collect();
    let see_also = parent.into_iter().chain(names.iter().map(String::as_str));
    pages.push((name.to_owned(), page(command, name, &see_also.collect::<Vec<_>>())?));
    for (below, below_name) in below.into_iter().zip(&names) {
        collect(below, below_name, Some(name), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str, see_also: &[&str]) -> Result<Vec<u8>, Failure> {
    const EXAMPLES: &str = "Examples:\n";
    let version = command.get_version().unwrap_or_default().to_owned();
    let man = Man::new(command.clone()).title(name).manual("Seaworthy").source(format!("seaworthy {version}"));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_help().map(ToString::to_string) {
        // The library would call it EXTRA.
        let examples = help.strip_prefix(EXAMPLES).unwrap_or(&help);
        write!(page, ".SH EXAMPLES\n.nf\n{}\n.fi\n", escaped(examples))?;
    }
    if !see_also.is_empty() {
        let names: Vec<String> = see_also.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name))).collect();
        write!(page, ".SH SEE ALSO\n{}\n", names.join(", "))?;
    }
    Ok(without_repetition(page))
}

/// The library begins each section with the same two definitions; one time is enough.
fn without_repetition(page: Vec<u8>) -> Vec<u8> {
    const DEFINITIONS: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";
    match String::from_utf8(page) {
        Ok(page) => match page.strip_prefix(DEFINITIONS) {
            Some(rest) => format!("{DEFINITIONS}{}", rest.replace(DEFINITIONS, "")).into_bytes(),
            None => page.into_bytes(),
        },
        Err(error) => error.into_bytes(),
    }
}

/// A text whose signs mean nothing to the typesetter.
fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
