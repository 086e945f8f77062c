//! Log file of `seaworthy up` in the data folder: rotated at each start and at a size limit, with one old file kept.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::process::log_filter;

/// Size at which the file is rotated; with the old one there is twice that at most.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// Starts logging to this file. The log of the previous start is kept beside it, with the extension `old`.
pub fn start(path: &Path) -> Result<(), Failure> {
    let log = Log::begin(path, MAX_LOG_BYTES)
        .map_err(|error| Failure::invalid(format!("cannot write the log {}: {error}", path.display())))?;
    // A second logger would be a mistake of this program's; there is none.
    let log = tracing_subscriber::fmt().with_writer(Mutex::new(log)).with_ansi(false).with_target(false);
    let _ = log.finish().with(log_filter()).try_init();
    Ok(())
}

struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    max_bytes: u64,
}

impl Log {
    fn begin(path: &Path, max_bytes: u64) -> io::Result<Log> {
        Ok(Log { path: path.to_owned(), file: rotate(path)?, length: 0, max_bytes })
    }
}

/// Renames the file to `….log.old`, and creates an empty one.
fn rotate(path: &Path) -> io::Result<File> {
    match std::fs::rename(path, path.with_extension("log.old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create(path)
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line is one write.
        if self.length >= self.max_bytes {
            self.file = rotate(&self.path)?;
            self.length = 0;
        }
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_of_the_previous_start_is_kept_and_no_file_grows_beyond_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seaworthy.log");
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        Log::begin(&path, 10).unwrap().write_all(b"why\n").unwrap();
        let mut log = Log::begin(&path, 10).unwrap();
        assert_eq!((text("seaworthy.log").as_str(), text("seaworthy.log.old").as_str()), ("", "why\n"));
        for line in ["first\n", "second\n", "third\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(
            (text("seaworthy.log").as_str(), text("seaworthy.log.old").as_str()),
            ("third\n", "first\nsecond\n")
        );
    }
}
