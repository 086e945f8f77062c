//! The log in one redb file.
//!
//! - Nothing but this module knows redb.
//! - A file is checked in full when it is opened, and not a byte of it changes before the first append (see
//!   [`guarded`]).
//! - redb refuses all work after a failed read, write or sync. The database is then opened anew for the next append,
//!   and what the failed one may have left behind is taken back first.

#[cfg(test)]
mod faults;
mod guarded;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::rc::Rc;

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use self::guarded::Guarded;
use super::{Engine, EngineError, Mark, Row};

/// The name of the file in the data folder.
pub const FILE: &str = "store.redb";

/// The layout of the tables and rows below. A reader of a newer one would misread it, so it refuses.
const FORMAT: u64 = 1;

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

const META_FORMAT: &str = "format";
const META_REVISION: &str = "revision";
const META_COMPACTED: &str = "compacted";

/// Nothing is read after the start, so this only has to hold the pages of one append: half of it is for writes, and
/// what does not fit is written early, which costs nothing.
const CACHE: usize = 4 << 20;

/// How much of the file is written again at a time.
const REWRITE_STEP: usize = 1 << 20;

type Opener = Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send>;

/// A log in one file.
pub struct Redb {
    opener: Opener,
    opened: Option<Opened>,
    /// What was acknowledged. A log that was opened anew must end here, not earlier, not later.
    known: Mark,
    must_rewrite: bool,
}

struct Opened {
    database: Database,
    storage: Guarded,
    is_released: bool,
}

impl Redb {
    /// Opens the log in `file`, or makes an empty one. The file stays as it is, byte for byte, until the first append.
    pub fn open(file: &Path) -> Result<Self, EngineError> {
        if !file.try_exists().map_err(EngineError::Io)? {
            create(file)?;
        }
        let file = file.to_owned();
        Redb::with_opener(Box::new(move || {
            let file = OpenOptions::new().read(true).write(true).open(&file)?;
            Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
        }))
    }

    fn with_opener(opener: Opener) -> Result<Self, EngineError> {
        let opened = connect(&opener)?;
        let known = newest(&opened.database)?;
        Ok(Redb { opener, opened: Some(opened), known, must_rewrite: false })
    }

    /// Runs one transaction; if it fails, the database is dropped, to be opened anew by the next one.
    fn write<T>(&mut self, run: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, EngineError> {
        let mut opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.reopen()?,
        };
        let result = (|| {
            if !opened.is_released {
                opened.storage.release().map_err(EngineError::Io)?;
                opened.is_released = true;
            }
            unwound(|| Ok(run(&opened.database)?))
        })();
        match result {
            Ok(_) => self.opened = Some(opened),
            Err(_) => self.give_up(opened),
        }
        result
    }

    /// Closes a database that failed, and keeps in mind what that means for the file.
    fn give_up(&mut self, Opened { database, storage, .. }: Opened) {
        drop(database);
        self.must_rewrite |= storage.has_sync_failed();
    }

    fn reopen(&mut self) -> Result<Opened, EngineError> {
        if self.must_rewrite {
            rewrite(&*(self.opener)().map_err(EngineError::Io)?).map_err(EngineError::Io)?;
            self.must_rewrite = false;
        }
        let mut opened = connect(&self.opener)?;
        let found = newest(&opened.database)?;
        if found.revision < self.known.revision {
            return Err(EngineError::Corrupted(format!(
                "the log ends at revision {} although {} was written; was the file replaced?",
                found.revision, self.known.revision
            )));
        }
        let known = self.known.revision;
        let result = opened.storage.release().map_err(EngineError::Io).and_then(|()| {
            opened.is_released = true;
            // The commit that failed may have reached the disk after all. Its caller was told otherwise.
            unwound(|| Ok(take_back(&opened.database, known)?))
        });
        if let Err(error) = result {
            self.give_up(opened);
            return Err(error);
        }
        tracing::debug!(revision = known, "store: opened anew after a failed write");
        Ok(opened)
    }
}

impl Engine for Redb {
    fn mark(&mut self) -> Result<Mark, EngineError> {
        Ok(self.known)
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.reopen()?,
        };
        unwound(|| each_row(&opened.database, visit))?;
        self.opened = Some(opened);
        Ok(())
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        self.write(|database| {
            let transaction = database.begin_write()?;
            {
                let mut log = transaction.open_table(LOG)?;
                for row in rows {
                    row.encode(log.insert_reserve(row.revision, row.encoded_len())?.as_mut());
                }
            }
            Ok(transaction.commit()?)
        })?;
        self.known.revision = rows.last().map_or(self.known.revision, |row| row.revision);
        Ok(())
    }

    fn compact(&mut self, mark: Mark, superseded: &[u64]) -> Result<(), EngineError> {
        self.write(|database| {
            let transaction = database.begin_write()?;
            {
                let mut log = transaction.open_table(LOG)?;
                for revision in superseded {
                    log.remove(revision)?;
                }
                let mut meta = transaction.open_table(META)?;
                // The newest row may be among the removed ones; its revision must not come back.
                meta.insert(META_REVISION, mark.revision)?;
                meta.insert(META_COMPACTED, mark.compacted)?;
            }
            Ok(transaction.commit()?)
        })?;
        self.known = mark;
        Ok(())
    }
}

