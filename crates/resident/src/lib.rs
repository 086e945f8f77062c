//! Resident memory of a process: disables huge pages, and releases code pages that are not in use.
//!
//! A program that can do everything is large, and the kernel maps 64 KiB around each function that is called once: half of the text is
//! resident after the start of a process that is then idle for weeks. Code pages are backed by the file, so releasing them
//! costs nothing, and using one again costs a fault that finds it in the page cache.

mod huge_pages;
mod mapping;

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use nix::sys::mman::{MmapAdvise, madvise};

pub use huge_pages::disable_huge_pages;
pub use mapping::Mapping;

/// Releases all pages of the program's own code and of the constants before it. Pages in use are read back on the next access.
///
/// Libraries keep theirs: a library, and any file that one has mapped briefly, can be unmapped at any time, and another mapping
/// can take its place before it is released.
///
/// # Errors
///
/// If /proc/self/maps cannot be read, or the kernel refuses. Nothing but memory is lost.
pub fn release_code_pages() -> io::Result<()> {
    own_code()?.iter().try_for_each(release)
}

/// The mappings of the program's own code, and of the constants before it.
///
/// # Errors
///
/// If /proc/self/maps cannot be read.
pub fn own_code() -> io::Result<Vec<Mapping>> {
    // Not by inode: the inode in the list of mappings may differ from the one that the filesystem reports.
    let here = (own_code as *const ()).addr();
    Ok(Mapping::around(&Mapping::of_this_process()?, here))
}

#[allow(unsafe_code, reason = "`madvise` has no safe form")]
fn release(code: &Mapping) -> io::Result<()> {
    let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(code.start)) else {
        return Ok(());
    };
    // SAFETY: the mapping is of a file, and not writable, so every page of it has the file's content, and is read again from there on
    // the next access. It is the one that this function itself lies in, or the part of the same file right before it: the
    // kernel has mapped both with the program, and nothing unmaps a running program, so no other mapping can be in their place.
    unsafe { madvise(start, code.length, MmapAdvise::MADV_DONTNEED) }?;
    Ok(())
}
