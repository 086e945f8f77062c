//! Candidate: a server under measurement, from its start until it is stopped.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;

use super::super::memory::Memory;
use super::client::Endpoint;
use crate::kube::binaries::Binaries;
use crate::kube::control_plane::ControlPlane;
use crate::kube::embedded::Embedded;

/// How long a server may take to be ready; the real one takes half a minute on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A server that runs. It ends when this is dropped.
pub struct Candidate {
    /// How to reach it.
    pub endpoint: Endpoint,
    /// From the start of its first process until it was ready.
    pub started_in: Duration,
    processes: Processes,
}

enum Processes {
    Ours(Embedded),
    Real(ControlPlane),
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
            let failure = match probe(address, authority, token).await {
                Ok(endpoint) => return Ok(Candidate { endpoint, started_in: begun.elapsed(), processes }),
                Err(failure) => failure,
            };
            processes.check()?;
            if begun.elapsed() > READY_TIMEOUT {
                return Err(failure.context(format!("not ready after {} s", READY_TIMEOUT.as_secs())));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Memory of its processes.
    pub fn memory(&self) -> Result<Memory> {
        let ids = match &self.processes {
            Processes::Ours(server) => vec![server.process_id()],
            Processes::Real(plane) => plane.process_ids(),
        };
        Memory::of(&ids)
    }

    /// Shuts it down.
    pub fn stop(mut self) -> Result<()> {
        self.processes.check()?;
        self.processes.stop()
    }
}

async fn probe(address: SocketAddr, authority: &Path, token: &str) -> Result<Endpoint> {
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
