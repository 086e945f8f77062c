//! Transcripts of every command, compared with what the program prints: the pages in `tests/cmd`, and the tutorial's.
//!
//! After a change that is meant, `TRANSCRIPTS=overwrite cargo test -p seaworthy --test suite transcripts` writes the new output
//! into the pages.

pub mod page;

use std::path::Path;

use crate::program::Program;
use page::{Answer, Page, Step};

/// Runs a command of a page in a folder.
fn answer(step: &Step, program: &Program, folder: &Path) -> Answer {
    let mut words = step.command.split_whitespace();
    assert_eq!(words.next(), Some("seaworthy"));
    let mut command = program.command(words);
    command.current_dir(folder);
    Answer::of(command, str::to_owned)
}

#[test]
fn the_program_prints_what_the_pages_say() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files: Vec<_> = std::fs::read_dir(tests.join("cmd")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in files {
        let page = Page::read(&file);
        let program = Program::new();
        // A daemon writes to its machine.
        let is_written_to = file.file_stem().is_some_and(|stem| stem == "daemon");
        let folder = if is_written_to { program.path("") } else { tests.clone() };
        if is_written_to {
            std::fs::create_dir(program.path("machine")).unwrap();
        }
        let answers: Vec<_> = page.steps.iter().map(|step| answer(step, &program, &folder)).collect();
        wrong.extend(page.compare(&answers, true));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_offline_tutorial_works_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in ["README.md", "docs/tutorial/first-render.md"] {
        let page = Page::read(&root.join(file));
        count += page.steps.len();
        let program = Program::new();
        let answers: Vec<_> = page.steps.iter().map(|step| answer(step, &program, &root)).collect();
        // Readers do not see exit codes.
        wrong.extend(page.compare(&answers, false));
    }
    assert!(count >= 5, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_command_has_a_page_and_its_help() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let pages: String = [
        "render",
        "explain",
        "diff",
        "lint",
        "plan",
        "controllers",
        "rollout",
        "ignition",
        "crds",
        "manifests",
        "apiserver",
        "server",
        "daemon",
        "up",
        "pages",
    ]
    .iter()
    .map(|page| std::fs::read_to_string(tests.join(format!("{page}.md"))).unwrap())
    .collect();
    let help = std::fs::read_to_string(tests.join("help.md")).unwrap();
    let outcome = Program::new().run(["--help"]).expect(0);
    let commands =
        outcome.stdout.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut count = 0;
    for line in commands.filter(|line| !line.starts_with("   ")) {
        let command = line.split_whitespace().next().unwrap();
        if command != "help" {
            assert!(pages.contains(&format!("$ seaworthy {command}")), "no page shows {command}");
            assert!(help.contains(&format!("$ seaworthy {command} --help")), "no page shows the help of {command}");
            count += 1;
        }
    }
    assert!(count >= 8, "{}", outcome.stdout);
}

#[test]
fn a_manual_page_is_written_for_each_command() {
    let program = Program::new();
    program.run(["man", "--dir", "pages/man1"]).expect(0);
    let mut pages: Vec<_> =
        std::fs::read_dir(program.path("pages/man1")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    pages.sort();
    for page in ["seaworthy.1", "seaworthy-render.1", "seaworthy-ignition-convert.1", "seaworthy-man.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    let page = std::fs::read_to_string(program.path("pages/man1/seaworthy-render.1")).unwrap();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    assert_eq!(sections, ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO"]);
    assert!(
        page.contains(".SH EXAMPLES\n.nf\n  # Render every") && page.contains("seaworthy render \\-f manifests/"),
        "{page}"
    );
    assert!(page.ends_with("\\fBseaworthy\\fR(1)\n"), "{page}");
}

#[test]
fn bash_takes_the_completion_script() {
    let program = Program::new();
    let mut bash = std::process::Command::new("bash");
    program.settle(&mut bash);
    bash.env("SEAWORTHY", env!("CARGO_BIN_EXE_seaworthy"));
    let script = r#"eval "$("$SEAWORTHY" completions bash)" && complete -p seaworthy"#;
    let output = bash.args(["-e", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("-F _seaworthy"));
}
