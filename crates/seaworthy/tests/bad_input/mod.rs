//! Bad input: every mistake gets the right exit code and a message with the place, what was found and what to do; none causes a
//! panic, a hang or unbounded memory.

mod assumed;
mod files;
mod hints;
mod json;
mod objects;
mod output;
mod planned;
mod secrets;
mod sides;
mod slips;
mod yaml;

use std::process::Command;

use crate::program::{Outcome, Program};

/// Renders a file of this name and content.
fn render(name: &str, content: impl AsRef<[u8]>) -> Outcome {
    let program = Program::new();
    program.file(name, content);
    program.run(["render", "-f", name, "-o", "json"])
}

/// As [`render`], where no more than this much address space is to be had.
fn render_within(mib: usize, name: &str, content: impl AsRef<[u8]>) -> Outcome {
    let program = Program::new();
    program.file(name, content);
    let mut command = Command::new("sh");
    program.settle(&mut command);
    let limit = format!("ulimit -v {} && exec \"$@\"", mib * 1024);
    command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_seaworthy"), "render", "-f", name, "-o", "json"]);
    Outcome::of(command.output().unwrap())
}

/// The spec of the only item that was rendered.
fn spec(outcome: &Outcome) -> serde_json::Value {
    let list = outcome.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    list["items"][0]["spec"].clone()
}
