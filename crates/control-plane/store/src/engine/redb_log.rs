//! [`RedbLog`]: the log in one redb file.
//!
//! - Only this module uses redb.
//! - A file is checked in full when it is opened, and not a byte of it changes before the first append (see
//!   [`deferred_storage`]).
//! - redb rejects all operations after a failed read, write or sync. The database is then reopened for the next append,
//!   and rows that the failed one may have written are removed first.

mod deferred_storage;
#[cfg(test)]
mod faults;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::rc::Rc;

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use self::deferred_storage::DeferredStorage;
use super::{Engine, EngineError, Row, Watermarks};

/// The name of the file in the data folder.
pub const FILE: &str = "store.redb";

/// The version of the layout of tables and rows below. An older program would misread a newer one, so it is rejected.
const FORMAT: u64 = 1;

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

const META_FORMAT: &str = "format";
const META_REVISION: &str = "revision";
const META_COMPACTED: &str = "compacted";

/// Nothing is read after the start, so the cache only has to hold the pages of one append: half of it is for writes, and
/// what does not fit is written early, which costs nothing.
const CACHE_BYTES: usize = 4 << 20;

/// How much of the file is rewritten at a time.
const REWRITE_CHUNK_BYTES: usize = 1 << 20;

type Opener = Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send>;

/// A log in one file.
pub struct RedbLog {
    opener: Opener,
    opened: Option<Opened>,
    /// What was acknowledged. A reopened log must end here, not earlier, not later.
    acknowledged: Watermarks,
    must_rewrite: bool,
}

struct Opened {
    database: Database,
    storage: DeferredStorage,
    is_released: bool,
}

impl RedbLog {
    /// Opens the log in `file`, or creates an empty one. The file stays unchanged, byte for byte, until the first append.
    pub fn open(file: &Path) -> Result<Self, EngineError> {
        if !file.try_exists().map_err(EngineError::Io)? {
            create(file)?;
        }
        let file = file.to_owned();
        RedbLog::with_opener(Box::new(move || {
            let file = OpenOptions::new().read(true).write(true).open(&file)?;
            Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
        }))
    }

    fn with_opener(opener: Opener) -> Result<Self, EngineError> {
        let opened = connect(&opener)?;
        let acknowledged = newest(&opened.database)?;
        Ok(RedbLog { opener, opened: Some(opened), acknowledged, must_rewrite: false })
    }

    /// Runs one transaction; if it fails, the database is dropped, to be reopened by the next one.
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
            catch_panic(|| Ok(run(&opened.database)?))
        })();
        match result {
            Ok(_) => self.opened = Some(opened),
            Err(_) => self.discard(opened),
        }
        result
    }

    /// Closes a database that failed, and records whether the file must be rewritten.
    fn discard(&mut self, Opened { database, storage, .. }: Opened) {
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
        if found.revision < self.acknowledged.revision {
            return Err(EngineError::Corrupted(format!(
                "the log ends at revision {} although {} was written; was the file replaced?",
                found.revision, self.acknowledged.revision
            )));
        }
        let revision = self.acknowledged.revision;
        let result = opened.storage.release().map_err(EngineError::Io).and_then(|()| {
            opened.is_released = true;
            // The commit that failed may have reached the disk, but its caller got an error.
            catch_panic(|| Ok(remove_after(&opened.database, revision)?))
        });
        if let Err(error) = result {
            self.discard(opened);
            return Err(error);
        }
        tracing::debug!(revision, "store: reopened after a failed write");
        Ok(opened)
    }
}

impl Engine for RedbLog {
    fn watermarks(&mut self) -> Result<Watermarks, EngineError> {
        Ok(self.acknowledged)
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.reopen()?,
        };
        catch_panic(|| each_row(&opened.database, visit))?;
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
        self.acknowledged.revision = rows.last().map_or(self.acknowledged.revision, |row| row.revision);
        Ok(())
    }

    fn compact(&mut self, watermarks: Watermarks, superseded: &[u64]) -> Result<(), EngineError> {
        self.write(|database| {
            let transaction = database.begin_write()?;
            {
                let mut log = transaction.open_table(LOG)?;
                for revision in superseded {
                    log.remove(revision)?;
                }
                let mut meta = transaction.open_table(META)?;
                // The newest row may be among the removed ones; its revision must not come back.
                meta.insert(META_REVISION, watermarks.revision)?;
                meta.insert(META_COMPACTED, watermarks.compacted)?;
            }
            Ok(transaction.commit()?)
        })?;
        self.acknowledged = watermarks;
        Ok(())
    }
}

/// Creates an empty log in a temporary file and renames it: a crash in between leaves no incomplete file.
fn create(file: &Path) -> Result<(), EngineError> {
    let temporary = file.with_extension("redb.new");
    let created = (|| {
        let storage =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        initialise(FileBackend::new(storage).map_err(io::Error::other)?).map_err(io::Error::other)?;
        fs::rename(&temporary, file)?;
        // A rename is on disk once its folder is.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    })();
    created.map_err(EngineError::Io)
}

fn initialise(storage: impl StorageBackend) -> Result<(), redb::Error> {
    let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(storage)?;
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
    let storage = DeferredStorage::new(storage).map_err(EngineError::Io)?;
    let was_repaired = Rc::new(Cell::new(false));
    catch_panic(|| {
        let seen = was_repaired.clone();
        let mut database = Builder::new()
            .set_cache_size(CACHE_BYTES)
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
        // After a crash redb has just verified every page. After an orderly shutdown it trusts the file.
        if !was_repaired.get() && !database.check_integrity().map_err(redb::Error::from)? {
            return Err(EngineError::Corrupted("checksums do not match".to_owned()));
        }
        Ok(Opened { database, storage: storage.clone(), is_released: false })
    })
    .map_err(|error| match error {
        // redb's errors for files of another format, or shorter than they should be.
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

fn newest(database: &Database) -> Result<Watermarks, EngineError> {
    catch_panic(|| {
        let transaction = database.begin_read().map_err(redb::Error::from)?;
        let log = transaction.open_table(LOG).map_err(redb::Error::from)?;
        let last = log.last().map_err(redb::Error::from)?.map_or(0, |(revision, _)| revision.value());
        Ok(Watermarks {
            revision: last.max(meta(database, META_REVISION)?),
            compacted: meta(database, META_COMPACTED)?,
        })
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

/// Removes the rows after `revision`.
fn remove_after(database: &Database, revision: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(LOG)?.retain_in(revision + 1.., |_, _| false)?;
    Ok(transaction.commit()?)
}

/// Rewrites every byte of the file and syncs.
///
/// After a failed sync, Linux may drop pages that it could not write and still show them to reads as if they were on
/// disk. Data that builds on them would be lost with the next power failure. Rewriting them marks them dirty again.
fn rewrite(storage: &dyn StorageBackend) -> io::Result<()> {
    let mut chunk = vec![0; REWRITE_CHUNK_BYTES];
    let length = storage.len()?;
    for offset in (0..length).step_by(REWRITE_CHUNK_BYTES) {
        let chunk = &mut chunk[..(length - offset).min(REWRITE_CHUNK_BYTES as u64) as usize];
        storage.read(offset, chunk)?;
        storage.write(offset, chunk)?;
    }
    storage.sync_data()
}

/// Turns a panic into an error: redb panics on some files that it did not write.
fn catch_panic<T>(run: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // The caller drops the database on failure, so nothing that a panic left incomplete is used again.
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
