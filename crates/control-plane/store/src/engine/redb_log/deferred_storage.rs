//! [`DeferredStorage`]: a storage that defers all writes until its content is verified.
//!
//! redb writes to a file as soon as it opens it: a flag, and a repair if the last process was killed. A file that is
//! then rejected must not have changed. So all writes go to a list first, which reads see, and
//! [`DeferredStorage::release`] applies them, in order and with their syncs, when there is something to append.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{BackendError, StorageBackend};

/// The storage under a database: an owner keeps one handle, redb gets the other.
#[derive(Clone)]
pub(super) struct DeferredStorage(Arc<Inner>);

struct Inner {
    storage: Box<dyn StorageBackend>,
    deferred: RwLock<Option<DeferredWrites>>,
    /// After a failed sync the kernel may drop what it had not written yet, while still showing it to reads.
    has_sync_failed: AtomicBool,
}

/// Writes that are not applied yet.
struct DeferredWrites {
    /// The length of the storage.
    stored: u64,
    /// The length after all steps.
    length: u64,
    steps: Vec<WriteStep>,
}

enum WriteStep {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

impl DeferredStorage {
    /// Defers all writes until [`DeferredStorage::release`].
    pub(super) fn new(storage: Box<dyn StorageBackend>) -> io::Result<Self> {
        let stored = storage.len()?;
        let deferred = RwLock::new(Some(DeferredWrites { stored, length: stored, steps: Vec::new() }));
        Ok(DeferredStorage(Arc::new(Inner { storage, deferred, has_sync_failed: AtomicBool::new(false) })))
    }

    /// Applies the deferred writes; from here on, writes are immediate.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut deferred = self.0.deferred.write().unwrap_or_else(PoisonError::into_inner);
        for step in deferred.take().map(|deferred| deferred.steps).unwrap_or_default() {
            match step {
                WriteStep::Write(offset, bytes) => self.0.storage.write(offset, &bytes),
                WriteStep::Length(length) => self.0.storage.set_len(length),
                WriteStep::Sync => self.0.sync(),
            }?;
        }
        Ok(())
    }

    /// Whether any sync failed.
    pub(super) fn has_sync_failed(&self) -> bool {
        self.0.has_sync_failed.load(Ordering::Acquire)
    }
}

impl Inner {
    fn sync(&self) -> io::Result<()> {
        self.storage.sync_data().inspect_err(|_| self.has_sync_failed.store(true, Ordering::Release))
    }

    /// Adds a step if writes are deferred, and returns whether they are.
    fn defer(&self, step: impl FnOnce(&mut DeferredWrites) -> WriteStep) -> bool {
        // A read lock first: once released, which is nearly always, there is no contention.
        if self.deferred.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            return false;
        }
        let mut deferred = self.deferred.write().unwrap_or_else(PoisonError::into_inner);
        let Some(deferred) = deferred.as_mut() else { return false };
        let step = step(deferred);
        deferred.steps.push(step);
        true
    }
}

impl DeferredWrites {
    /// Reads as if all steps had been applied.
    fn read(&self, storage: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let wanted = out.len();
        if offset.saturating_add(wanted as u64) > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let stored = clip(self.stored, offset, wanted);
        if stored > 0 {
            storage.read(offset, &mut out[..stored])?;
        }
        out[stored..].fill(0);
        for step in &self.steps {
            match step {
                WriteStep::Write(start, bytes) => {
                    let from = clip(*start, offset, wanted);
                    let to = clip(start + bytes.len() as u64, offset, wanted);
                    if from < to {
                        let skipped = (offset + from as u64 - start) as usize;
                        out[from..to].copy_from_slice(&bytes[skipped..skipped + (to - from)]);
                    }
                }
                WriteStep::Length(length) => out[clip(*length, offset, wanted)..].fill(0),
                WriteStep::Sync => {}
            }
        }
        Ok(())
    }
}

