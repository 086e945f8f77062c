//! Links the release build with identical functions folded. Generic code makes thousands of them: without it the program is
//! several megabytes larger.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FOLD: &str = "-Wl,--icf=all";

/// What cargo builds with beside the profile, and separates with [`SEPARATOR`].
const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
const SEPARATOR: char = '\x1f';
const LINKER: &str = "RUSTC_LINKER";

/// The compiler as cargo starts it: each program is an argument of the one before it.
const COMPILER: [&str; 3] = ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTC"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in [FLAGS, LINKER] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    // Elsewhere a probe would need a linker for the target, which cargo's configuration may name for cargo alone.
    let is_native = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    if is("PROFILE", "release") && is_native && is_supported() {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
}

/// Whether the linker knows the option: rust-lld does, which Rust uses on x86_64 Linux, and others may not. The probe is built
/// as the program will be, since wrappers and flags may choose another linker.
fn is_supported() -> bool {
    let program = |variable: &str| env::var_os(variable).filter(|program| !program.is_empty());
    let mut programs = COMPILER.into_iter().filter_map(program);
    let (Some(compiler), Some(folder)) = (programs.next(), env::var_os("OUT_DIR").map(PathBuf::from)) else {
        return false;
    };
    let source = folder.join("probe.rs");
    // A file: a wrapper may not pass standard input on.
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut command = Command::new(compiler);
    command.args(programs).args(["--crate-name", "probe", "--crate-type", "bin", "-C", &format!("link-arg={FOLD}")]);
    command.arg("-o").arg(folder.join("probe")).arg(&source);
    if let Some(linker) = program(LINKER) {
        let mut argument = OsString::from("linker=");
        argument.push(linker);
        command.arg("-C").arg(argument);
    }
    // Behind the others, as cargo has them: the last of two linkers counts.
    let flags = env::var(FLAGS).unwrap_or_default();
    command.args(flags.split(SEPARATOR).filter(|flag| !flag.is_empty()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
