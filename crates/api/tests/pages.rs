//! Pages that are written by hand, compared with the sources that they are about: what is listed exists, and what exists is
//! listed.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use seaworthy_api::vocabulary::machineconfiguration::WaitingReason;
use seaworthy_api::words::Word as _;

use crate::reference::{program, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the tables in a text, each as its cells. The heads of tables are left out.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let lines = lines.iter().enumerate().filter(|(at, line)| line.starts_with("| ") && !is_head(*at));
    lines.map(|(_, line)| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The part of a page from one heading to the next of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let found = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading:?}")).1;
    found.split("\n## ").next().unwrap()
}

/// The texts that a pattern captures in any of the sources.
fn captured(sources: &[String], pattern: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    let found = sources.iter().flat_map(|source| pattern.captures_iter(source));
    found.map(|found| found.iter().skip(1).flatten().next().unwrap().as_str().to_owned()).collect()
}

// === metrics.md ===

/// A metric: its type as the page writes it, and its labels.
type MetricRow = (String, Vec<String>);

/// The metrics that a source registers, by name.
fn metrics(source: &str, prefix: &str) -> BTreeMap<String, MetricRow> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let find = |pattern: &str| Regex::new(pattern).unwrap();
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let alias = find(r"type (\w+) = ([^;]+);");
    let aliases: BTreeMap<_, _> =
        alias.captures_iter(source).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    for found in find(r"(?m)^\s+(?:pub )?(\w+): ((?:Family<.*>)|\w+),$").captures_iter(source) {
        let of_field = aliases.get(&found[2]).cloned().unwrap_or_else(|| found[2].to_owned());
        let inner = aliases.iter().fold(of_field, |text, (name, meaning)| text.replace(name.as_str(), meaning));
        types.insert(found[1].to_owned(), inner);
    }
    let fields = find(r"(?s)struct (\w+) \{(.*?)\n\}");
    let name_of_field = find(r"(?m)^\s+(?:pub )?(\w+): ");
    let labels: BTreeMap<String, Vec<String>> = fields
        .captures_iter(source)
        .map(|found| {
            (found[1].to_owned(), name_of_field.captures_iter(&found[2]).map(|field| field[1].to_owned()).collect())
        })
        .collect();
    let mut rows = BTreeMap::new();
    let mut add = |name: String, field: &str| {
        let field_type = &types[field];
        let shown = [("Counter", "counter (`_total`)"), ("Histogram", "histogram"), ("Gauge", "gauge")];
        let shown = shown.iter().find(|(of_type, _)| field_type.contains(of_type)).unwrap().1;
        let label = find(r"Family<(\w+)").captures(field_type).map(|found| labels[&found[1]].clone());
        rows.insert(name, (shown.to_owned(), label.unwrap_or_default()));
    };
    let register =
        find(r#"(?s)\.register(?:_with_unit)?\(\s*"(\w+)",.*?(?:Unit::(\w+), )?(?:metrics\.)?(\w+)\.clone\(\)"#);
    for found in register.captures_iter(source) {
        let unit = found.get(2).map(|unit| format!("_{}", unit.as_str().to_lowercase())).unwrap_or_default();
        add(format!("{prefix}{}{unit}", &found[1]), &found[3]);
    }
    for found in find(r#"(\w+): family!\("(\w+)""#).captures_iter(source) {
        add(found[2].to_owned(), &found[1]);
    }
    rows
}

/// The sources of the metrics of `seaworthy controllers`: those of the runtime, and those of each operator that has some.
fn metrics_sources() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("crates/operators")).unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join("src/metrics.rs"));
    files.filter(|file| file.is_file()).map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_metric_is_listed_with_its_type_and_labels() {
    let page = read("docs/reference/metrics.md");
    let mut sources = metrics_sources();
    let of_controllers: BTreeMap<String, MetricRow> = sources.iter().flat_map(|source| metrics(source, "")).collect();
    sources.push(read("crates/machine/serve/src/metrics.rs"));
    let of_server = metrics(sources.last().unwrap(), "seaworthy_endpoint_");
    for (heading, expected, at_least) in
        [("seaworthy controllers", of_controllers, 16), ("seaworthy server", of_server, 7)]
    {
        assert!(expected.len() >= at_least, "{expected:?}");
        let listed: BTreeMap<String, MetricRow> = rows(section(&page, heading))
            .iter()
            .map(|row| {
                let labels = row[2].split(':').next().unwrap().split(", ").filter(|label| !label.is_empty());
                (row[0].trim_matches('`').to_owned(), (row[1].to_owned(), labels.map(str::to_owned).collect()))
            })
            .collect();
        assert_eq!(listed, expected, "docs/reference/metrics.md, {heading}");
    }
    let registered = r#"\.register(?:_with_unit)?\(\s*"(\w+)""#;
    let elsewhere = &captured(&program("crates"), registered) - &captured(&sources, registered);
    assert!(elsewhere.is_empty(), "registered outside of a metrics.rs: {elsewhere:?}");
}

