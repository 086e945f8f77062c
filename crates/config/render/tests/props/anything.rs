//! Any JSON at all in the place of a manifest: an answer, never a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use seaworthy_ignition::Node;
use seaworthy_render::{Context, ControllerConfig, OsImageStreams, Pool, keys};
use serde_json::{Map, Value, json};

use crate::props::manifests::{Manifests, machine_configs, server};
use crate::support::*;

/// Words that mean something somewhere, so that deep places are reached.
const WORDS: [&str; 62] = [
    "spec",
    "config",
    "ignition",
    "version",
    "storage",
    "files",
    "directories",
    "links",
    "path",
    "contents",
    "source",
    "compression",
    "verification",
    "hash",
    "httpHeaders",
    "name",
    "value",
    "append",
    "overwrite",
    "mode",
    "user",
    "group",
    "id",
    "systemd",
    "units",
    "dropins",
    "enabled",
    "mask",
    "passwd",
    "users",
    "groups",
    "sshAuthorizedKeys",
    "kernelArguments",
    "shouldExist",
    "shouldNotExist",
    "disks",
    "partitions",
    "number",
    "label",
    "device",
    "raid",
    "level",
    "devices",
    "options",
    "filesystems",
    "format",
    "luks",
    "clevis",
    "tang",
    "keyFile",
    "merge",
    "replace",
    "security",
    "tls",
    "certificateAuthorities",
    "proxy",
    "timeouts",
    "httpTotal",
    "fips",
    "kernelType",
    "extensions",
    "osImageURL",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("a number of JSON", |number| serde_json::Number::from_f64(number).map(Value::from)),
        prop::sample::select(vec![
            "3.5.0",
            "2.2.0",
            "3.0.0",
            "/a",
            "/etc/systemd/system/a.service",
            "a.service",
            "x.conf",
            "data:,x",
            "data:;base64,!",
            "https://h/0",
            "https://c/0",
            "http://[::1",
            "tftp://h/a",
            "gzip",
            "core",
            "root",
            "[Unit]\nA=1\n",
            "realtime",
        ])
        .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn any_json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..5).prop_map(Value::from),
            3 => vec((key(), inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Everything that can be done with manifests.
fn do_everything(manifests: &[Value], pool: &Value, controller_config: &Value, streams: &Value) {
    let read = Pool::read(&Node::from_json(pool));
    let context = Context {
        build: "b".to_owned(),
        controller_config: ControllerConfig::read(&Node::from_json(controller_config)).unwrap_or_default(),
        streams: OsImageStreams::read(&Node::from_json(streams)).ok(),
        ..Context::default()
    };
    let plain = Context { keeps_references: true, ..context.clone() };
    for pool in read.iter().chain([&worker(), &infra()]) {
        for context in [&context, &plain, &Context::default()] {
            let outcome = match context.keeps_references {
                true => try_render(pool, manifests, context),
                false => try_render_with(pool, manifests, context, &server).0,
            };
            match outcome {
                // The outcome itself compares what is written with what is given.
                Ok(outcome) => outcome.findings.iter().for_each(|finding| drop(finding.to_string())),
                Err(findings) => {
                    assert!(!findings.is_empty());
                    findings.iter().for_each(|finding| drop((finding.to_string(), finding.to_json())));
                }
            }
        }
    }
}

/// Puts a piece of anything somewhere into a manifest.
fn grafted(mut manifest: Value, at: &[prop::sample::Index], graft: Value) -> Value {
    let mut place = &mut manifest;
    for nth in at {
        let children: Vec<&mut Value> = match place {
            Value::Object(map) => map.values_mut().collect(),
            Value::Array(list) => list.iter_mut().collect(),
            leaf => vec![leaf],
        };
        let count = children.len();
        match children.into_iter().nth(nth.index(count.max(1))) {
            Some(child) => place = child,
            None => return graft,
        }
    }
    *place = graft;
    manifest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_spec_gets_an_answer(specs in vec(any_json(), 1..3)) {
        let manifests: Vec<Value> =
            specs.into_iter().enumerate().map(|(nth, spec)| mc(&format!("m{nth}"), spec)).collect();
        do_everything(&manifests, &Value::Null, &Value::Null, &Value::Null);
    }

    #[test]
    fn any_sections_get_an_answer(sections in any_json(), version in prop::sample::select(vec!["3.5.0", "3.1.0", "2.2.0", "2.0.0"])) {
        if sections.is_object() && sections.get("ignition").is_none_or(Value::is_object) {
            do_everything(
                &[mc("a", json!({"config": with_version(version, sections)})), ign("b", json!({}))],
                &Value::Null,
                &Value::Null,
                &Value::Null,
            );
        }
    }

    #[test]
    fn any_manifests_get_an_answer(all in vec(any_json(), 4)) {
        do_everything(&all[..1], &all[1], &all[2], &all[3]);
    }

    #[test]
    fn a_manifest_with_anything_in_it_gets_an_answer(
        Manifests(manifests) in machine_configs(),
        which in any::<prop::sample::Index>(),
        at in vec(any::<prop::sample::Index>(), 1..10),
        graft in any_json(),
    ) {
        let mut manifests = manifests;
        let which = which.index(manifests.len());
        manifests[which] = grafted(manifests[which].clone(), &at, graft);
        do_everything(&manifests, &Value::Null, &Value::Null, &Value::Null);
    }

    #[test]
    fn a_pool_with_anything_in_it_gets_an_answer(
        at in vec(any::<prop::sample::Index>(), 1..8),
        graft in any_json(),
        stream in any_json(),
    ) {
        let pool = json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {
                "machineConfigSelector": {
                    "matchLabels": {keys::ROLE: "worker"},
                    "matchExpressions": [{"key": keys::ROLE, "operator": "In", "values": ["worker"]}],
                },
                "osImageStream": {"name": "s"},
            },
        });
        let controller_config = json!({
            "metadata": {"annotations": {keys::RELEASE_VERSION: "1"}},
            "spec": {"baseOSContainerImage": "a", "baseOSExtensionsContainerImage": "b"},
        });
        let streams = json!({"status": {"defaultStream": "s", "availableStreams": [{"name": "s", "osImage": "o"}]}});
        let inputs = [mc("a", json!({"fips": true}))];
        do_everything(&inputs, &grafted(pool.clone(), &at, graft.clone()), &controller_config, &streams);
        do_everything(&inputs, &pool, &grafted(controller_config.clone(), &at, graft), &streams);
        do_everything(&inputs, &pool, &controller_config, &grafted(streams, &at, stream));
    }
}

#[test]
fn deep_nesting_gets_an_answer() {
    // As deep as the reader of JSON lets through.
    let text = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let deep: Value = serde_json::from_str(&text).unwrap();
    do_everything(&[mc("a", json!({"config": with_version("3.5.0", json!({"storage": deep}))}))], &deep, &deep, &deep);
}
