//! File watch with inotify, in a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;

use super::files::Files;
use crate::watch::{ChangeCallback, Watch};
use crate::{HostError, checked};

/// Larger than any event.
const BUFFER: usize = 64 * 1024;
/// The fixed part of an event: four numbers.
const HEAD: usize = 16;

/// Watches the folders of files. A folder that is not there is watched for at the nearest one above it that is.
pub(super) fn watch(files: &Files, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError> {
    let fault = |path: &str, errno: Errno| HostError::file("watch", path, errno);
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| fault("/", errno))?;
    let mut names: BTreeMap<i32, BTreeSet<String>> = BTreeMap::new();
    for path in paths {
        let (folder, name) = nearest(files, path)?;
        // The folder itself and not its path, so that a link that is created meanwhile changes nothing.
        let place = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let flags = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE;
        let number = add_watch(&events, place.as_str(), flags).map_err(|errno| fault(path, errno))?;
        names.entry(number).or_default().insert(name);
    }
    let (ours, theirs) = UnixStream::pair().map_err(|error| HostError::file("watch", "/", error))?;
    let listen = move || listen(&events, &theirs, &names, &changed);
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(listen)
        .map_err(|error| HostError::file("watch", "/", error))?;
    // Dropping our end stops the thread.
    Ok(Watch::new(ours))
}

/// The nearest folder above a path that is there, and the name in it that the path goes on with.
fn nearest(files: &Files, path: &str) -> Result<(OwnedFd, String), HostError> {
    let mut below = checked(path)?;
    loop {
        let (above, name) = below.rsplit_once('/').unwrap_or(("", below));
        match files.open_folder(above) {
            Ok(folder) => return Ok((folder, name.to_owned())),
            Err(Errno::NOENT | Errno::NOTDIR) if !above.is_empty() => below = above,
            Err(errno) => return Err(HostError::file("watch", path, errno)),
        }
    }
}

fn listen(events: &OwnedFd, stop: &UnixStream, names: &BTreeMap<i32, BTreeSet<String>>, changed: &ChangeCallback) {
    let Ok(mut file) = events.try_clone().map(std::fs::File::from) else { return };
    let mut buffer = vec![0_u8; BUFFER];
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        let Ok(length) = file.read(&mut buffer) else { continue };
        if is_listed(&buffer[..length], names) {
            changed();
        }
    }
}

/// Whether one of the events is about a name that is listed, or events were lost.
fn is_listed(mut events: &[u8], names: &BTreeMap<i32, BTreeSet<String>>) -> bool {
    let number =
        |bytes: &[u8], at: usize| -> Option<i32> { Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
    while let (Some(watch), Some(length)) = (number(events, 0), number(events, HEAD - 4)) {
        let end = HEAD + usize::try_from(length).unwrap_or(0);
        let name = events.get(HEAD..end).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        // A negative watch means that events were lost.
        let is_lost = watch < 0;
        if is_lost || names.get(&watch).is_some_and(|names| names.contains(String::from_utf8_lossy(name).as_ref())) {
            return true;
        }
        events = events.get(end..).unwrap_or_default();
    }
    false
}
