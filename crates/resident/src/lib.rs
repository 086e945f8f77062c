//! What a process keeps in memory: code that it has no use for now is given back.
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

/// Gives back all pages of code and of the constants beside it. What is needed comes again by itself.
///
/// # Errors
///
/// If the kernel does not say what is mapped, or does not take it back. Nothing is lost by that but memory.
pub fn give_back_code() -> io::Result<()> {
    for mapping in Mapping::of_this_process()?.iter().filter(|mapping| mapping.is_as_the_file_has_it()) {
        give_back(mapping)?;
    }
    Ok(())
}

#[allow(unsafe_code, reason = "`madvise` has no safe form")]
fn give_back(code: &Mapping) -> io::Result<()> {
    let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(code.start)) else {
        return Ok(());
    };
    // SAFETY: the mapping is of a file, and not writable, so every page of it is as the file has it, and is read again from there by
    // whoever touches it next. Code is never unmapped while the process lives, so nothing else can have come to its place.
    unsafe { madvise(start, code.length, MmapAdvise::MADV_DONTNEED) }?;
    Ok(())
}
