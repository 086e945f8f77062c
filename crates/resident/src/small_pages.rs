//! No huge pages: memory in pieces of 2 MiB is resident as a whole for whatever lives in a corner of it.

/// Has this process, and what it starts, get no huge pages from now on: best called before anything else. The allocator asks
/// for them, and a heap of small objects grows by a tenth with them. Where the kernel does not know this, nothing is lost.
pub fn take_small_pages() {
    let _ = nix::sys::prctl::set_thp_disable(true);
}
