//! xtask, the developer commands: `cargo xtask test`, `lint`, `layering`, `kube`, `fuzz` and `bench`.
//!
//! - `cargo xtask test` runs every check: it installs what the suites need, runs them all, and ends with what
//!   failed, what was skipped and why.
//! - A check is a [`step::Step`]; a new suite becomes one more row in [`suite::STEPS`].
//! - Nothing here depends on a crate of the product, so that a product that does not compile can still be linted.

mod background_build;
mod bench;
mod enums;
mod fuzz;
mod kube;
mod layering;
mod links;
mod lint;
mod markdown;
mod metadata;
mod openapi;
mod picture;
mod process;
mod protobuf;
mod skips;
mod step;
mod suite;
mod table;
#[cfg(test)]
mod test_programs;
mod test_result;
mod tool;
mod tree;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Builds, checks and measures Seaworthy", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the suites need and run all of them.
    Test(suite::TestArgs),
    /// Check formatting, lints, licences and the layering of the crates.
    Lint,
    /// Check which crate may depend on which.
    Layering,
    /// Check public texts for words that are not used here, and name the alternatives.
    Words,
    /// Draw the README's tour as docs/images/tour.svg.
    Picture,
    /// Trim Kubernetes' published API documents to what is served.
    Openapi(openapi::OpenapiArgs),
    /// Fetch the enum values of fields from the real kube-apiserver.
    Enums,
    /// Find or build the real kube-apiserver, etcd and kubectl, or start them.
    Kube(kube::KubeArgs),
    /// Generate the protobuf table of the kinds that are served.
    Protobuf(protobuf::ProtobufArgs),
    /// Fuzz a parser of untrusted input.
    Fuzz(fuzz::FuzzArgs),
    /// Measure the release binary.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `Ok(false)` is a failed check; an error is a check that could not run.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Test(args) => suite::test(&Workspace::load()?, &args),
        Command::Lint => suite::lint(&Workspace::load()?),
        Command::Layering => suite::layering(&Workspace::load()?),
        Command::Words => words::run(&Workspace::load()?),
        Command::Picture => picture::run(&Workspace::load()?),
        Command::Openapi(args) => openapi::run(&Workspace::load()?, &args),
        Command::Enums => enums::run(&Workspace::load()?),
        Command::Kube(args) => kube::run(&Workspace::load()?, args),
        Command::Protobuf(args) => protobuf::run(&Workspace::load()?, &args),
        Command::Fuzz(args) => fuzz::run(&Workspace::load()?, &args),
        Command::Bench(command) => bench::run(command),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
