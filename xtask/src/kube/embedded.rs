//! Embedded API server as users run it: the program `seaworthy apiserver`, over TLS, with a token file.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::kube::control_plane::{random, write_secret};
use crate::process::{self, bound_to_this_process};

const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A server that runs. It ends when this is dropped.
pub struct Embedded {
    /// Where it is.
    pub url: String,
    /// The token of an administrator.
    pub token: String,
    /// The authority behind its certificate, in PEM.
    pub authority: PathBuf,
    pub kubeconfig: PathBuf,
    child: Child,
    log: PathBuf,
    /// Kept open: the server may print more.
    _stdout: BufReader<ChildStdout>,
}

impl Embedded {
    /// Starts it on what is in this folder, with the log beside it, and waits until it prints its address.
    pub fn start(program: &Path, folder: &Path) -> Result<Embedded> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let token = random()?;
        let (tokens, data, log) = (folder.join("tokens.csv"), folder.join("data"), folder.join("seaworthy.log"));
        write_secret(&tokens, &format!("{token},admin,1,\"system:masters\"\n"))?;
        let out = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = bound_to_this_process(program);
        command.args(["apiserver", "--listen", "127.0.0.1:0"]);
        command.arg("--data").arg(&data).arg("--token-auth-file").arg(&tokens);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(out);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("the server has no stdout")?);
        let mut url = String::new();
        stdout.read_line(&mut url)?;
        let url = url.trim_end().to_owned();
        let (authority, kubeconfig) = (data.join("pki").join("ca.crt"), data.join("admin.kubeconfig"));
        let mut running = Embedded { url, token, authority, kubeconfig, child, log, _stdout: stdout };
        if !running.url.starts_with("https://") {
            // It ends in a moment; then its log is complete.
            running.child.wait()?;
            running.check()?;
            bail!("seaworthy apiserver printed {:?} instead of its address", running.url);
        }
        Ok(running)
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has ended.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("seaworthy apiserver ended with {status}:\n{log}");
        }
        Ok(())
    }

    /// Shuts it down.
    pub fn stop(mut self) -> Result<()> {
        process::end(&mut self.child, STOP_TIMEOUT)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Dropped without `stop` only if there is another error to report.
        let _ = process::end(&mut self.child, STOP_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use super::Embedded;
    use crate::kube::control_plane::random;
    use crate::tool;

    #[test]
    fn silent_program_is_reported_with_its_exit_status() {
        let folder = std::env::temp_dir().join(format!("seaworthy-embedded-{}", random().unwrap()));
        let error = Embedded::start(&tool::find("false").unwrap(), &folder).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ended with exit status: 1"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