/// Makes an empty log beside the place and moves it there: a crash half-way leaves no half of a file.
fn create(file: &Path) -> Result<(), EngineError> {
    let draft = file.with_extension("redb.new");
    let made = (|| {
        let storage = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        initialise(FileBackend::new(storage).map_err(io::Error::other)?).map_err(io::Error::other)?;
        fs::rename(&draft, file)?;
        // A rename is on disk once its folder is.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    })();
    made.map_err(EngineError::Io)
}

fn initialise(storage: impl StorageBackend) -> Result<(), redb::Error> {
    let database = Builder::new().set_cache_size(CACHE).create_with_backend(storage)?;
    let transaction = database.begin_write()?;
    transaction.open_table(LOG)?;
    transaction.open_table(META)?.insert(META_FORMAT, FORMAT)?;
    Ok(transaction.commit()?)
}

/// Opens a database and checks all of it, without changing a byte of it yet.
fn connect(opener: &Opener) -> Result<Opened, EngineError> {
    let storage = opener().map_err(EngineError::Io)?;
    if storage.len().map_err(EngineError::Io)? == 0 {
        return Err(EngineError::Corrupted("the file is empty".to_owned()));
    }
    let storage = Guarded::new(storage).map_err(EngineError::Io)?;
    let was_repaired = Rc::new(Cell::new(false));
    unwound(|| {
        let seen = was_repaired.clone();
        let mut database = Builder::new()
            .set_cache_size(CACHE)
            .set_repair_callback(move |_| seen.set(true))
            .create_with_backend(storage.clone())
            .map_err(redb::Error::from)?;
        let format = meta(&database, META_FORMAT)?;
        if format > FORMAT {
            return Err(EngineError::Newer { found: format, known: FORMAT });
        }
        if format == 0 {
            return Err(EngineError::Corrupted("it is a redb file without a format number".to_owned()));
        }
        // After a crash redb has just verified every page. After an orderly end it trusts the file, so we ask.
        if !was_repaired.get() && !database.check_integrity().map_err(redb::Error::from)? {
            return Err(EngineError::Corrupted("checksums do not match".to_owned()));
        }
        Ok(Opened { database, storage: storage.clone(), is_released: false })
    })
    .map_err(|error| match error {
        // What redb says about files that are not its own, or shorter than they should be.
        EngineError::Io(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            EngineError::Corrupted(error.to_string())
        }
        error => error,
    })
}

fn meta(database: &Database, name: &str) -> Result<u64, EngineError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let table = transaction.open_table(META).map_err(redb::Error::from)?;
    Ok(table.get(name).map_err(redb::Error::from)?.map_or(0, |value| value.value()))
}

fn newest(database: &Database) -> Result<Mark, EngineError> {
    unwound(|| {
        let transaction = database.begin_read().map_err(redb::Error::from)?;
        let log = transaction.open_table(LOG).map_err(redb::Error::from)?;
        let last = log.last().map_err(redb::Error::from)?.map_or(0, |(revision, _)| revision.value());
        Ok(Mark { revision: last.max(meta(database, META_REVISION)?), compacted: meta(database, META_COMPACTED)? })
    })
}

fn each_row(database: &Database, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let log = transaction.open_table(LOG).map_err(redb::Error::from)?;
    for entry in log.iter().map_err(redb::Error::from)? {
        let (revision, bytes) = entry.map_err(redb::Error::from)?;
        visit(Row::decode(revision.value(), bytes.value()).map_err(EngineError::Corrupted)?)?;
    }
    Ok(())
}

/// Removes the rows above `revision`.
fn take_back(database: &Database, revision: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(LOG)?.retain_in(revision + 1.., |_, _| false)?;
    Ok(transaction.commit()?)
}

/// Writes every byte of the file again and syncs.
///
/// After a failed sync, Linux may drop pages that it could not write and still show them to reads as if they were on
/// disk. Built upon, they would be missing after the next power cut. Written again, they are due to be written again.
fn rewrite(storage: &dyn StorageBackend) -> io::Result<()> {
    let mut chunk = vec![0; REWRITE_STEP];
    let length = storage.len()?;
    for offset in (0..length).step_by(REWRITE_STEP) {
        let chunk = &mut chunk[..(length - offset).min(REWRITE_STEP as u64) as usize];
        storage.read(offset, chunk)?;
        storage.write(offset, chunk)?;
    }
    storage.sync_data()
}

/// redb panics on some files that it did not write; for us that is one more way to find a file corrupted.
fn unwound<T>(run: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // Whoever fails here drops the database, so nothing that a panic left half done is used again.
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(EngineError::Corrupted(text.unwrap_or_else(|| "reading it panicked".to_owned())))
    })
}

impl From<redb::Error> for EngineError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => EngineError::Io(error),
            redb::Error::DatabaseAlreadyOpen => EngineError::InUse,
            redb::Error::Corrupted(message) => EngineError::Corrupted(message),
            // Tables with our names that are not ours, and versions of redb's own format.
            error @ (redb::Error::TableDoesNotExist(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::UpgradeRequired(_)) => EngineError::Corrupted(error.to_string()),
            error => EngineError::Io(io::Error::other(error)),
        }
    }
}
