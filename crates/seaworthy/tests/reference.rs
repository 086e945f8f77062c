//! Reference pages of the program: the help of every command, and the rights of every component.
//!
//! `UPDATE_REFERENCE=1 cargo test -p seaworthy --test suite reference` writes them; without the variable they are compared.
//! What is before the first generated section, and after the last one, is written by hand and stays.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::program::Program;

/// Compares a page with what it should be, or writes it.
fn check(name: &str, generate: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let written = std::fs::read_to_string(&path).unwrap();
    let page = generate(&written);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        written == page,
        "docs/reference/{name} is stale; regenerate it with `UPDATE_REFERENCE=1 cargo test -p seaworthy --test suite reference`"
    );
}

/// Writes the help of a command and of its subcommands, in the order in which help lists them.
fn write_help(page: &mut String, program: &Program, command: &[&str]) {
    let help = program.run(command.iter().copied().chain(["--help"])).expect(0).stdout;
    let name = ["seaworthy"].into_iter().chain(command.iter().copied()).collect::<Vec<_>>().join(" ");
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end()).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Deeper lines continue a description.
    for line in lines.filter(|line| !line.starts_with("   ")) {
        let subcommand = line.split_whitespace().next().unwrap();
        if subcommand != "help" {
            write_help(page, program, &[command, &[subcommand]].concat());
        }
    }
}

/// The strings of a list, as one cell of a table.
fn cell(list: &Value) -> String {
    let words: Vec<&str> = list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    words.join(", ")
}

/// Writes the rules of a role, and who has them.
fn write_role(page: &mut String, role: &Value, objects: &[Value]) {
    let (kind, name) = (role["kind"].as_str().unwrap(), role["metadata"]["name"].as_str().unwrap());
    let binding = format!("{kind}Binding");
    let is_binding = |object: &&Value| object["kind"] == binding.as_str() && object["metadata"] == role["metadata"];
    let subject = &objects.iter().find(is_binding).unwrap()["subjects"][0];
    let subject = format!("{} `{}`", subject["kind"].as_str().unwrap(), subject["name"].as_str().unwrap());
    let (title, scope) = match role["metadata"]["namespace"].as_str() {
        Some(namespace) => (format!("{kind} {name} in {namespace}"), format!("In the namespace `{namespace}`")),
        None => (format!("{kind} {name}"), "In the whole cluster".to_owned()),
    };
    write!(page, "\n## {title}\n\n{scope}, for {subject}.\n\n").unwrap();
    page.push_str("| group | resources | names | verbs |\n|---|---|---|---|\n");
    for rule in role["rules"].as_array().unwrap() {
        let group = cell(&rule["apiGroups"]);
        let group = if group.is_empty() { "core" } else { &group };
        let names = rule.get("resourceNames").map_or_else(|| "any".to_owned(), cell);
        writeln!(page, "| {group} | {} | {names} | {} |", cell(&rule["resources"]), cell(&rule["verbs"])).unwrap();
    }
}

#[test]
fn page_of_commands_is_current() {
    check("cli.md", |written| {
        let mut page = written.split_once("\n## ").unwrap().0.to_owned();
        write_help(&mut page, &Program::new(), &[]);
        assert!(page.matches("\n## ").count() > 20, "{page}");
        page
    });
}

#[test]
fn page_of_rights_is_current() {
    let command = ["manifests", "--apiserver-url", "https://api.example.com:6443", "-o", "json"];
    let manifests = Program::new().run(command).expect(0).json();
    let objects = manifests["items"].as_array().unwrap();
    check("rights.md", |written| {
        let mut page = written.split_once("\n## ").unwrap().0.to_owned();
        for role in objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role") {
            write_role(&mut page, role, objects);
        }
        assert!(page.matches("\n## ").count() > 5, "{page}");
        page.push_str(&written[written.find("\n## Admission policies").unwrap()..]);
        page
    });
}
