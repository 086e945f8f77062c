//! The log of `seaworthy up`: a file of the data folder that is kept until the next one, and does not grow for ever.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::command::controllers::worth_knowing;
use crate::failure::Failure;

/// A file is not longer; with the one before it is twice that.
const LONGEST: u64 = 16 << 20;

/// Everything that is logged goes to this file from now on. That of the start before is kept beside it, with the ending `old`.
pub fn to(path: &Path) -> Result<(), Failure> {
    let log = Log::begin(path, LONGEST)
        .map_err(|error| Failure::unreadable(format!("cannot write the log {}: {error}", path.display())))?;
    // A second logger would be a mistake of this program's; there is none.
    let log = tracing_subscriber::fmt().with_writer(Mutex::new(log)).with_ansi(false).with_target(false);
    let _ = log.finish().with(worth_knowing()).try_init();
    Ok(())
}

struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    longest: u64,
}

impl Log {
    fn begin(path: &Path, longest: u64) -> io::Result<Log> {
        Ok(Log { path: path.to_owned(), file: fresh(path)?, length: 0, longest })
    }
}

/// An empty file, with the one that was there beside it.
fn fresh(path: &Path) -> io::Result<File> {
    match std::fs::rename(path, path.with_extension("log.old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create(path)
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line is one write.
        if self.length >= self.longest {
            self.file = fresh(&self.path)?;
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
    fn log_of_the_start_before_is_kept_and_no_file_grows_beyond_its_length() {
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
