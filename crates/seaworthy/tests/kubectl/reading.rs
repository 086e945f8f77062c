//! Output of a command without the parts that differ in each run.

use std::sync::LazyLock;

use regex::Regex;

/// What changes from run to run, and what the pages have in its place.
static CHANGES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Colours, which some commands print even into a file.
        (r"\x1b\[[0-9;]*m", ""),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r#"("?resourceVersion"?:) "\d+""#, r#"$1 "N""#),
        (r"https://127\.0\.0\.1:\d+", "https://SERVER"),
        (r#""\S*/kubectl-edit-\d+\.yaml""#, "FILE"),
        // Only newer releases name the namespace.
        (r"deleted from \S+ namespace", "deleted"),
        // What kubectl logs for itself when its time runs out in the middle of a request, as it happens to.
        (r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ reflector\.go:\d+\].*\n", ""),
        // What `diff` is called with, and how old it finds that.
        (r"(?m)^diff .*\n", ""),
        (r"(?m)^(---|\+\+\+) \S*/(LIVE|MERGED)-\d+/(\S+).*$", "$1 $2/$3"),
        // Ages, in two forms that do not move the columns behind them, nor end a line with spaces.
        (r"(?m)(  )(\d+s|<invalid>)$", "${1}AGE"),
        (r"(  )\ds (  )", "${1}AGE$2"),
        (r"(  )\d\ds(  )", "${1}AGE$2"),
    ]
    .into_iter()
    .map(|(pattern, change)| (Regex::new(pattern).unwrap(), change))
    .collect()
});

pub fn of(printed: &str) -> String {
    let mut text = printed.to_owned();
    for (pattern, change) in CHANGES.iter() {
        text = pattern.replace_all(&text, *change).into_owned();
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn only_what_changes_from_run_to_run_is_replaced() {
    let uid = "0fae3a5c-0000-4000-8000-0123456789ab";
    let text =
        format!("NAME   AGE   X\na      3s    1\nb      12s   2\nc      5s\nuid: {uid}\n  resourceVersion: \"12\"\n");
    let read = "NAME   AGE   X\na      AGE   1\nb      AGE   2\nc      AGE\nuid: UID\n  resourceVersion: \"N\"";
    assert_eq!(of(&text), read);
    assert_eq!(of("a\nE1115 18:05:15.536413   20856 reflector.go:227] \"Failed to watch\"\nb\n"), "a\nb");
    let settled = "timeout: 30s\nimage: a:1.2\nat 3s";
    assert_eq!(of(settled), settled);
}
