//! Machine facts: processor, memory, load average, compiler.

use std::fs;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result};

use crate::workspace::stdout_of;

/// For example: 2 cores of AMD EPYC, 24 GB of memory, Linux on x86_64.
pub fn facts() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    describe(cores, &read("/proc/cpuinfo"), &read("/proc/meminfo"))
}

/// How many processes wanted to run, on average over the last minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|first| !first.is_empty()).unwrap_or("unknown").to_owned()
}

fn describe(cores: usize, cpuinfo: &str, meminfo: &str) -> String {
    let model = value(cpuinfo, "model name").unwrap_or("an unnamed processor");
    let memory = value(meminfo, "MemTotal")
        .and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok())
        .map_or_else(String::new, |kib| format!(", {:.0} GB of memory", kib as f64 * 1024.0 / 1e9));
    let plural = if cores == 1 { "" } else { "s" };
    format!(
        "{cores} core{plural} of {model}{memory}, {} on {}",
        if cfg!(target_os = "linux") { "Linux" } else { std::env::consts::OS },
        std::env::consts::ARCH
    )
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(name, value)| (name.trim() == key).then_some(value.trim()))
}

/// The compiler's version, such as `1.95.0`, and the platform it builds for.
pub fn compiler() -> Result<(String, String)> {
    let text = stdout_of(Command::new("rustc").args(["--version", "--verbose"]))?;
    let text = String::from_utf8_lossy(&text);
    let field = |key| {
        value(&text, key).map(str::to_owned).with_context(|| format!("`rustc --version --verbose` has no line {key:?}"))
    };
    Ok((field("release")?, field("host")?))
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn facts_are_a_sentence() {
        let facts = describe(2, "processor\t: 0\nmodel name\t: AMD EPYC\n", "MemTotal: 24000000 kB\n");
        assert!(facts.starts_with("2 cores of AMD EPYC, 25 GB of memory, "), "{facts}");
    }

    #[test]
    fn unknown_machine_is_described_without_guesses() {
        assert!(describe(1, "", "").starts_with("1 core of an unnamed processor, "));
    }
}
