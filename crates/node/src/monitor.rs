//! Hears of it when somebody changes a file of the configuration that the machine is in (server-and-daemon.md, B20).

use seaworthy_host::{Changed, Host, HostError, Watch};

use crate::places;
use crate::target::Target;

/// Hears of changes, while it is told to.
#[derive(Default)]
pub struct Monitor {
    running: Option<(Vec<String>, Watch)>,
}

impl Monitor {
    /// Begins to listen for a configuration; says whether that is new. What is listened for already goes on.
    pub fn start(&mut self, host: &dyn Host, target: &Target, changed: Changed) -> Result<bool, HostError> {
        let paths: Vec<String> = target.paths.keys().filter(|path| !places::is_unchecked(path)).cloned().collect();
        if self.running.as_ref().is_some_and(|(known, _)| *known == paths) {
            return Ok(false);
        }
        self.running = None;
        let watch = host.watch(&paths, changed)?;
        self.running = Some((paths, watch));
        Ok(true)
    }

    /// Ends listening; says whether there was any.
    pub fn stop(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Whether it listens.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}
