//! A server that is measured: started, asked until it is ready, weighed, ended.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;

use super::client::Endpoint;
use crate::kube::binaries::Binaries;
use crate::kube::control_plane::ControlPlane;
use crate::kube::embedded::Embedded;

/// How long a server may take to be ready; the real one takes half a minute on a busy machine.
const READY: Duration = Duration::from_secs(180);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(2);

/// A server that runs. It ends when this is dropped.
pub struct Candidate {
    /// How to reach it.
    pub endpoint: Endpoint,
    /// From the start of its first process until it said that it is ready.
    pub started_in: Duration,
    processes: Processes,
}

enum Processes {
    Ours(Embedded),
    Real(ControlPlane),
}

/// Memory in bytes, all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What is resident now.
    pub now: u64,
    /// The most that ever was.
    pub peak: u64,
}

impl Candidate {
    /// `seaworthy apiserver` on what is in this folder, with the log beside it.
    pub async fn ours(program: &Path, folder: &Path) -> Result<Candidate> {
        let begun = Instant::now();
        let server = Embedded::start(program, folder)?;
        let address = server.url.trim_start_matches("https://").parse().context("our server's address")?;
        let (authority, token) = (server.authority.clone(), server.token.clone());
        Candidate::ready(Processes::Ours(server), begun, address, &authority, &token).await
    }

    /// etcd and kube-apiserver in this folder, without controllers.
    pub async fn real(binaries: &Binaries, folder: &Path) -> Result<Candidate> {
        let begun = Instant::now();
        let plane = ControlPlane::begin(binaries, Some(folder.to_path_buf()))?;
        let address = plane.url.trim_start_matches("https://").parse().context("the real server's address")?;
        let (authority, token) = (plane.authority.clone(), plane.token.clone());
        Candidate::ready(Processes::Real(plane), begun, address, &authority, &token).await
    }

    async fn ready(
        mut processes: Processes,
        begun: Instant,
        address: SocketAddr,
        authority: &Path,
        token: &str,
    ) -> Result<Candidate> {
        loop {
            // The authority is made by the server, so it may not be there, or not be complete.
            let failure = match asked(address, authority, token).await {
                Ok(endpoint) => return Ok(Candidate { endpoint, started_in: begun.elapsed(), processes }),
                Err(failure) => failure,
            };
            processes.check()?;
            if begun.elapsed() > READY {
                return Err(failure.context(format!("not ready after {} s", READY.as_secs())));
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// What its processes weigh.
    pub fn memory(&self) -> Result<Memory> {
        let ids = match &self.processes {
            Processes::Ours(server) => vec![server.process_id()],
            Processes::Real(plane) => plane.process_ids(),
        };
        let mut all = Memory::default();
        for id in ids {
            let file = format!("/proc/{id}/status");
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
            let memory =
                Memory::parse(&text).with_context(|| format!("{file} does not say how much memory is used"))?;
            all = Memory { now: all.now + memory.now, peak: all.peak + memory.peak };
        }
        Ok(all)
    }

    /// Ends it in good order.
    pub fn stop(mut self) -> Result<()> {
        self.processes.check()?;
        self.processes.stop()
    }
}

async fn asked(address: SocketAddr, authority: &Path, token: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::new(address, authority, token)?;
    let mut connection = endpoint.connect().await?;
    connection.send(endpoint.request(Method::GET, "/readyz", None)?).await?;
    Ok(endpoint)
}

impl Processes {
    /// Fails if one of them has ended.
    fn check(&mut self) -> Result<()> {
        match self {
            Processes::Real(plane) => plane.check(),
            Processes::Ours(server) => server.check(),
        }
    }

    fn stop(self) -> Result<()> {
        match self {
            Processes::Real(plane) => plane.stop(),
            Processes::Ours(server) => server.stop(),
        }
    }
}

impl Memory {
    /// From what the kernel says about a process.
    fn parse(status: &str) -> Option<Memory> {
        let bytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
        };
        Some(Memory { now: bytes("VmRSS")?, peak: bytes("VmHWM")? })
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn memory_is_read_from_what_the_kernel_says() {
        let status = "Name:\tetcd\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { now: 1_048_576, peak: 2_097_152 }));
        assert_eq!(Memory::parse("Name:\tzombie\n"), None);
    }
}
