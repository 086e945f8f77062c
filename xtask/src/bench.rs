//! Benchmarks of release builds: time and memory of `render`, of `apiserver`, of the Ignition endpoint, of `daemon` and of a
//! roll-out, instruction counts of the hot paths, and the comparison of two commits.

mod apiserver;
mod baseline;
pub mod binary;
mod build;
mod commit;
mod compare;
mod daemon;
mod folder;
mod input;
pub mod instructions;
mod limits;
mod machine;
mod measurement;
mod memory;
mod page;
mod parse;
mod render;
mod rollout;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use crate::workspace::Workspace;

/// What `cargo xtask bench` takes.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// Time and peak memory of `seaworthy render`, against a plain parse of the same bytes.
    Render(render::RenderArgs),
    /// Speed, memory and start of `seaworthy apiserver`, against kube-apiserver with etcd.
    Apiserver(apiserver::ApiserverArgs),
    /// Speed and memory of `seaworthy server`, against nginx with the same bytes.
    Serve(serve::ServeArgs),
    /// Time, memory and idle processor time of `seaworthy daemon`, against plain writes of the same files.
    Daemon(daemon::DaemonArgs),
    /// Cost of rolling a change out to a fleet: decisions, writes, CPU time, memory.
    Rollout(rollout::RolloutArgs),
    /// Time, packages and size of builds from nothing, with the slowest crates and tests.
    Build(build::BuildArgs),
    /// Every bench on this checkout and on one of another commit, in turns.
    Compare(compare::CompareArgs),
    /// Instruction counts under callgrind, against the recorded ones.
    Instructions(instructions::InstructionsArgs),
    /// Time the parse of a JSON file into a generic value, in a process of its own.
    #[command(hide = true)]
    ParseValue {
        /// The file.
        file: PathBuf,
    },
    /// Run a command once and print its wall time and peak memory.
    #[command(hide = true)]
    Measure {
        /// The command.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

/// `cargo xtask bench …`.
pub fn run(command: BenchCommand) -> Result<bool> {
    match command {
        BenchCommand::Render(args) => render::run(&Workspace::load()?, &args),
        BenchCommand::Apiserver(args) => apiserver::run(&Workspace::load()?, &args),
        BenchCommand::Serve(args) => serve::run(&Workspace::load()?, &args),
        BenchCommand::Daemon(args) => daemon::run(&Workspace::load()?, &args),
        BenchCommand::Rollout(args) => rollout::run(&Workspace::load()?, &args),
        BenchCommand::Build(args) => build::run(&Workspace::load()?, &args),
        BenchCommand::Compare(args) => compare::run(&Workspace::load()?, &args),
        BenchCommand::Instructions(args) => instructions::run(&Workspace::load()?, &args),
        BenchCommand::ParseValue { file } => {
            println!("{}", parse::nanoseconds(&file)?);
            Ok(true)
        }
        BenchCommand::Measure { command } => measurement::measure(&command),
    }
}