// === findings.md ===

/// Texts in the sources of the rules that have the form of a code and are none.
const NOT_CODES: [&str; 6] = ["drop-in", "64k-pages", "two-node-ha", "sandboxed-containers", "rhel-10", "centos-10"];

fn codes_in(text: &str) -> BTreeSet<String> {
    rows(text).iter().flat_map(|row| spans(row[0]).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_code_of_a_finding_is_listed() {
    let page = read("docs/reference/findings.md");
    let findings = page.split("\n## ").next().unwrap();
    let lint = read("crates/seaworthy/src/command/lint.rs");
    let list = lint.split_once("const CODES").unwrap().1.split_once("];").unwrap().0.to_owned();
    let allowed = captured(&[list], r#""([a-z0-9-]+)""#);
    assert_eq!(codes_in(findings), allowed, "the findings that --allow takes");

    let errors = codes_in(section(&page, "Errors"));
    let mut sources = program("crates/config/ignition/src");
    sources.extend(program("crates/config/render/src"));
    let mut missing = captured(&sources, r#""([a-z0-9]+(?:-[a-z0-9]+)+)""#);
    missing.retain(|code| !errors.contains(code) && !allowed.contains(code) && !NOT_CODES.contains(&code.as_str()));
    assert!(missing.is_empty(), "docs/reference/findings.md lists no {missing:?}");
    let program = program("crates/seaworthy/src");
    for code in &errors {
        let literal = format!("\"{code}\"");
        let is_code = sources.iter().chain(&program).any(|source| source.contains(&literal));
        assert!(is_code, "docs/reference/findings.md lists {code}, which is no code");
    }
}

#[test]
fn every_code_of_a_plan_is_listed() {
    let page = read("docs/reference/findings.md");
    let sources = program("crates");
    let problem = r#"PreviewProblem::(?:note\(|new\(\s*(?:Severity::\w+|\w+),)\s*"([a-z-]+)""#;
    let mut codes = captured(&sources, problem);
    let incomplete = captured(&sources, r#"const INCOMPLETE: &str = "([a-z-]+)";"#);
    assert_eq!(incomplete.len(), 1, "{incomplete:?}");
    codes.extend(incomplete);
    codes.extend(captured(&sources, r#"\bproblem\(Severity::\w+,\s*"([a-z-]+)""#));
    codes.extend(captured(&sources, r#"Effect::\w+ => "([a-z-]+)""#));
    assert!(codes.len() > 10, "{codes:?}");
    assert_eq!(codes_in(section(&page, "Of `seaworthy plan`")), codes);
}

// === files-on-a-node.md ===

/// Paths in the daemon's sources that are not its own files, with what they are.
const FOREIGN: [(&str, &str); 13] = [
    ("/etc/docker/certs.d/", "a folder: its files are listed"),
    ("/etc/group", "read"),
    ("/etc/machine-config-daemon", "a folder: its files are listed"),
    ("/etc/passwd", "read"),
    ("/etc/shadow", "a configuration's password hash"),
    ("/etc/sysctl.d", "a configuration's files"),
    ("/etc/systemd/system", "a configuration's units"),
    ("/etc/systemd/system-preset", "read"),
    ("/run/ostree-booted", "read"),
    ("/run/sysctl.d", "read"),
    ("/run/systemd/system", "read"),
    ("/run/systemd/system-preset", "read"),
    ("/var/lib/kubelet/config.json", "read: the pull secret of extensions"),
];

#[test]
fn every_file_of_the_daemon_is_listed() {
    let page = read("docs/reference/files-on-a-node.md");
    let mut sources = program("crates/machine/node/src");
    // Machines in memory have the files of a test.
    sources.extend(program("crates/machine/host/src/linux"));
    let paths = captured(&sources, r#""(/(?:etc|run|var)/[^"{}]+)""#);
    assert!(paths.len() > 25, "{paths:?}");
    let is_listed = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap();
        // A row may name a second file of the folder of its first.
        page.lines().any(|row| {
            row.contains(&format!("`{path}`"))
                || (row.contains(&format!("`{folder}/")) && row.contains(&format!("`{name}`")))
        })
    };
    let is_known = |path: &&String| is_listed(path) || FOREIGN.iter().any(|(foreign, _)| foreign == path);
    let unknown: Vec<&String> = paths.iter().filter(|path| !is_known(path)).collect();
    assert!(unknown.is_empty(), "docs/reference/files-on-a-node.md does not list {unknown:?}");
    for (foreign, _) in FOREIGN {
        assert!(paths.contains(foreign), "{foreign} is not in the sources");
    }
}

// === limits.md ===

/// A limit: the row of the page, what the row says, the file of the constant and how it is written there.
const LIMITS: &[(&str, &str, &str, &str)] = &[
    ("input of one command", "80 MiB", "seaworthy/src/manifest/mod.rs", "DEFAULT_MAX_INPUT_MIB: u64 = 80;"),
    (
        "rendered MachineConfig",
        "1,572,864 bytes",
        "config/render/src/object.rs",
        "MAX_OBJECT_BYTES: usize = 1_572_864;",
    ),
    (
        "rendered MachineConfig",
        "from 1,258,291",
        "config/render/src/object.rs",
        "LARGE_OBJECT_BYTES: usize = 1_258_291;",
    ),
    ("decompressed body", "64 MiB", "config/render/src/prepare.rs", "MAX_BODY_BYTES: u64 = 64 * 1024 * 1024;"),
    ("name of a pool", "211 characters", "config/render/src/pool.rs", "MAX_NAME_LENGTH: usize = 211;"),
    ("remote content", "16 MiB per object", "config/fetch/src/policy.rs", "DEFAULT_MAX_OBJECT_BYTES: u64 = 16 << 20;"),
    (
        "remote content",
        "64 MiB per MachineConfig",
        "config/render/src/remote/resolve.rs",
        "MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;",
    ),
    ("remote content", "and in all", "config/fetch/src/policy.rs", "DEFAULT_MAX_TOTAL_BYTES: u64 = 64 << 20;"),
    ("remote content", "8 levels deep", "config/render/src/remote/resolve.rs", "MAX_REFERENCE_DEPTH: usize = 8;"),
    ("remote content", "1,000 references", "config/render/src/remote/resolve.rs", "MAX_REFERENCES: usize = 1000;"),
    ("remote content", "10 redirects", "config/fetch/src/http_source.rs", "MAX_REDIRECTS: usize = 10;"),
    ("one fetch", "60 s", "config/fetch/src/request.rs", "MAX_TOTAL_TIMEOUT: Duration = Duration::from_secs(60);"),
    (
        "one fetch",
        "10 s to connect",
        "config/fetch/src/transport.rs",
        "CONNECT_TIMEOUT: Duration = Duration::from_secs(10);",
    ),
    ("one fetch", "10 s for TLS", "config/fetch/src/transport.rs", "TLS_TIMEOUT: Duration = Duration::from_secs(10);"),
    (
        "one fetch",
        "10 s for response headers",
        "config/fetch/src/request.rs",
        "DEFAULT_RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(10);",
    ),
    (
        "all fetches of a run",
        "10 minutes",
        "config/fetch/src/fetch_run.rs",
        "RUN_TIMEOUT: Duration = Duration::from_secs(600);",
    ),
    ("all fetches of a run", "8 at a time", "config/fetch/src/fetch_run.rs", "MAX_CONCURRENT_FETCHES: usize = 8;"),
    ("orders reserved at a time", "1,000", "decide/plan/src/rollout/reservation.rs", "MAX_NODES: usize = 1000;"),
    ("orders reserved at a time", "128 KiB", "decide/plan/src/rollout/reservation.rs", "MAX_BYTES: usize = 128 << 10;"),
    ("targets in a pool's history", "30", "decide/plan/src/history/target_history.rs", "MAX_ENTRIES: usize = 30;"),
    ("rendered MachineConfigs kept", "10 newest", "decide/plan/src/rendering/garbage.rs", "max_kept: 10, "),
    (
        "rendered MachineConfigs kept",
        "younger than an hour",
        "decide/plan/src/rendering/garbage.rs",
        "grace_period: SignedDuration::from_hours(1)",
    ),
    (
        "write to the API",
        "30 s",
        "operators/runtime/src/write_error.rs",
        "REQUEST_TIMEOUT: Duration = Duration::from_secs(30);",
    ),
    ("write to the API", "16 at a time", "operators/runtime/src/applier.rs", "MAX_CONCURRENT_WRITES: usize = 16;"),
    (
        "retry of a failed reconcile",
        "from 50 ms",
        "operators/runtime/src/queue.rs",
        "INITIAL_RETRY_DELAY: Duration = Duration::from_millis(50);",
    ),
    (
        "retry of a failed reconcile",
        "to 60 s",
        "operators/runtime/src/queue.rs",
        "MAX_RETRY_DELAY: Duration = Duration::from_secs(60);",
    ),
    (
        "inputs of a pool that are missing",
        "60 s",
        "operators/machineconfig/src/render/mod.rs",
        "INPUTS_TIMEOUT: Duration = Duration::from_secs(60);",
    ),
    (
        "MachineConfigNodes written in one decision",
        "1,000",
        "decide/plan/src/rollout/pool.rs",
        "MAX_STATUS_UPDATES: usize = 1000;",
    ),
    (
        "remote content kept in the cluster",
        "256 MiB in all",
        "operators/machineconfig/src/render/snapshots.rs",
        "MAX_TOTAL_BYTES: u64 = 256 << 20;",
    ),
    (
        "drain, next attempt",
        "after 1 minute;",
        "decide/plan/src/drain/mod.rs",
        "const RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(1);",
    ),
    (
        "drain, next attempt",
        "after 5 minutes",
        "decide/plan/src/drain/mod.rs",
        "SLOW_RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(5);",
    ),
    (
        "drain, next attempt",
        "has taken 10",
        "decide/plan/src/drain/mod.rs",
        "SLOW_RETRY_DELAY: SignedDuration = SignedDuration::from_mins(10);",
    ),
    (
        "eviction request",
        "90 s",
        "decide/plan/src/drain/mod.rs",
        "EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(90);",
    ),
    (
        "terminating pod",
        "1 minute",
        "decide/plan/src/drain/mod.rs",
        "OVERDUE_DELAY: SignedDuration = SignedDuration::from_mins(1);",
    ),
    ("lease", "15 s;", "operators/runtime/src/election.rs", "lease_duration: Duration::from_secs(15),"),
    ("lease", "deadline 10 s", "operators/runtime/src/election.rs", "renew_deadline: Duration::from_secs(10),"),
    ("lease", "retry 2 s", "operators/runtime/src/election.rs", "retry_period: Duration::from_secs(2),"),
    ("disruption policy", "50 files, 50 units", "api/src/operator/node_disruption_policy.rs", "entries: 50,"),
    ("disruption policy", "10 actions each", "api/src/operator/node_disruption_policy.rs", "length(max = 10)"),
    (
        "node's `reason`",
        "2,000 characters",
        "api/src/vocabulary/machineconfiguration.rs",
        "MAX_REASON_CHARS: usize = 2000;",
    ),
    (
        "drain",
        "after 1 hour",
        "machine/node/src/update/drain_wait.rs",
        "DRAIN_TIMEOUT: Duration = Duration::from_secs(60 * 60);",
    ),
    (
        "drain",
        "uncordon 10 minutes",
        "machine/node/src/update/drain_wait.rs",
        "UNCORDON_TIMEOUT: Duration = Duration::from_secs(10 * 60);",
    ),
    (
        "reboot that does not happen",
        "after 5, 10, 20, 40 minutes",
        "machine/node/src/update/pending_reboot.rs",
        "REBOOT_TIMEOUT: Duration = Duration::from_secs(5 * 60);",
    ),
    (
        "reboot that does not happen",
        "every hour",
        "machine/node/src/update/pending_reboot.rs",
        "MAX_RETRY_DELAY: Duration = Duration::from_secs(60 * 60);",
    ),
    ("first boot", "5 attempts", "machine/node/src/update/first_boot.rs", "MAX_ATTEMPTS: usize = 5;"),
    ("boots in which something is missing", "3, ", "machine/node/src/update/mod.rs", "MAX_STAGINGS: u32 = 3;"),
    ("drift repair of one file", "3 in", "machine/node/src/drift/repair.rs", "MAX_REPAIRS: usize = 3;"),
    (
        "drift repair of one file",
        "an hour",
        "machine/node/src/drift/repair.rs",
        "REPAIR_INTERVAL: Duration = Duration::from_secs(60 * 60);",
    ),
    ("drift check", "a second after", "machine/node/src/daemon/mod.rs", "debounce_delay: Duration::from_secs(1),"),
    ("drift check", "every minute", "machine/node/src/daemon/mod.rs", "drift_check_interval: Duration::from_secs(60),"),
    ("connections", "4,096", "machine/serve/src/server.rs", "connections: 4096,"),
    ("connections", "half of them", "machine/serve/src/server.rs", "per_address: 2048,"),
    (
        "TLS handshake, request header, connection",
        "10 s, ",
        "machine/serve/src/server.rs",
        "handshake_timeout: Duration::from_secs(10),",
    ),
    (
        "TLS handshake, request header, connection",
        "15 s, ",
        "machine/serve/src/server.rs",
        "HEADERS_TIMEOUT: Duration = Duration::from_secs(15);",
    ),
    (
        "TLS handshake, request header, connection",
        "5 minutes",
        "machine/serve/src/server.rs",
        "CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);",
    ),
    ("request header", "16 KiB", "machine/serve/src/server.rs", "MAX_HEAD_BYTES: usize = 16 * 1024;"),
    ("request header", "64 fields", "machine/serve/src/server.rs", "MAX_HEADERS: usize = 64;"),
    ("requests of one address", "1,000 per second", "seaworthy/src/cli/machine.rs", "default_value_t = 1000"),
    ("requests of one address", "ten times", "seaworthy/src/command/server.rs", "BURST_FACTOR: f64 = 10.0;"),
    (
        "request body",
        "3 MiB",
        "control-plane/apiserver/src/request/decode.rs",
        "MAX_BODY_SIZE: usize = 3 * 1024 * 1024;",
    ),
    ("request body", "127 levels", "control-plane/apiserver/src/request/decode.rs", "MAX_DEPTH: usize = 127;"),
    (
        "annotations of an object",
        "256 KiB",
        "control-plane/apiserver/src/object/meta.rs",
        "MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;",
    ),
    (
        "rules of a role",
        "100,000 combinations",
        "control-plane/apiserver/src/builtin/rbac/role.rs",
        "MAX_COMBINATIONS: usize = 100_000;",
    ),
    ("connections", "8,192", "control-plane/apiserver/src/serving/listener.rs", "connections: 8192,"),
    (
        "TLS handshake, request header, response",
        "10 s, ",
        "control-plane/apiserver/src/serving/listener.rs",
        "handshake_timeout: Duration::from_secs(10),",
    ),
    (
        "TLS handshake, request header, response",
        "32 s, ",
        "control-plane/apiserver/src/serving/listener.rs",
        "HEADER_TIMEOUT: Duration = Duration::from_secs(32);",
    ),
    (
        "TLS handshake, request header, response",
        "60 s",
        "control-plane/apiserver/src/serving/listener.rs",
        "RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);",
    ),
    (
        "streams of an HTTP/2 connection",
        "250",
        "control-plane/apiserver/src/serving/listener.rs",
        "MAX_CONCURRENT_STREAMS: u32 = 250;",
    ),
    ("simulated machines of `seaworthy up`", "1,000", "seaworthy/src/cli/machine.rs", "range(0..=1000)"),
];

#[test]
fn limits_are_those_of_the_constants() {
    let page = read("docs/reference/limits.md");
    let mut sources: BTreeMap<&str, String> = BTreeMap::new();
    for (row, phrase, file, constant) in LIMITS {
        let is_listed = rows(&page).iter().any(|found| found[0] == *row && found[1].contains(phrase));
        assert!(is_listed, "docs/reference/limits.md: no row {row:?} with {phrase:?}");
        let source = sources.entry(file).or_insert_with(|| read(&format!("crates/{file}")));
        assert!(
            source.contains(constant),
            "crates/{file} has no {constant:?}, which docs/reference/limits.md is about: {row}, {phrase}"
        );
    }
    for row in rows(&page) {
        assert!(
            LIMITS.iter().any(|(known, ..)| *known == row[0]),
            "docs/reference/limits.md: {:?} is compared with nothing",
            row[0]
        );
    }
}

// === evidence ===

/// Every Rust source of the crates, tests included.
fn sources_and_tests() -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    sources
}

#[test]
fn every_test_of_the_page_of_faults_of_the_endpoint_exists() {
    let page = read("docs/evidence/faults-endpoint.md");
    let table = rows(&page);
    let is_test =
        |span: &&str| span.matches('_').count() > 1 && span.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let named: BTreeSet<&str> = table.iter().flat_map(|row| spans(row[row.len() - 1])).filter(is_test).collect();
    assert!(named.len() > 40, "{named:?}");
    // Attributes and comments may be between a test's attribute and its function.
    let test = r"#\[(?:tokio::test|test|rstest)\b[^\n]*\n(?:[^\n]+\n)*? *(?:async )?fn (\w+)";
    let known = captured(&sources_and_tests(), test);
    let missing: Vec<&str> = named.into_iter().filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/evidence/faults-endpoint.md names {missing:?}");
}

#[test]
fn every_suite_of_the_evidence_exists() {
    let command = Regex::new(r"cargo test -p seaworthy-([a-z]+)(?: --test (\w+)(?: (\w+))?)?").unwrap();
    let groups: Vec<_> = std::fs::read_dir(root().join("crates")).unwrap().map(|group| group.unwrap().path()).collect();
    let mut count = 0;
    for name in ["docs/evidence/README.md", "docs/evidence/faults-rollout.md"] {
        for found in command.captures_iter(&read(name)) {
            let mut folders = groups.iter().map(|group| group.join(&found[1]));
            let folder = folders.find(|folder| folder.join("Cargo.toml").is_file());
            let folder = folder.unwrap_or_else(|| panic!("{name}: {}: no such crate", &found[0]));
            let Some(target) = found.get(2) else { continue };
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let target = Regex::new(&format!(r#"name = "{}"\s+path = "([^"]+)""#, target.as_str())).unwrap();
            let target =
                target.captures(&manifest).unwrap_or_else(|| panic!("{name}: {}: no such test target", &found[0]));
            let main = std::fs::read_to_string(folder.join(&target[1])).unwrap();
            if let Some(module) = found.get(3) {
                let is_there = main.contains(&format!("mod {};", module.as_str()));
                assert!(is_there, "{name}: {}: no such suite", &found[0]);
            }
            count += 1;
        }
    }
    assert!(count >= 5, "the pages name {count} test targets");
}

// === how-to and explanation ===

#[test]
fn every_reason_to_wait_is_explained() {
    let page = read("docs/how-to/troubleshoot-a-waiting-node.md");
    let table = page.split("\n## ").next().unwrap();
    let explained = codes_in(table);
    let all = WaitingReason::ALL.iter().filter(|reason| **reason != WaitingReason::Updated);
    assert_eq!(explained, all.map(|reason| reason.as_str().to_owned()).collect());
}

#[test]
fn units_that_are_not_restarted_are_listed() {
    let page = read("docs/explanation/disruption.md");
    let source = read("crates/decide/plan/src/disruption/known_effect.rs");
    let list = source.split_once("const CRITICAL_UNITS").unwrap().1.split_once("];").unwrap().0.to_owned();
    let row = page.lines().find(|line| line.starts_with("| a service of your own")).unwrap();
    let listed: BTreeSet<String> = spans(row.split(" | ").next().unwrap()).map(str::to_owned).collect();
    assert_eq!(listed, captured(&[list], r#""([^"]+)""#));
}
