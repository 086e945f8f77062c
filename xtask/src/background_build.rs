//! Background builds: started with the run at the lowest priority, so that they use the time in which tests only wait.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::process::bound_to_this_process;
use crate::step::Outcome;
use crate::workspace::{Workspace, shown};

/// A build that runs beside other steps.
pub struct BackgroundBuild {
    command: String,
    child: Child,
    /// Its output, which is printed if it fails.
    log: PathBuf,
}

impl BackgroundBuild {
    /// Starts the build for the step with this name.
    pub fn start(workspace: &Workspace, step: &str, build: Command) -> Result<BackgroundBuild> {
        let log = workspace.scratch("xtask")?.join(format!("build-{step}.log"));
        let command = shown(&build);
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
        Ok(BackgroundBuild { child: child.with_context(|| format!("cannot start {command}"))?, command, log })
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Result<Outcome> {
        let status = self.child.wait()?;
        if status.success() {
            return Ok(Outcome::Passed);
        }
        println!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        Ok(Outcome::Failed(format!("`{}` ended with {status}", self.command)))
    }
}
