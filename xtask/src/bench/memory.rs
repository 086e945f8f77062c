//! Memory of processes, as the kernel counts it.

use std::fs;

use anyhow::{Context as _, Result};

/// Memory in bytes, all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What is resident now.
    pub now: u64,
    /// The most that ever was.
    pub peak: u64,
}

impl Memory {
    /// Total of these processes.
    pub fn of(ids: &[u32]) -> Result<Memory> {
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
    fn memory_is_read_from_the_kernels_text() {
        let status = "Name:\tetcd\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { now: 1_048_576, peak: 2_097_152 }));
        assert_eq!(Memory::parse("Name:\tzombie\n"), None);
    }
}
