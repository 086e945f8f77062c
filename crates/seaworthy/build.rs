//! Links the release build with identical functions folded. Generic code makes thousands of them: without it the program is
//! several megabytes larger.

use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const FOLD: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    // Elsewhere a probe would need a linker for the target, which cargo's configuration may name for cargo alone.
    let is_native = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    if is("PROFILE", "release") && is_native && is_supported() {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
}

/// Whether the linker knows the option: rust-lld does, which Rust uses on x86_64 Linux, and others may not.
fn is_supported() -> bool {
    let (Ok(rustc), Ok(folder)) = (env::var("RUSTC"), env::var("OUT_DIR")) else { return false };
    let mut command = Command::new(rustc);
    command.args(["--crate-type", "bin", "--crate-name", "probe", "-C", &format!("link-arg={FOLD}"), "-o"]);
    command.arg(Path::new(&folder).join("probe")).arg("-");
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.args(["-C", &format!("linker={linker}")]);
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return false };
    let is_written = child.stdin.take().is_some_and(|mut input| input.write_all(b"fn main() {}").is_ok());
    is_written && child.wait().is_ok_and(|status| status.success())
}
