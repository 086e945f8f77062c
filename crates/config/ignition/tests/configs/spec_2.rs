//! Random configs of spec 2.x.

use proptest::prelude::*;
use seaworthy_ignition::Version;
use serde_json::{Map, Value, json};

use super::blocks::{Field, Json, always, flag, keyed, maybe, object, one};
use super::{HASH_512, SERVICE, dropins, group, owner, raid, user};

/// A valid config of a 2.x version that can be converted.
pub fn config_v2(version: Version) -> Json {
    let source = one(match version {
        Version::V2_0 => &["data:,a", "data:,b", "http://h/a", ""],
        _ => &["data:,a", "data:,b", "http://h/a", "s3://b/k", ""],
    });
    let contents = object(vec![
        maybe("source", source),
        maybe("compression", one(&["", "gzip"])),
        maybe("verification", object(vec![maybe("hash", one(&[HASH_512]))])),
    ]);
    let node = |paths: &[&'static str]| -> Vec<Field> {
        vec![
            ("path", one(paths).prop_map(Some).boxed()),
            ("filesystem", one(&["root", "root", "other"]).prop_map(Some).boxed()),
            maybe("user", owner()),
            maybe("group", owner()),
            maybe("mode", one(&[0o644, 0o600, 0])),
        ]
    };
    let mut file = node(&["/a", "/b", "/etc/x", "/etc/../c", "//d"]);
    file.extend([maybe("contents", contents), maybe("append", flag()), maybe("overwrite", flag())]);
    let file = object(file).prop_map(|mut file| {
        if file["append"] == true && file["overwrite"] == true {
            file["overwrite"] = false.into();
        }
        file
    });
    let mut link = node(&["/l", "/m"]);
    link.extend([("target", one(&["/t", "../t"]).prop_map(Some).boxed()), maybe("hard", flag())]);
    let unit = object(vec![
        ("name", one(&["a.service", "b.service"]).prop_map(Some).boxed()),
        maybe("contents", one(&["", SERVICE])),
        maybe("enable", flag()),
        maybe("enabled", flag()),
        maybe("mask", flag()),
        maybe("dropins", dropins()),
    ]);
    let core = user("core").prop_map(|mut user| {
        user.as_object_mut().unwrap().remove("shouldExist");
        user
    });
    let reference = |source: &'static str| {
        object(vec![always("source", source), maybe("verification", object(vec![maybe("hash", one(&[HASH_512]))]))])
    };
    let ignition = object(vec![
        always("version", version.as_str()),
        maybe(
            "config",
            object(vec![
                maybe("append", keyed(&["http://m/1", "http://m/2"], reference)),
                maybe("replace", reference("data:,r")),
            ]),
        ),
        maybe("timeouts", object(vec![maybe("httpTotal", one(&[0, 20]))])),
        maybe(
            "security",
            object(vec![maybe("tls", object(vec![maybe("certificateAuthorities", keyed(&["data:,c"], reference))]))]),
        ),
    ]);
    let many = |entry: BoxedStrategy<Value>| prop::collection::vec(entry, 0..4).prop_map(Value::from).boxed();
    let mut directory = node(&["/var/d", "/var/e"]);
    directory.push(maybe("overwrite", flag()));
    let by_path = |list: Value| {
        let mut seen = Map::new();
        for node in list.as_array().into_iter().flatten() {
            seen.insert(node["path"].to_string(), node.clone());
        }
        Value::from(seen.into_iter().map(|(_, node)| node).collect::<Vec<_>>())
    };
    let storage = object(vec![
        maybe("files", many(file.boxed())),
        maybe("directories", many(object(directory)).prop_map(by_path).boxed()),
        maybe("links", many(object(link)).prop_map(by_path).boxed()),
        maybe("disks", keyed(&["/dev/a"], |device| object(vec![always("device", device), maybe("wipeTable", flag())]))),
        maybe("raid", keyed(&["r1"], raid)),
        maybe("filesystems", Just(json!([{"name": "root", "path": "/"}])).boxed()),
    ]);
    object(vec![
        ("ignition", ignition.prop_map(Some).boxed()),
        maybe("passwd", object(vec![maybe("users", many(core.boxed())), maybe("groups", keyed(&["g"], group))])),
        maybe("storage", storage),
        maybe("systemd", object(vec![maybe("units", many(unit))])),
    ])
}
