//! Huge pages: a page of 2 MiB is resident as a whole even if a small part of it is used.

/// Disables transparent huge pages for this process and its children; call it first. The allocator requests them, and a heap of
/// small objects grows by a tenth with them. An error is ignored: older kernels do not support it.
pub fn disable_huge_pages() {
    let _ = nix::sys::prctl::set_thp_disable(true);
}
