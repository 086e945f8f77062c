//! Every row on the server of the page on server and daemon, by its number; and what is asked of the endpoint beyond.
//! What needs a cluster is in `tests/endpoint`.
//!
//! Where the sections of part A are:
//!
//! | section | tests |
//! |---|---|
//! | A1 process | `door.rs` (TLS, its versions and ciphers, HTTP/2, no port without TLS, certificates that are exchanged), `access.rs`, the transcript `server.md` |
//! | A2 endpoints | S-01 to S-04, S-12, S-13, S-26, recorded methods and paths, paths with tricks |
//! | A3 versions | recorded headers, S-05 to S-11, odd parameters |
//! | A4 which config | S-21, S-27, `arguments_to_remove_cannot_be_said_in_old_versions`, `tests/endpoint` |
//! | A5 what is added | S-16 to S-18, S-22, S-23, `files_are_added_in_their_order`, `annotations_name_…`, `authority_replaces_…` |
//! | A6 bootstrap | S-19, S-20, `bootstrap.rs` |
//! | A7 caching | `nothing_is_served_before_everything_is_known`, `away.rs`, `answers_are_made_anew_only_when_something_in_them_changes` in `tests/endpoint` |
//! | A8 stub | `stub.rs`, and a machine that boots by it in `machine.rs` |
//! | C edge cases | S-04 for HEAD, recorded headers for a quoted version, `best_entry_decides_…`, `authority_replaces_…`, `pool_without_a_configuration_…` in `tests/endpoint` |
//!
//! Left out, with the reason:
//!
//! - S-24 and S-25, and A4's sixth step, the image of a layered pool: the kinds that it is looked up in, MachineOSConfig and
//!   MachineOSBuild, are not among ours. An image that was built ahead is named by an annotation, and that is tested
//!   (`content.rs`).
//! - Of S-10, that 3.0 is served: it is refused as a bad request, since nothing can be brought down to it.
//! - Of S-11, that a config of 3.1 is not read, and that a wrong type is refused: what we read is wider, and the types do
//!   not let the other be written.
//! - Of A1, the second port without TLS and the list of ciphers: there is neither.
//! - Of A2, 400 for a request without a path: no request can be without one.
//! - Of A6, the TLS profile in `api-server.yaml`: only strong ciphers exist, and the version is an option.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod access;
mod away;
mod bootstrap;
mod content;
mod door;
mod machine;
mod metrics;
mod negotiation;
mod stub;
mod support;
