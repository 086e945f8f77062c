//! What a process keeps in memory: no huge pages, and code that it has no use for now is given back.
//!
//! A program that can do everything is large, and the kernel maps 64 KiB around each function that is called once: half of the text is
//! resident after the start of a process that then waits for weeks. Pages of code are the file's own, so to give them back
//! costs nothing, and to need one again costs a fault that finds it in the page cache.

mod mapping;
mod small_pages;

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use nix::sys::mman::{MmapAdvise, madvise};

pub use mapping::Mapping;
pub use small_pages::take_small_pages;

/// Gives back all pages of the program's own code and of the constants before it. What is needed comes again by itself.
///
/// Libraries keep theirs: a library, and any file that one has mapped for a moment, can go at any time, and something else can
/// come to its place before it is given back.
///
/// # Errors
///
/// If the kernel does not say what is mapped, or does not take it back. Nothing is lost by that but memory.
pub fn give_back_code() -> io::Result<()> {
    own_code()?.iter().try_for_each(give_back)
}

/// Where the program's own code is, and the constants before it.
///
/// # Errors
///
/// If the kernel does not say what is mapped.
pub fn own_code() -> io::Result<Vec<Mapping>> {
    // Not by the file's number: what a filesystem says of a file and what the list of mappings says need not be the same.
    let here = (own_code as *const ()).addr();
    Ok(Mapping::around(&Mapping::of_this_process()?, here))
}

#[allow(unsafe_code, reason = "`madvise` has no safe form")]
fn give_back(code: &Mapping) -> io::Result<()> {
    let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(code.start)) else {
        return Ok(());
    };
    // SAFETY: the mapping is of a file, and not writable, so every page of it is as the file has it, and is read again from there by
    // whoever touches it next. It is the one that this function itself lies in, or the part of the same file right before it: the
    // kernel has put both there with the program, and nobody unmaps a program that runs, so nothing else can have come to their place.
    unsafe { madvise(start, code.length, MmapAdvise::MADV_DONTNEED) }?;
    Ok(())
}
