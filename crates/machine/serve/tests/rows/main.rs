//! Conformance tests of the Ignition endpoint by number of the upstream behaviour (`s_01` …), and further requirements. Tests that
//! need a cluster are in `tests/endpoint`. docs/reference/upstream-behaviour.md says what the numbers mean.
//!
//! | area | tests |
//! |---|---|
//! | process | `socket.rs` (TLS, its versions and ciphers, HTTP/2, no port without TLS, certificates that are replaced), `access.rs`, the transcript `server.md` |
//! | methods and paths | `s_01` to `s_04`, `s_12`, `s_13`, `s_26`, recorded methods and paths, paths with tricks |
//! | versions | recorded headers, `s_05` to `s_11`, odd parameters, `best_entry_decides_…` |
//! | choice of the config | `s_21`, `s_27`, `arguments_to_remove_cannot_be_expressed_in_old_versions`, `tests/endpoint` |
//! | added files | `s_16` to `s_18`, `s_22`, `s_23`, `files_are_added_in_their_order`, `annotations_name_…`, `authority_replaces_…` |
//! | bootstrap | `s_19`, `s_20`, `bootstrap.rs` |
//! | caching | `nothing_is_served_before_the_source_is_read`, `unreachable_api.rs`, `answers_are_rebuilt_only_when_their_inputs_change` in `tests/endpoint` |
//! | stub | `stub.rs`, and a machine that boots by it in `machine.rs` |
//!
//! Not covered, with the reason:
//!
//! - `s_24` and `s_25`, the image of a layered pool: the kinds that it is looked up in, MachineOSConfig and MachineOSBuild, are
//!   not among ours. A pre-built image is named by an annotation, and that is tested (`content.rs`).
//! - Of `s_10`, that 3.0 is served: it is refused as a bad request, since no config can be translated down to it.
//! - Of `s_11`, that a config of 3.1 is not parsed, and that a wrong type is refused: more versions are parsed here, and a
//!   wrong type does not compile.
//! - A second port without TLS, and a list of ciphers: there is neither.
//! - The answer 400 to a request without a path: every request has one.
//! - A TLS profile in `api-server.yaml`: only strong ciphers exist, and the version is an option.

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
