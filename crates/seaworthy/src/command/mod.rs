//! Commands, one module each; `loading` is the first step of those that read manifests.

mod apiserver;
mod controllers;
mod crds;
mod daemon;
mod diff;
mod explain;
mod ignition;
mod lint;
mod loading;
mod manifests;
mod pages;
mod plan;
mod render;
mod rollout;
mod server;
mod up;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Runs a command.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let code = match cli.command {
        Command::Render(options) => render::run(&options)?,
        Command::Explain(options) => explain::run(&options)?,
        Command::Diff(options) => diff::run(&options)?,
        Command::Lint(options) => lint::run(&options)?,
        Command::Plan(options) => plan::run(&options)?,
        Command::Controllers(options) => controllers::run(&options)?,
        Command::Rollout(options) => rollout::run(&options)?,
        Command::Ignition(options) => ignition::run(&options)?,
        Command::Crds(options) => crds::run(&options)?,
        Command::Manifests(options) => manifests::run(&options)?,
        Command::Apiserver(options) => apiserver::run(&options)?,
        Command::Server(options) => server::run(&options)?,
        Command::Daemon(options) => daemon::run(&options)?,
        Command::Up(options) => up::run(&options)?,
        Command::Completions { shell } => pages::completions(shell)?,
        Command::Man { dir, command } => pages::manual(dir.as_deref(), &command)?,
    };
    Ok(ExitCode::from(code))
}
