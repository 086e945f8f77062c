//! Background builds: started with the run at the lowest priority, so that they use the time in which tests only wait.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::process::{bound_to_this_process, end_with_descendants};
use crate::step::Outcome;
use crate::workspace::{Workspace, shown};

/// Longer than a whole release build takes. When it is waited for, the tests before it have ended, and it has all cores.
const WAIT_TIMEOUT: Duration = Duration::from_secs(25 * 60);
/// How often a build that is waited for is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A build that runs beside other steps.
pub struct BackgroundBuild {
    command: String,
    child: Child,
    /// Its output, which is printed if it fails.
    log: PathBuf,
}

impl BackgroundBuild {
    /// Starts the build for the step with this name.
    pub fn start(workspace: &Workspace, step: &str, build: &Command) -> Result<BackgroundBuild> {
        let log = workspace.scratch("xtask")?.join(format!("build-{step}.log"));
        let command = shown(build);
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut lowered = bound_to_this_process(Path::new("nice"));
        lowered.args(["-n", "19"]).arg(build.get_program()).args(build.get_args());
        if let Some(folder) = build.get_current_dir() {
            lowered.current_dir(folder);
        }
        for (name, value) in build.get_envs() {
            match value {
                Some(value) => lowered.env(name, value),
                None => lowered.env_remove(name),
            };
        }
        let child = lowered.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        Ok(BackgroundBuild {
            child: child.with_context(|| format!("cannot start {command} with `nice`"))?,
            command,
            log,
        })
    }

    /// Waits for its end.
    pub fn finish(self) -> Result<Outcome> {
        println!("waiting for `{}`, which was started with this run", self.command);
        self.finish_within(WAIT_TIMEOUT)
    }

    /// Waits for its end, and ends it after `timeout`.
    fn finish_within(mut self, timeout: Duration) -> Result<Outcome> {
        let begun = Instant::now();
        let failure = loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(Outcome::Passed),
                Some(status) => break format!("`{}` ended with {status}", self.command),
                None if begun.elapsed() >= timeout => {
                    end_with_descendants(&mut self.child)?;
                    break format!("`{}` did not end within {timeout:?} of waiting", self.command);
                }
                None => thread::sleep(POLL_INTERVAL),
            }
        };
        println!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        Ok(Outcome::Failed(failure))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    use super::{BackgroundBuild, Outcome};

    fn running(program: &str, arguments: &[&str]) -> BackgroundBuild {
        let child = Command::new(program).args(arguments).spawn().unwrap();
        BackgroundBuild { command: program.to_owned(), child, log: PathBuf::new() }
    }

    #[test]
    fn build_that_hangs_is_ended() {
        let build = running("sleep", &["1000"]);
        let id = build.child.id();
        let Outcome::Failed(reason) = build.finish_within(Duration::ZERO).unwrap() else { panic!("it has not ended") };
        assert!(reason.contains("`sleep` did not end within 0ns"), "{reason}");
        assert!(!PathBuf::from(format!("/proc/{id}")).exists());
    }

    #[test]
    fn build_that_ends_has_the_outcome_of_its_exit_status() {
        let outcome = |program| running(program, &[]).finish_within(Duration::from_secs(60)).unwrap();
        assert_eq!(outcome("true"), Outcome::Passed);
        assert_eq!(outcome("false"), Outcome::Failed("`false` ended with exit status: 1".to_owned()));
    }
}
