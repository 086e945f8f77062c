//! File watch: notices changes of files of the configuration that the machine is in.

use seaworthy_host::{ChangeCallback, Host, HostError, Watch};

use crate::decide::target::TargetState;
use crate::paths;

/// The watch over the files of one configuration, while it runs.
#[derive(Default)]
pub struct FileWatch {
    running: Option<(Vec<String>, Watch)>,
}

impl FileWatch {
    /// Watches the files of a configuration; returns whether that is a new watch.
    pub fn start(&mut self, host: &dyn Host, target: &TargetState, changed: ChangeCallback) -> Result<bool, HostError> {
        let paths: Vec<String> = target.paths.keys().filter(|path| !paths::is_unchecked(path)).cloned().collect();
        if self.running.as_ref().is_some_and(|(known, _)| *known == paths) {
            return Ok(false);
        }
        self.running = None;
        let watch = host.watch(&paths, changed)?;
        self.running = Some((paths, watch));
        Ok(true)
    }

    /// Ends the watch; returns whether there was one.
    pub fn stop(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}
