//! Kubernetes control plane: kube-apiserver, etcd and kubectl are found or built, and started beside our server.
//!
//! - [`binaries`] finds the programs, or builds them once from `tests/kubernetes`.
//! - [`control_plane`] starts them; every flag is there.
//! - [`embedded`] starts ours in the same manner.
//! - [`conformance`] has the steps that run the same suites on both.

pub mod binaries;
mod build;
pub mod conformance;
pub mod control_plane;
pub mod embedded;

use std::path::PathBuf;
use std::{io, thread};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::workspace::Workspace;
use binaries::{Binaries, Policy};
use control_plane::ControlPlane;

/// What `cargo xtask kube` takes.
#[derive(Args)]
pub struct KubeArgs {
    #[command(subcommand)]
    command: Option<KubeCommand>,
}

#[derive(Subcommand)]
enum KubeCommand {
    /// Start etcd, kube-apiserver and kube-controller-manager on this machine; Ctrl-C stops them.
    Up {
        /// Data folder [default: a temporary folder, which is removed at the end].
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Also stop at the end of standard input, for programs that start this.
        #[arg(long)]
        until_stdin_ends: bool,
    },
}

/// `cargo xtask kube`: makes sure that the programs are there, and says where.
pub fn run(workspace: &Workspace, args: KubeArgs) -> Result<bool> {
    let binaries = match Binaries::provide(workspace, Policy::Build)? {
        Ok(binaries) => binaries,
        Err(reason) => bail!("{reason}"),
    };
    match args.command {
        None => print!("{}", binaries.report()?),
        Some(KubeCommand::Up { data, until_stdin_ends }) => up(&binaries, data, until_stdin_ends)?,
    }
    Ok(true)
}

fn up(binaries: &Binaries, data: Option<PathBuf>, until_stdin_ends: bool) -> Result<()> {
    // Blocked before anything starts, so that none is lost while there is something to stop.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD]);
    signals.thread_block()?;
    if until_stdin_ends {
        thread::spawn(|| {
            // An input that cannot be read has ended, too.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            // To the process, not to this thread: the thread that waits for signals gets it.
            kill(Pid::this(), Signal::SIGTERM)
        });
    }
    let mut running = ControlPlane::start(binaries, data)?;
    println!("server:     {}", running.url);
    println!("token:      {}", running.token);
    println!("CA:         {}", running.authority.display());
    println!("kubeconfig: {}", running.kubeconfig.display());
    println!("logs:       {}", running.folder().display());
    println!("Ctrl-C stops it.");
    while signals.wait()? == Signal::SIGCHLD {
        running.check()?;
    }
    println!("Stopping");
    running.stop()
}
