//! The README's tour works as printed.

use std::process::Command;

#[test]
fn every_command_of_the_tour_prints_what_the_readme_says() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_seaworthy"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut commands = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let (command, expected) = block.split_once('\n').unwrap();
        let command = command.strip_prefix("$ ").unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>/dev/null")])
            .current_dir(root)
            .env("PATH", &path)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{command}");
        commands += 1;
    }
    assert_eq!(commands, 5);
}
