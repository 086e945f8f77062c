//! Fuzzed input: the program always ends with one of its exit codes, and with a reason if it refuses the input.
//!
//! The program runs as a process of its own, so an overflowing stack or a killed process counts as a failure too. More
//! cases than the few of every run: `PROPTEST_CASES=20000 cargo test -p seaworthy --test suite fuzz --release`.

use std::sync::LazyLock;

use crate::program::{Outcome, Program, given};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// One home for all cases: they overwrite the same files.
fn check(content: &[u8], program: &Program, commands: &[&[&str]]) -> Result<(), TestCaseError> {
    program.file("input.yaml", content);
    for args in commands {
        let Outcome { code, stdout, stderr } = program.run(*args);
        prop_assert!((0..=2).contains(&code), "{args:?} gives {code}: {stderr}");
        prop_assert!(
            code != 2 || (stderr.contains("error: ") || stderr.contains("error[")),
            "{args:?} refuses without a reason: {stderr}"
        );
        if args.contains(&"json") && !stdout.is_empty() {
            prop_assert!(serde_json::from_str::<Value>(&stdout).is_ok(), "{args:?}: not JSON: {stdout}");
        }
    }
    Ok(())
}

const MANIFESTS: [&[&str]; 5] = [
    &["render", "-f", "input.yaml", "-o", "json", "--offline"],
    &["render", "-f", "input.yaml", "--offline"],
    &["lint", "-f", "input.yaml", "-o", "json"],
    &["explain", "-f", "input.yaml", "--pool", "worker", "--offline"],
    &["diff", "-f", "input.yaml", "-f", "base.yaml", "--offline"],
];

const CONFIGS: [&[&str]; 3] = [
    &["ignition", "validate", "-f", "input.yaml", "-o", "json"],
    &["ignition", "convert", "--to", "2.2.0", "-f", "input.yaml"],
    &["ignition", "convert", "--to", "3.1.0", "-f", "input.yaml"],
];

/// A folder of manifests as one text.
fn manifests() -> String {
    let mut files: Vec<_> = std::fs::read_dir(given("manifests")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap() + "---\n").collect()
}

static BASE: LazyLock<String> = LazyLock::new(manifests);

fn program() -> Program {
    let program = Program::new();
    program.file("base.yaml", BASE.as_bytes());
    program
}

fn few() -> ProptestConfig {
    let defaults = ProptestConfig::default();
    // The number that the environment asks for, or few enough for every run.
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { defaults.cases } else { 96 };
    ProptestConfig { cases, max_shrink_iters: 1_000, failure_persistence: None, ..defaults }
}

/// A damage to a text.
#[derive(Debug, Clone)]
enum Damage {
    Cut(Index, Index),
    Repeat(Index, Index),
    Put(Index, Vec<u8>),
    Turn(Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let scrap = select(vec![
        "\n",
        " ",
        "\t",
        "-",
        "- ",
        ": ",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "#",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "|\n",
        ">-\n",
        "---\n",
        "...\n",
        "? ",
        "%",
        "@",
        "`",
        "null",
        "~",
        "yes",
        "0644",
        "-1",
        "1e999",
        ".nan",
        "\0",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\r",
        "\\",
        "\u{1b}[",
        "9999999999999999999",
        "data:;base64,====",
        "http://[::",
        "3.5.0",
    ]);
    prop_oneof![
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Cut(from, to)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
        (any::<Index>(), scrap).prop_map(|(at, scrap)| Damage::Put(at, scrap.as_bytes().to_vec())),
        (any::<Index>(), any::<u8>()).prop_map(|(at, mask)| Damage::Turn(at, mask)),
    ]
}

fn damaged(mut text: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        if text.is_empty() {
            break;
        }
        let range = |from: &Index, to: &Index| {
            let (from, to) = (from.index(text.len()), to.index(text.len()));
            // Short ranges, or little would be left after a few.
            from..to.clamp(from, from.saturating_add(80))
        };
        match damage {
            Damage::Cut(from, to) => drop(text.drain(range(from, to))),
            Damage::Repeat(from, to) => {
                let range = range(from, to);
                let part = text[range.clone()].to_vec();
                text.splice(range.start..range.start, part);
            }
            Damage::Put(at, scrap) => {
                let at = at.index(text.len());
                text.splice(at..at, scrap.iter().copied());
            }
            Damage::Turn(at, mask) => {
                let at = at.index(text.len());
                text[at] ^= mask;
            }
        }
    }
    text
}

/// A value that may stand where another one belongs.
fn arbitrary_value() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(0.5),
        json!(""),
        json!("x"),
        json!("data:,"),
        json!("data:;base64,!"),
        json!("http://127.0.0.1:1/x"),
        json!("/"),
        json!("/a/../b"),
        json!("a\u{0}b"),
        json!("3.6.0"),
        json!("2.2.0"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({}),
        json!({"": null}),
        json!({"source": 5}),
        json!("gzip"),
        json!("core"),
        json!("a.service"),
        json!("sha256-00"),
        json!("\u{1b}[2J"),
    ])
}

