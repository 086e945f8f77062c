//! Unreadable files and folders, and the error for each.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::program::{Program, machine_config};

#[test]
fn a_missing_file_is_named() {
    let outcome = Program::new().run(["render", "-f", "nowhere.yaml"]).expect(2);
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr, "error: file or folder not found: nowhere.yaml\n");
}

#[test]
fn every_missing_file_is_named_not_the_first_only() {
    let outcome = Program::new().run(["lint", "-f", "one.yaml", "-f", "two.json"]).expect(2);
    outcome.says(&["file or folder not found: one.yaml", "file or folder not found: two.json"]);
}

#[test]
fn a_file_without_permission_is_named() {
    let program = Program::new();
    let path = program.file("secret.yaml", machine_config("{}"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    // Root reads it all the same; then reading fails only where no user can: the memory of a process at address 0.
    let file = if std::fs::File::open(&path).is_err() { "secret.yaml" } else { "/proc/self/mem" };
    program.run(["render", "-f", file]).expect(2).says(&["error: cannot read ", file]);
}

#[test]
fn an_empty_folder_is_reported_as_without_manifests() {
    let program = Program::new();
    program.file("manifests/notes.txt", "not a manifest");
    let outcome = program.run(["render", "-f", "manifests"]).expect(2);
    assert_eq!(outcome.stderr, "error: no manifest (*.yaml, *.yml, *.json) in manifests\n");
}

#[test]
fn a_folder_of_folders_leads_to_the_option_for_it() {
    let program = Program::new();
    program.file("manifests/worker/a.yaml", machine_config("{}"));
    program.run(["render", "-f", "manifests"]).expect(2).says(&["subfolders have some: add -R"]);
    program.run(["render", "-R", "-f", "manifests"]).expect(0);
}

#[test]
fn hidden_files_are_passed_over() {
    let program = Program::new();
    program.file("manifests/a.yaml", machine_config("{}"));
    program.file("manifests/.a.yaml.swp.yaml", "\0");
    program.run(["render", "-f", "manifests"]).expect(0);
}

#[test]
fn links_that_lead_in_circles_are_followed_once() {
    let program = Program::new();
    program.file("manifests/below/a.yaml", machine_config("{}"));
    // Two of them double the number of ways at every level: trying all would not end.
    symlink(".", program.path("manifests/again")).unwrap();
    symlink("..", program.path("manifests/below/up")).unwrap();
    let outcome = program.run(["render", "-R", "-f", "manifests"]).expect(0);
    assert!(!outcome.stderr.contains("given twice"), "{}", outcome.stderr);
}

#[test]
fn folders_nested_beyond_reason_are_refused() {
    let program = Program::new();
    program.file(&format!("{}a.yaml", "manifests/".repeat(40)), machine_config("{}"));
    program.run(["render", "-R", "-f", "manifests"]).expect(2).says(&["are nested deeper than 32"]);
}

#[test]
fn a_link_to_nothing_in_a_folder_is_named() {
    let program = Program::new();
    program.file("manifests/a.yaml", machine_config("{}"));
    symlink("gone", program.path("manifests/b.yaml")).unwrap();
    program.run(["render", "-f", "manifests"]).expect(2).says(&["cannot read manifests/b.yaml: No such file"]);
}

#[test]
fn a_pipe_in_a_folder_is_refused_rather_than_waited_for() {
    let program = Program::new();
    program.file("manifests/a.yaml", machine_config("{}"));
    let made = std::process::Command::new("mkfifo").arg(program.path("manifests/pipe.yaml")).status().unwrap();
    assert!(made.success());
    program.run(["render", "-f", "manifests"]).expect(2).says(&["manifests/pipe.yaml is not a file"]);
}

#[test]
fn standard_input_is_read_once() {
    let program = Program::new();
    let outcome = program.run_with_input(["render", "-f", "-", "-f", "-"], machine_config("{}").as_bytes());
    outcome.expect(2).says(&["-f - is given twice; standard input can be read only once"]);
}

#[test]
fn an_empty_standard_input_has_nothing_to_render() {
    let outcome = Program::new().run_with_input(["render", "-f", "-"], b"").expect(2);
    outcome.says(&["no MachineConfigPool in the input, and no MachineConfig"]);
}

#[test]
fn the_largest_input_is_the_one_that_was_asked_for() {
    let program = Program::new();
    let mut text = machine_config("{}");
    text.push_str(&" ".repeat(1024 * 1024 - text.len()));
    program.file("exact.json", &text);
    program.file("over.json", text + " ");
    program.run(["render", "-f", "exact.json", "--max-input", "1"]).expect(0);
    let outcome = program.run(["render", "-f", "over.json", "--max-input", "1"]).expect(2);
    assert_eq!(
        outcome.stderr,
        "error: over.json is larger than 1 MiB; split it, or raise the limit with --max-input\n"
    );
}

#[test]
fn a_hundred_megabytes_are_refused_until_asked_for() {
    let program = Program::new();
    let body = "x".repeat(100_000_000);
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{{"apiVersion":"v1","kind":"ConfigMap","data":{{"x":"{body}"}}}},{}]}}"#,
        machine_config("{}")
    );
    program.file("large.json", text);
    program.run(["render", "-f", "large.json"]).expect(2).says(&["large.json is larger than 80 MiB", "--max-input"]);
    let outcome = program.run(["render", "-f", "large.json", "--max-input", "96", "-o", "name"]).expect(0);
    assert_eq!(outcome.stdout, "rendered-worker-6da92b29d98fcd722bbf117520c22ee4\n");
}

#[test]
fn endless_input_ends_at_the_limit() {
    Program::new().run(["render", "-f", "/dev/zero"]).expect(2).says(&["/dev/zero is larger than 80 MiB"]);
}
