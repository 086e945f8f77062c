//! Completion scripts and manual pages.

use std::io::Write as _;
use std::path::Path;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::failure::{Failure, OK};

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "seaworthy", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(OK)
}

/// Prints the manual page, or writes one page per command.
pub fn manual(dir: Option<&Path>) -> Result<u8, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        std::io::stdout().lock().write_all(&page)?;
        return Ok(OK);
    };
    let cannot =
        |error: std::io::Error| Failure::unreadable(format!("cannot write manual pages to {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(cannot)?;
    Ok(OK)
}