/// Replaces the value with that number, counted depth first.
fn replace(value: &mut Value, left: &mut usize, replacement: &Value) -> bool {
    if *left == 0 {
        *value = replacement.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|item| replace(item, left, replacement)),
        Value::Object(map) => map.iter_mut().any(|(_, item)| replace(item, left, replacement)),
        _ => false,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Everything that a config can have, so that every branch can be damaged.
fn config() -> Value {
    json!({
        "ignition": {
            "version": "3.5.0",
            "config": {"merge": [{"source": "data:,%7B%22ignition%22%3A%7B%22version%22%3A%223.2.0%22%7D%7D"}]},
            "proxy": {"httpProxy": "http://proxy:3128", "noProxy": ["a"]},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,x"}]}},
            "timeouts": {"httpTotal": 5},
        },
        "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["b"]},
        "passwd": {"groups": [{"name": "g", "gid": 5}], "users": [{"name": "core", "sshAuthorizedKeys": ["k"], "groups": ["g"]}]},
        "storage": {
            "directories": [{"path": "/d", "mode": 493, "user": {"id": 0}}],
            "disks": [{"device": "/dev/sda", "partitions": [{"number": 1, "label": "l", "sizeMiB": 5, "startMiB": 0}]}],
            "files": [
                {"path": "/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,a", "verification": {}}},
                {"path": "/b", "overwrite": false, "append": [{"source": "data:;base64,YQ==", "compression": ""}], "group": {"name": "g"}},
            ],
            "filesystems": [{"device": "/dev/sda1", "format": "xfs", "path": "/var", "mountOptions": ["noatime"]}],
            "links": [{"path": "/l", "target": "/a", "hard": false}],
            "luks": [{"name": "s", "device": "/dev/sdb", "clevis": {"tang": [{"url": "https://t", "thumbprint": "x"}]}}],
            "raid": [{"name": "m", "level": "raid1", "devices": ["/dev/sdc"]}],
        },
        "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\nA=b\n", "dropins": [{"name": "b.conf", "contents": "[Service]\n"}]}]},
    })
}

/// A List that uses all kinds which are read.
fn list() -> Value {
    let kind = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind,
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}, "annotations": {"a": "b"}},
            "spec": spec,
        })
    };
    let mut plain = config();
    plain["ignition"].as_object_mut().unwrap().remove("config");
    json!({"apiVersion": "v1", "kind": "List", "items": [
        kind("ControllerConfig", "machine-config-controller", json!({"baseOSContainerImage": "registry.example.org/os"})),
        kind("MachineConfigPool", "worker", json!({"machineConfigSelector": {
            "matchLabels": {"machineconfiguration.openshift.io/role": "worker"},
            "matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}],
        }})),
        kind("MachineConfig", "00-worker", json!({"config": plain, "kernelArguments": ["a=1"], "extensions": ["usbguard"]})),
        kind("MachineConfig", "50-worker", json!({"config": config(), "kernelType": "realtime", "fips": true, "osImageURL": "x"})),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}},
    ]})
}

#[test]
fn what_is_damaged_was_in_order_before() {
    let program = program();
    program.run(["render", "-f", "base.yaml", "--offline"]).expect(0);
    program.file("input.yaml", list().to_string());
    for args in &MANIFESTS[..4] {
        program.run(*args).expect(0);
    }
    program.file("input.yaml", config().to_string());
    program.run(CONFIGS[0]).expect(0);
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let program = program();
        check(&bytes, &program, &MANIFESTS[..1])?;
        check(&bytes, &program, &CONFIGS[..1])?;
    }

    #[test]
    fn any_text_that_looks_like_yaml_is_answered(
        words in prop::collection::vec(
            select(vec!["a", "kind", "items", ": ", ":\n", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ", ", "\"", "'", "&x ",
                "*x", "<<: ", "? ", "|\n", ">\n", "# c\n", "---\n", "...\n", "!!str ", "!t ", "%YAML 1.1\n", "~", "0o7", "List", "\t"]),
            0..60,
        ),
    ) {
        check(words.concat().as_bytes(), &program(), &MANIFESTS[..1])?;
    }

    #[test]
    fn damaged_yaml_manifests_are_answered(damages in prop::collection::vec(damage(), 1..6)) {
        check(&damaged(BASE.clone().into_bytes(), &damages), &program(), &MANIFESTS)?;
    }

    #[test]
    fn damaged_json_manifests_are_answered(damages in prop::collection::vec(damage(), 1..4)) {
        check(&damaged(list().to_string().into_bytes(), &damages), &program(), &MANIFESTS[..3])?;
    }

    #[test]
    fn manifests_with_replaced_values_are_answered(
        changes in prop::collection::vec((any::<Index>(), arbitrary_value()), 1..4),
    ) {
        let mut list = list();
        for (at, replacement) in &changes {
            let mut left = at.index(count(&list));
            replace(&mut list, &mut left, replacement);
        }
        check(list.to_string().as_bytes(), &program(), &MANIFESTS)?;
    }

    #[test]
    fn configs_with_replaced_values_are_answered(
        version in select(vec!["2.0.0", "2.1.0", "2.2.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"]),
        changes in prop::collection::vec((any::<Index>(), arbitrary_value()), 0..4),
    ) {
        let mut config = config();
        config["ignition"]["version"] = version.into();
        for (at, replacement) in &changes {
            let mut left = at.index(count(&config));
            replace(&mut config, &mut left, replacement);
        }
        check(config.to_string().as_bytes(), &program(), &CONFIGS)?;
    }
}
