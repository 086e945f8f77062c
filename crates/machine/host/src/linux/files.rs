//! Files below a directory handle. The kernel keeps every path below it (`openat2` with `RESOLVE_IN_ROOT`), so that no link in a
//! configuration or on the machine leads out of it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RawMode, ResolveFlags, Stat, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, fsetxattr, fstat, fsync, linkat, mkdirat, open, openat2, readlinkat, renameat, statat, symlinkat,
    syncfs, unlinkat,
};
use rustix::io::Errno;

use crate::{Attributes, Entry, EntryKind, HostError, checked};

const LABEL: &str = "security.selinux";
/// More than any file of a configuration.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Chunk size of comparisons.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) struct Files {
    root: OwnedFd,
    /// Makes the names of temporary files unique.
    made: AtomicU64,
    /// Filesystems with changes that may not have reached the disk, by device number, each with a folder of it.
    unsynced: Mutex<BTreeMap<u64, OwnedFd>>,
}

impl Files {
    pub(super) fn open(root: &Path) -> Result<Self, HostError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = open(root, flags, Mode::empty())
            .map_err(|errno| HostError::file("open", &root.to_string_lossy(), errno))?;
        Ok(Files { root, made: AtomicU64::new(0), unsynced: Mutex::default() })
    }

    pub(super) fn entry(&self, path: &str) -> Result<Option<Entry>, HostError> {
        let Some((folder, name)) = self.folder(path)? else { return Ok(None) };
        let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(HostError::file("look at", path, errno)),
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => {
                let target =
                    readlinkat(&folder, name, Vec::new()).map_err(|errno| HostError::file("read", path, errno))?;
                EntryKind::Link(target.to_string_lossy().into_owned())
            }
            _ => EntryKind::Other,
        };
        // No file is shorter than nothing.
        let size = if kind == EntryKind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
        Ok(Some(Entry { kind, mode: mode_of(&stat), uid: stat.st_uid, gid: stat.st_gid, size }))
    }

    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError> {
        let Some((file, metadata)) = self.opened(path)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(MAX_FILE_BYTES)).unwrap_or(0));
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| HostError::file("read", path, error))?;
        Ok(Some(bytes))
    }

    pub(super) fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError> {
        let Some((mut file, metadata)) = self.opened(path)? else { return Ok(false) };
        if metadata.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let mut chunk = vec![0; CHUNK_BYTES.min(bytes.len() + 1)];
        let mut left = bytes;
        loop {
            let length = match file.read(&mut chunk) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(HostError::file("read", path, error)),
            };
            if length == 0 {
                return Ok(left.is_empty());
            }
            match left.strip_prefix(&chunk[..length]) {
                Some(rest) => left = rest,
                None => return Ok(false),
            }
        }
    }

    pub(super) fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError> {
        let (Some((one, first)), Some((two, second))) = (self.opened(path)?, self.opened(other)?) else {
            return Ok(false);
        };
        if (first.dev(), first.ino()) == (second.dev(), second.ino()) {
            return Ok(true);
        }
        if first.len() != second.len() {
            return Ok(false);
        }
        let (mut left, mut right) = (Vec::with_capacity(CHUNK_BYTES), Vec::with_capacity(CHUNK_BYTES));
        loop {
            next_chunk(&one, &mut left).map_err(|error| HostError::file("read", path, error))?;
            next_chunk(&two, &mut right).map_err(|error| HostError::file("read", other, error))?;
            if left != right {
                return Ok(false);
            }
            if left.is_empty() {
                return Ok(true);
            }
        }
    }

    /// A regular file, open for reading; `None` if there is no entry.
    fn opened(&self, path: &str) -> Result<Option<(File, Metadata)>, HostError> {
        let fault = |why: &dyn ToString| HostError::file("read", path, why.to_string());
        let Some((folder, name)) = self.folder(path)? else { return Ok(None) };
        // Without NONBLOCK a pipe would block indefinitely.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat2(&folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(fault(&"it is a link")),
            Err(errno) => return Err(fault(&errno)),
        };
        let metadata = file.metadata().map_err(|error| fault(&error))?;
        if !metadata.is_file() {
            return Err(fault(&"it is not a regular file"));
        }
        Ok(Some((file, metadata)))
    }

    pub(super) fn names(&self, directory: &str) -> Result<Vec<String>, HostError> {
        let fault = |errno: Errno| HostError::file("list", directory, errno);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = match openat2(&self.root, checked(directory)?, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(fault(errno)),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns whether there was no entry before.
    pub(super) fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<bool, HostError> {
        let (folder, name) = self.made_folder(path)?;
        let is_new = self.write_to(&folder, name, path, bytes, attributes, false)?;
        self.changed(folder);
        Ok(is_new)
    }

    /// The same, and it is on the disk when the call returns.
    pub(super) fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<bool, HostError> {
        let is_folder_there = self.folder(path)?.is_some();
        let (folder, name) = self.made_folder(path)?;
        let is_new = self.write_to(&folder, name, path, bytes, attributes, true)?;
        fsync(&folder).map_err(|errno| HostError::file("write", path, errno))?;
        if !is_folder_there {
            self.changed(folder);
            self.sync()?;
        }
        Ok(is_new)
    }

    fn write_to(
        &self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        bytes: &[u8],
        attributes: Attributes,
        is_through: bool,
    ) -> Result<bool, HostError> {
        let old_label = self.label_of(folder, name);
        self.replace(folder, name, path, "write", |temporary| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat2(folder, temporary, flags, Mode::RUSR | Mode::WUSR, ResolveFlags::IN_ROOT)
                .map_err(|errno| errno.to_string())?;
            let mut file = File::from(file);
            file.write_all(bytes).map_err(|error| error.to_string())?;
            // The owner first: changing it takes the special bits away.
            set(&file, attributes).map_err(|errno| errno.to_string())?;
            if let Some(label) = old_label.as_ref().filter(|label| !label.is_empty()) {
                fsetxattr(&file, LABEL, label, XattrFlags::empty()).map_err(|errno| errno.to_string())?;
            }
            if is_through { fsync(&file).map_err(|errno| errno.to_string()) } else { Ok(()) }
        })?;
        Ok(old_label.is_none())
    }

    pub(super) fn symlink(&self, path: &str, target: &str) -> Result<(), HostError> {
        let (folder, name) = self.made_folder(path)?;
        self.replace(&folder, name, path, "link", |temporary| {
            symlinkat(target, &folder, temporary).map_err(|errno| errno.to_string())
        })?;
        self.changed(folder);
        Ok(())
    }

    /// Returns whether there was no entry before.
    pub(super) fn make_directory(&self, path: &str, attributes: Attributes) -> Result<bool, HostError> {
        let (folder, name) = self.made_folder(path)?;
        let fault = |errno: Errno| HostError::file("make directory", path, errno);
        let is_new = match mkdirat(&folder, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(fault(errno)),
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let made = openat2(&folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT).map_err(fault)?;
        set(&made, attributes).map_err(fault)?;
        self.changed(folder);
        Ok(is_new)
    }

    pub(super) fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        let fault = |errno: Errno| HostError::file("set the attributes of", path, errno);
        let Some((folder, name)) = self.folder(path)? else { return Err(fault(Errno::NOENT)) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat2(&folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT).map_err(fault)?;
        set(&file, attributes).map_err(fault)?;
        self.changed(folder);
        Ok(())
    }

    pub(super) fn keep(&self, from: &str, to: &str) -> Result<(), HostError> {
        let Some((source, source_name)) = self.folder(from)? else {
            return Err(HostError::file("keep", from, "No such file or directory"));
        };
        let (folder, name) = self.made_folder(to)?;
        self.replace(&folder, name, to, "write", |temporary| {
            match linkat(&source, source_name, &folder, temporary, AtFlags::empty()) {
                // Another filesystem, or one that has no second names.
                Err(Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                    self.copy_to(from, &folder, temporary)
                }
                other => other.map_err(|errno| format!("{errno} (kept from {from})")),
            }
        })?;
        self.changed(folder);
        Ok(())
    }

    pub(super) fn copy(&self, from: &str, to: &str) -> Result<(), HostError> {
        let (folder, name) = self.made_folder(to)?;
        self.replace(&folder, name, to, "write", |temporary| self.copy_to(from, &folder, temporary))?;
        self.changed(folder);
        Ok(())
    }

    fn copy_to(&self, from: &str, folder: &OwnedFd, temporary: &str) -> Result<(), String> {
        let entry = self.entry(from).map_err(|error| error.to_string())?.ok_or_else(|| format!("{from} is gone"))?;
        if let EntryKind::Link(target) = &entry.kind {
            symlinkat(target.as_str(), folder, temporary).map_err(|errno| errno.to_string())?;
            let owner = (Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)));
            return chownat(folder, temporary, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| errno.to_string());
        }
        let opened = self.opened(from).map_err(|error| error.to_string())?;
        let (mut source, _) = opened.ok_or_else(|| format!("{from} is gone"))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(folder, temporary, flags, Mode::RUSR | Mode::WUSR, ResolveFlags::IN_ROOT)
            .map_err(|errno| errno.to_string())?;
        let mut file = File::from(file);
        std::io::copy(&mut source, &mut file).map_err(|error| error.to_string())?;
        set(&file, Attributes { mode: entry.mode, uid: entry.uid, gid: entry.gid })
            .map_err(|errno| errno.to_string())?;
        if let Ok(Some((source, name))) = self.folder(from)
            && let Some(label) = self.label_of(&source, name)
            && !label.is_empty()
        {
            fsetxattr(&file, LABEL, &label, XattrFlags::empty()).map_err(|errno| errno.to_string())?;
        }
        Ok(())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), HostError> {
        let fault = |errno: Errno| HostError::file("move", from, format!("{errno} (to {to})"));
        let Some((source, source_name)) = self.folder(from)? else { return Err(fault(Errno::NOENT)) };
        let (folder, name) = self.made_folder(to)?;
        renameat(&source, source_name, &folder, name).map_err(fault)?;
        self.changed(folder);
        Ok(())
    }

    pub(super) fn remove(&self, path: &str) -> Result<(), HostError> {
        let fault = |errno: Errno| HostError::file("remove", path, errno);
        let Some((folder, name)) = self.folder(path)? else { return Ok(()) };
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => {
                self.changed(folder);
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(fault(errno)),
        }
    }

    pub(super) fn remove_directory(&self, path: &str) -> Result<(), HostError> {
        let fault = |errno: Errno| HostError::file("remove", path, errno);
        match self.entry(path)? {
            None => return Ok(()),
            Some(Entry { kind: EntryKind::Directory, .. }) => {}
            Some(_) => return self.remove(path),
        }
        for name in self.names(path)? {
            self.remove_directory(&format!("{path}/{name}"))?;
        }
        let Some((folder, name)) = self.folder(path)? else { return Ok(()) };
        unlinkat(&folder, name, AtFlags::REMOVEDIR).map_err(fault)?;
        self.changed(folder);
        Ok(())
    }

    /// One call for each filesystem, however many files were changed: a call for each file would have the disk finish a
    /// write of its own for each.
    pub(super) fn sync(&self) -> Result<(), HostError> {
        // Folders in which other programs write on our request: links of units, passwords, the menu of the boot loader.
        for path in ["etc", "var", "boot", "boot/efi"] {
            match self.open_folder(path) {
                Ok(folder) => self.changed(folder),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(HostError::file("sync", path, errno)),
            }
        }
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in unsynced.values() {
            // A filesystem that fails stays on the list.
            syncfs(folder).map_err(|errno| HostError::file("sync", "/", errno))?;
        }
        unsynced.clear();
        Ok(())
    }

    /// Notes that something in a folder may not have reached the disk.
    fn changed(&self, folder: OwnedFd) {
        // A folder that is open can be looked at; if not, the others are synced.
        let Ok(stat) = fstat(&folder) else { return };
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).entry(stat.st_dev).or_insert(folder);
    }

    /// Whether a file came with an image: ostree has a copy of the files that it merged into `/etc` below `/usr/etc`.
    pub(super) fn is_of_image(&self, path: &str) -> Result<bool, HostError> {
        match path.strip_prefix("/etc/") {
            Some(below) => Ok(self.entry(&format!("/usr/etc/{below}"))?.is_some()),
            None => Ok(false),
        }
    }

    /// The folder of a path, and the path's last part; `None` if there is no such folder.
    fn folder<'p>(&self, path: &'p str) -> Result<Option<(OwnedFd, &'p str)>, HostError> {
        let (above, name) = split(checked(path)?);
        match self.open_folder(above) {
            Ok(folder) => Ok(Some((folder, name))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(HostError::file("open the folder of", path, errno)),
        }
    }

    pub(super) fn open_folder(&self, below: &str) -> Result<OwnedFd, Errno> {
        let below = if below.is_empty() { "." } else { below };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, below, flags, Mode::empty(), resolve)
    }

    /// The same, with missing folders made.
    fn made_folder<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), HostError> {
        let (above, name) = split(checked(path)?);
        let fault = |errno: Errno| HostError::file("make the folder of", path, errno);
        match self.open_folder(above) {
            Ok(folder) => return Ok((folder, name)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(fault(errno)),
        }
        let mut at = self.open_folder("").map_err(fault)?;
        let ends = above.match_indices('/').map(|(end, _)| end).chain([above.len()]);
        let mut start = 0;
        for end in ends {
            let part = &above[start..end];
            start = end + 1;
            at = match self.open_folder(&above[..end]) {
                Ok(folder) => folder,
                Err(Errno::NOENT) => {
                    match mkdirat(&at, part, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH) {
                        // EEXIST: a dangling link, which opening it reports.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(fault(errno)),
                    }
                    let made = self.open_folder(&above[..end]).map_err(fault)?;
                    // Independent of the umask.
                    fchmod(&made, Mode::from_raw_mode(0o755)).map_err(fault)?;
                    made
                }
                Err(errno) => return Err(fault(errno)),
            };
        }
        Ok((at, name))
    }

    /// Creates an entry under a temporary name, and moves it to its place.
    fn replace(
        &self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        verb: &'static str,
        make: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<(), HostError> {
        let fault = |why: String| HostError::file(verb, path, why);
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".seaworthy-{}-{number}", std::process::id());
        // Left by a power cut, of an earlier process with the same ID.
        let _ = unlinkat(folder, temporary.as_str(), AtFlags::empty());
        let result = make(&temporary)
            .and_then(|()| renameat(folder, temporary.as_str(), folder, name).map_err(|errno| errno.to_string()))
            .map_err(fault);
        // A rename onto another hard link of the same file does nothing, and leaves the temporary name.
        let _ = unlinkat(folder, temporary.as_str(), AtFlags::empty());
        result
    }

    /// The SELinux label of an entry; empty if it has none, `None` if there is no entry.
    fn label_of(&self, folder: &OwnedFd, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat2(folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
        let mut label = [0_u8; 512];
        let length = fgetxattr(file.as_fd(), LABEL, &mut label[..]).unwrap_or(0);
        Some(label[..length].to_vec())
    }
}

fn split(below: &str) -> (&str, &str) {
    below.rsplit_once('/').unwrap_or(("", below))
}

fn set(file: impl std::os::fd::AsFd, attributes: Attributes) -> Result<(), Errno> {
    fchown(file.as_fd(), Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    fchmod(file.as_fd(), Mode::from_raw_mode(attributes.mode as RawMode))
}

fn mode_of(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Reads the next chunk, a whole one unless the end is reached. Signals do not interrupt it.
fn next_chunk(file: impl Read, chunk: &mut Vec<u8>) -> io::Result<()> {
    chunk.clear();
    file.take(CHUNK_BYTES as u64).read_to_end(chunk).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives some bytes at a time, and a signal comes before each.
    struct Disturbed<'b> {
        left: &'b [u8],
        is_disturbed: bool,
    }

    impl Read for &mut Disturbed<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.is_disturbed = !self.is_disturbed;
            if self.is_disturbed {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let length = into.len().min(1000);
            self.left.read(&mut into[..length])
        }
    }

    #[test]
    fn pieces_are_whole_whatever_disturbs_the_reading_of_them() {
        let bytes: Vec<u8> = (0..2 * CHUNK_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let mut file = Disturbed { left: &bytes, is_disturbed: false };
        let mut chunk = Vec::new();
        for wanted in bytes.chunks(CHUNK_BYTES).chain([&[][..]]) {
            next_chunk(&mut file, &mut chunk).unwrap();
            assert!(chunk == wanted, "{} of {}", chunk.len(), wanted.len());
        }
    }
}