/// The index of `position` within the `length` bytes from `offset`, or the nearer end of them.
fn clip(position: u64, offset: u64, length: usize) -> usize {
    position.saturating_sub(offset).min(length as u64) as usize
}

impl fmt::Debug for DeferredStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.storage.fmt(f)
    }
}

impl StorageBackend for DeferredStorage {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.deferred.read().unwrap_or_else(PoisonError::into_inner) {
            Some(deferred) => Ok(deferred.length),
            None => self.0.storage.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.deferred.read().unwrap_or_else(PoisonError::into_inner) {
            Some(deferred) => deferred.read(&*self.0.storage, offset, out),
            None => self.0.storage.read(offset, out),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let is_deferred = self.0.defer(|deferred| {
            deferred.length = length;
            WriteStep::Length(length)
        });
        if is_deferred { Ok(()) } else { self.0.storage.set_len(length) }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.0.defer(|_| WriteStep::Sync) { Ok(()) } else { self.0.sync() }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_deferred = self.0.defer(|deferred| {
            deferred.length = deferred.length.max(offset + bytes.len() as u64);
            WriteStep::Write(offset, bytes.to_vec())
        });
        if is_deferred { Ok(()) } else { self.0.storage.write(offset, bytes) }
    }

    fn close(&self) -> io::Result<()> {
        self.0.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.storage.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Write(u64, Vec<u8>),
        Length(u64),
        Read(u64, usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..50u64, prop::collection::vec(1u8.., 1..20)).prop_map(|(offset, bytes)| Operation::Write(offset, bytes)),
            (0..70u64).prop_map(Operation::Length),
            (0..60u64, 0..30usize).prop_map(|(offset, length)| Operation::Read(offset, length)),
        ]
    }

    fn memory(bytes: &[u8]) -> InMemoryBackend {
        let memory = InMemoryBackend::new();
        memory.set_len(bytes.len() as u64).unwrap();
        memory.write(0, bytes).unwrap();
        memory
    }

    fn content(storage: &dyn StorageBackend) -> Vec<u8> {
        let mut bytes = vec![0; storage.len().unwrap() as usize];
        storage.read(0, &mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn deferred_writes_read_like_applied_ones_and_leave_the_storage_alone(
            start in prop::collection::vec(any::<u8>(), 0..60), operations in prop::collection::vec(operation(), 0..20),
        ) {
            let plain = memory(&start);
            let shared = Arc::new(memory(&start));
            let guarded = DeferredStorage::new(Box::new(Shared(shared.clone()))).unwrap();
            for operation in operations {
                match operation {
                    // redb sets the length first, and the in-memory storage insists on it.
                    Operation::Write(offset, bytes) if offset + bytes.len() as u64 <= plain.len().unwrap() => {
                        plain.write(offset, &bytes).unwrap();
                        guarded.write(offset, &bytes).unwrap();
                    }
                    Operation::Write(..) => {}
                    Operation::Length(length) => {
                        plain.set_len(length).unwrap();
                        guarded.set_len(length).unwrap();
                    }
                    Operation::Read(offset, length) => {
                        let (mut one, mut two) = (vec![0; length], vec![0; length]);
                        let is_inside = offset + length as u64 <= plain.len().unwrap();
                        prop_assert_eq!(guarded.read(offset, &mut two).is_ok(), is_inside);
                        if is_inside {
                            plain.read(offset, &mut one).unwrap();
                            prop_assert_eq!(one, two);
                        }
                    }
                }
                prop_assert_eq!(plain.len().unwrap(), guarded.len().unwrap());
                prop_assert_eq!(content(&plain), content(&guarded));
            }
            prop_assert_eq!(content(&*shared), start);
            guarded.release().unwrap();
            prop_assert_eq!(content(&*shared), content(&plain));
        }
    }

    #[derive(Debug)]
    struct Shared(Arc<InMemoryBackend>);

    impl StorageBackend for Shared {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()
        }
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write(offset, bytes)
        }
    }
}
