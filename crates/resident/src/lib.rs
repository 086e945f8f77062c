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

/// The program's own code, and the constants before it.
///
/// Looked up once: these mappings stay for as long as the program runs, and a lookup at every release would need code itself.
pub struct OwnCode(Vec<Mapping>);

impl OwnCode {
    /// Finds the mappings of this process.
    ///
    /// # Errors
    ///
    /// If /proc/self/maps cannot be read.
    pub fn find() -> io::Result<OwnCode> {
        // Not by inode: the inode in the list of mappings may differ from the one that the filesystem reports.
        let here = (OwnCode::find as *const ()).addr();
        Ok(OwnCode(Mapping::around(&Mapping::of_this_process()?, here)))
    }

    pub fn mappings(&self) -> &[Mapping] {
        &self.0
    }

    /// Releases all pages. Those in use are read back on the next access.
    ///
    /// Libraries keep theirs: a library, and any file that one has mapped briefly, can be unmapped at any time, and another
    /// mapping can take its place before it is released.
    ///
    /// # Errors
    ///
    /// If the kernel refuses. Nothing but memory is lost.
    pub fn release(&self) -> io::Result<()> {
        self.0.iter().try_for_each(release)
    }
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
