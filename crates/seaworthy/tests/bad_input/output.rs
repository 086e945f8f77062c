//! Output: closed pipes, full disks, and colours on a terminal only.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::program::{Outcome, Program, given, machine_config};

const COMMANDS: [&[&str]; 9] = [
    &["render", "-f", "m.json"],
    &["render", "-f", "m.json", "-o", "json"],
    &["explain", "-f", "m.json"],
    &["lint", "-f", "m.json"],
    &["ignition", "validate", "-f", "c.ign"],
    &["ignition", "convert", "--to", "3.1.0", "-f", "c.ign"],
    &["crds", "--group", "kmm.sigs.x-k8s.io"],
    &["completions", "bash"],
    &["man"],
];

fn prepared() -> Program {
    let program = Program::new();
    // Enough of it to fill any pipe.
    let files: Vec<String> =
        (0..3_000).map(|nth| format!(r#"{{"path":"/etc/{nth}","contents":{{"source":"data:,{nth}"}}}}"#)).collect();
    let config = format!(r#"{{"ignition":{{"version":"3.4.0"}},"storage":{{"files":[{}]}}}}"#, files.join(","));
    program.file("m.json", machine_config(&format!(r#"{{"config":{config}}}"#)));
    program.file("c.ign", config);
    program
}

#[test]
fn a_reader_that_leaves_is_left_alone() {
    let program = prepared();
    for args in COMMANDS {
        let mut child = program.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // As `head -n 1` does.
        let mut line = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let outcome = Outcome::of(child.wait_with_output().unwrap()).expect(0);
        let errors: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert!(errors.is_empty(), "{args:?}: {errors:?}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let program = prepared();
    for args in COMMANDS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let outcome = Outcome::of(program.command(args).stdout(full).output().unwrap());
        assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
        outcome.says(&["error: cannot write the output: No space left on device"]);
    }
}

/// What a command prints on a terminal, standard error included.
fn on_a_terminal(mut command: Command) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || File::options().read(true).write(true).open(&name).unwrap();
    let mut child = command.stdin(terminal()).stdout(terminal()).stderr(terminal()).spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    let mut master = File::from(master);
    let mut buffer = [0; 4096];
    // Reading fails when the last one who had the terminal open is gone.
    while let Ok(count @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..count]);
    }
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

const BROKEN: &str = r#"{"kernelType": "rt"}"#;

#[test]
fn colours_are_shown_on_a_terminal() {
    let program = Program::new();
    program.file("m.json", machine_config(BROKEN));
    for command in ["lint", "render"] {
        let mut command = program.command([command, "-f", "m.json"]);
        command.env("TERM", "xterm-256color");
        let shown = on_a_terminal(command);
        assert!(shown.contains("\u{1b}[1m\u{1b}[31merror"), "{shown:?}");
    }
}

#[test]
fn no_colours_where_they_are_not_wanted() {
    let program = Program::new();
    program.file("m.json", machine_config(BROKEN));
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = program.command(["lint", "-f", "m.json"]);
        command.env("TERM", "xterm-256color").env(name, value);
        let shown = on_a_terminal(command);
        assert!(shown.contains("error[kernel-type]") && !shown.contains('\u{1b}'), "{name}: {shown:?}");
    }
}

#[test]
fn no_colours_in_a_pipe() {
    let program = Program::new();
    program.file("m.json", machine_config(BROKEN));
    let old = given("rendered/before.yaml").into_os_string().into_string().unwrap();
    let new = given("rendered/after.yaml").into_os_string().into_string().unwrap();
    for args in [vec!["lint", "-f", "m.json"], vec!["render", "-f", "m.json"], vec!["diff", "-f", &old, "-f", &new]] {
        let outcome = Outcome::of(program.command(args).env("TERM", "xterm-256color").output().unwrap()).expect(1);
        assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'), "{outcome:?}");
    }
}

/// The text without the colours that the program itself gives it.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((codes, rest)) if codes.bytes().all(|b| b.is_ascii_digit() || b == b';') => plain.push_str(rest),
            _ => panic!("a command that is no colour: {part:?} in {text:?}"),
        }
    }
    plain
}

#[test]
fn what_a_manifest_says_cannot_command_the_terminal() {
    let program = Program::new();
    let config = |body: &str| {
        format!(
            r#"{{"ignition":{{"version":"3.5.0"}},"storage":{{"files":[{{"path":"/etc/\u001b[2J\u0007x","contents":{{"source":"data:,%1b%5b2J{body}%0a"}}}}]}}}}"#
        )
    };
    let named = |name: &str, more: &str| {
        let spec = format!(r#"{{"config":{}{more}}}"#, config(name));
        machine_config(&spec).replace("50-worker", &format!(r"{name}\u001b[2J"))
    };
    program.file("wrong.json", named("a", r#","kernelType":"\u001b[2J""#));
    program.file("one.json", named("b", r#","kernelArguments":["b\u001b[2J"]"#));
    program.file("two.json", named("c", r#","kernelArguments":["b\u001b[2J"]"#));
    program.file("empty.json", machine_config("{}"));
    program.file("\u{1b}[2J.json", "{\u{7}");
    program.file("wrong.ign", config("x").replace("data:,", "\\u001b[2J:"));
    for args in [
        vec!["lint", "-f", "wrong.json", "-f", "one.json", "-f", "two.json"],
        vec!["render", "-f", "wrong.json", "-o", "name"],
        vec!["render", "-f", "\u{1b}[2J.json"],
        vec!["explain", "-f", "one.json"],
        vec!["explain", "-f", "one.json", "-f", "two.json", "/etc/\u{1b}[2J\u{7}x"],
        vec!["explain", "-f", "one.json", "/etc/\u{1b}[2J\u{7}y"],
        vec!["diff", "-f", "empty.json", "-f", "two.json"],
        vec!["diff", "-f", "one.json", "-f", "two.json"],
        vec!["ignition", "validate", "-f", "wrong.ign"],
        vec!["ignition", "convert", "--to", "3.1.0", "-f", "wrong.ign"],
    ] {
        let mut command = program.command(&args);
        command.env("TERM", "xterm-256color");
        let shown = without_colours(&on_a_terminal(command));
        assert!(shown.contains("[2J"), "{args:?}: the test has lost its point: {shown}");
        let control = shown.replace("\r\n", "\n").chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(control, None, "{args:?}: {shown:?}");
    }
}

/// What a command prints and how it ends when its output is not read.
fn unread(program: &Program, args: &[&str]) -> Outcome {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Outcome::of(program.command(args).stdout(writer).output().unwrap())
}

#[test]
fn exit_code_is_the_same_with_a_closed_pipe() {
    let program = prepared();
    program.file("broken.json", machine_config(BROKEN));
    program.file("empty.json", machine_config("{}"));
    program.file("broken.ign", "{}");
    for (args, code) in [
        (&["diff", "m.json", "empty.json"][..], 1),
        (&["diff", "m.json", "empty.json", "-o", "json"], 1),
        (&["diff", "m.json", "broken.json"], 2),
        (&["lint", "--strict", "-f", "broken.json"], 1),
        (&["lint", "-f", "broken.json", "-o", "json"], 1),
        (&["lint", "-f", "nowhere.json", "-o", "json"], 2),
        (&["ignition", "validate", "-f", "broken.ign"], 1),
        (&["render", "-f", "broken.json"], 1),
        (&["render", "-f", "broken.json", "-o", "name"], 1),
        (&["explain", "-f", "broken.json"], 1),
    ] {
        let read = program.run(args).expect(code);
        let outcome = unread(&program, args).expect(code);
        assert_eq!(outcome.stderr, read.stderr, "{args:?}");
    }
    unread(&program, &["render", "-f", "broken.json"]).says(&["error[kernel-type]", "kernelType=rt is invalid"]);
}
