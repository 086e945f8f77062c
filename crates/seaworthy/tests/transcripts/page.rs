//! A page with commands and what they print.
//!
//! In blocks marked `console`, a line `$ …` is a command, `? 1` below it is an exit code other than 0, and the rest is
//! what it prints, both outputs together. A line `...` matches any number of lines.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Page {
    file: PathBuf,
    lines: Vec<String>,
    pub steps: Vec<Step>,
}

/// A command and what it prints.
pub struct Step {
    /// The line of the command, counted from 0.
    at: usize,
    /// The first line behind what it prints.
    end: usize,
    pub command: String,
    code: i32,
    expected: Vec<String>,
}

/// Whether what is printed now is right, and the pages are to say it.
pub fn is_recording() -> bool {
    std::env::var_os("TRANSCRIPTS").is_some_and(|value| value == "overwrite")
}

/// What a command printed.
pub struct Answer {
    code: i32,
    lines: Vec<String>,
}

impl Page {
    pub fn read(file: &Path) -> Self {
        Page::fenced(file, "```console")
    }

    /// The page, of the blocks that begin like this.
    pub fn fenced(file: &Path, fence: &str) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut steps = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            if lines[at] == fence {
                let end = (at..lines.len()).find(|end| lines[*end] == "```").unwrap();
                let starts: Vec<usize> = (at..end).filter(|at| lines[*at].starts_with("$ ")).collect();
                for (nth, start) in starts.iter().enumerate() {
                    steps.push(Step::read(&lines, *start, starts.get(nth + 1).copied().unwrap_or(end)));
                }
                at = end;
            }
            at += 1;
        }
        Page { file: file.to_owned(), lines, steps }
    }

    /// What the answers say and the page does not, for people; none where the page is to be overwritten, which is done then.
    pub fn compare(&self, answers: &[Answer], with_codes: bool) -> Vec<String> {
        if is_recording() {
            self.overwrite(answers, with_codes);
            return Vec::new();
        }
        self.differences(answers, with_codes)
    }

    fn differences(&self, answers: &[Answer], with_codes: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for (step, answer) in self.steps.iter().zip(answers) {
            let place = format!("{}:{}: {}", self.file.display(), step.at + 1, step.command);
            if with_codes && step.code != answer.code {
                wrong.push(format!("{place}: the exit code is {}, not {}", answer.code, step.code));
            }
            if !matches(&step.expected, &answer.lines) {
                let (expected, printed) = (step.expected.join("\n"), answer.lines.join("\n"));
                wrong.push(format!("{place}\n--- the page says\n{expected}\n--- the program prints\n{printed}"));
            }
        }
        wrong
    }

    /// Puts the answers into the page, except where it leaves lines out and is right.
    fn overwrite(&self, answers: &[Answer], with_codes: bool) {
        let mut text = Vec::new();
        let mut at = 0;
        for (step, answer) in self.steps.iter().zip(answers) {
            text.extend_from_slice(&self.lines[at..=step.at]);
            if with_codes && answer.code != 0 {
                text.push(format!("? {}", answer.code));
            }
            let keeps = matches(&step.expected, &answer.lines);
            text.extend_from_slice(if keeps { &step.expected } else { &answer.lines });
            if self.lines[step.end].starts_with("$ ") {
                text.push(String::new());
            }
            at = step.end;
        }
        text.extend_from_slice(&self.lines[at..]);
        std::fs::write(&self.file, text.join("\n") + "\n").unwrap();
    }
}

impl Step {
    fn read(lines: &[String], at: usize, end: usize) -> Self {
        let command = lines[at][2..].to_owned();
        let code = lines[at + 1].strip_prefix("? ").map(|code| code.parse().unwrap());
        let expected = &lines[at + 1 + usize::from(code.is_some())..end];
        Step { at, end, command, code: code.unwrap_or(0), expected: trimmed(expected) }
    }
}

impl Answer {
    /// Runs a command and takes what it prints, in the order in which it does.
    pub fn of(mut command: Command, reading: impl Fn(&str) -> String) -> Self {
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // The command holds the writing ends too, and the end comes when all are closed.
        drop(command);
        let mut printed = String::new();
        reader.read_to_string(&mut printed).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        let lines: Vec<String> = reading(&printed).lines().map(str::to_owned).collect();
        Answer { code, lines: trimmed(&lines) }
    }
}

/// The lines without empty ones at the end.
fn trimmed(lines: &[String]) -> Vec<String> {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines[..end].to_vec()
}

/// Whether lines are as expected, `...` being any number of them.
fn matches(expected: &[String], lines: &[String]) -> bool {
    let Some(gap) = expected.iter().position(|line| line == "...") else {
        return expected == lines;
    };
    let (head, tail) = (&expected[..gap], &expected[gap + 1..]);
    if !lines.starts_with(head) {
        return false;
    }
    let rest = &lines[gap..];
    (0..=rest.len()).any(|skipped| matches(tail, &rest[skipped..]))
}

#[test]
fn dots_stand_for_any_number_of_lines() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&lines("a ... d"), &lines("a b c d")));
    assert!(matches(&lines("a ... b ..."), &lines("a b c d")));
    assert!(matches(&lines("a b"), &lines("a b")));
    assert!(!matches(&lines("a ... c"), &lines("a b c d")));
    assert!(!matches(&lines("a b"), &lines("a b c")));
    assert!(!matches(&lines("... x ..."), &lines("a b c")));
}
