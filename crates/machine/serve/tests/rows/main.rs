//! Conformance tests of the Ignition endpoint by row number (`S-01` …), and further requirements. Tests that need a cluster
//! are in `tests/endpoint`.
//!
//! Where the sections are tested:
//!
//! | section | tests |
//! |---|---|
//! | A1 process | `socket.rs` (TLS, its versions and ciphers, HTTP/2, no port without TLS, certificates that are replaced), `access.rs`, the transcript `server.md` |
//! | A2 endpoints | S-01 to S-04, S-12, S-13, S-26, recorded methods and paths, paths with tricks |
//! | A3 versions | recorded headers, S-05 to S-11, odd parameters |
//! | A4 which config | S-21, S-27, `arguments_to_remove_cannot_be_expressed_in_old_versions`, `tests/endpoint` |
//! | A5 what is added | S-16 to S-18, S-22, S-23, `files_are_added_in_their_order`, `annotations_name_…`, `authority_replaces_…` |
//! | A6 bootstrap | S-19, S-20, `bootstrap.rs` |
//! | A7 caching | `nothing_is_served_before_the_source_is_read`, `unreachable_api.rs`, `answers_are_rebuilt_only_when_their_inputs_change` in `tests/endpoint` |
//! | A8 stub | `stub.rs`, and a machine that boots by it in `machine.rs` |
//! | C edge cases | S-04 for HEAD, recorded headers for a quoted version, `best_entry_decides_…`, `authority_replaces_…`, `pool_without_a_configuration_…` in `tests/endpoint` |
//!
//! Not covered, with the reason:
//!
//! - S-24 and S-25, and A4's sixth step, the image of a layered pool: the kinds that it is looked up in, MachineOSConfig and
//!   MachineOSBuild, are not among ours. A pre-built image is named by an annotation, and that is tested
//!   (`content.rs`).
//! - Of S-10, that 3.0 is served: it is refused as a bad request, since no config can be translated down to it.
//! - Of S-11, that a config of 3.1 is not parsed, and that a wrong type is refused: more versions are parsed here, and a
//!   wrong type does not compile.
//! - Of A1, the second port without TLS and the list of ciphers: there is neither.
//! - Of A2, 400 for a request without a path: every request has one.
//! - Of A6, the TLS profile in `api-server.yaml`: only strong ciphers exist, and the version is an option.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod access;
mod bootstrap;
mod content;
mod machine;
mod metrics;
mod negotiation;
mod socket;
mod stub;
mod support;
mod unreachable_api;
