//! MachineConfigs that meet each other often: few names, few paths, many ways to set them.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use seaworthy_fetch::{FailureKind, FetchError};
use seaworthy_render::remote::ContentRequest;
use serde_json::{Map, Value, json};

use crate::support::*;

/// An object of the keys that are given.
fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

fn texts(all: &'static [&'static str]) -> impl Strategy<Value = Value> {
    subsequence(all, 0..=all.len()).prop_shuffle().prop_map(|texts| json!(texts))
}

fn one_of(all: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(all).prop_map(Value::from)
}

fn number() -> impl Strategy<Value = Value> {
    (0_i64..4).prop_map(Value::from)
}

fn flag() -> impl Strategy<Value = Value> {
    any::<bool>().prop_map(Value::from)
}

const PACKED: &str = "data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA";
const HASH: &str = "sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

fn body() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => select(vec!["data:,a", "data:,b", "data:;base64,AAE=", ""]).prop_map(|source| json!({"source": source})),
        1 => Just(json!({"source": PACKED, "compression": "gzip"})),
        1 => Just(json!({"source": PACKED, "compression": "gzip", "verification": {"hash": HASH}})),
        1 => Just(json!({"source": "data:,x", "verification": {"hash": HASH}})),
        2 => (0..3).prop_map(|nth| json!({"source": format!("https://h/{nth}")})),
        1 => (0..3).prop_map(|nth| json!({
            "source": format!("https://h/{nth}"),
            "httpHeaders": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        })),
    ]
    .boxed()
}

fn owner() -> impl Strategy<Value = Value> {
    // Rarely a name: beside the number of another input it makes the result invalid.
    prop_oneof![9 => number().prop_map(|id| json!({"id": id})), 1 => Just(json!({"name": "u"}))]
}

/// The kind of entry at a path.
fn storage_node(path: &'static str) -> BoxedStrategy<(&'static str, Value)> {
    let owners = (option::of(owner()), option::of(owner()));
    let file = (body(), option::weighted(0.2, vec(body(), 1..3)), option::of(number()), option::of(flag()), owners);
    let file = file.prop_map(move |(contents, append, mode, overwrite, (user, group))| {
        let file = object(vec![
            ("path", Some(path.into())),
            ("contents", Some(contents)),
            ("append", append.map(Value::from)),
            ("mode", mode),
            ("overwrite", overwrite),
            ("user", user),
            ("group", group),
        ]);
        ("files", file)
    });
    let part = (option::of(number()), option::of(owner())).prop_map(move |(mode, user)| {
        let overwrite = Some(Value::from(false));
        let fields = vec![("path", Some(path.into())), ("mode", mode), ("user", user), ("overwrite", overwrite)];
        ("files", object(fields))
    });
    let directory = (option::of(number()), option::of(owner())).prop_map(move |(mode, user)| {
        ("directories", object(vec![("path", Some(path.into())), ("mode", mode), ("user", user)]))
    });
    let link = one_of(&["/t1", "/t2"])
        .prop_map(move |target| ("links", object(vec![("path", Some(path.into())), ("target", Some(target))])));
    prop_oneof![6 => file.boxed(), 2 => part.boxed(), 1 => directory.boxed(), 1 => link.boxed()].boxed()
}

fn storage() -> impl Strategy<Value = Value> {
    let nodes = ["/a", "/b", "/c", "/etc/systemd/system/a.service", "/d/e"].map(|path| option::of(storage_node(path)));
    let raid = (one_of(&["raid1", "raid5"]), texts(&["/dev/a", "/dev/b", "/dev/c"]), texts(&["o"]));
    let raid = raid.prop_map(|(level, devices, options)| match devices.as_array().is_some_and(Vec::is_empty) {
        true => json!([]),
        false => json!([{"name": "r", "level": level, "devices": devices, "options": options}]),
    });
    let luks = (number(), texts(&["p", "q"])).prop_map(|(nth, options)| {
        json!([{"name": "l", "device": format!("/dev/{nth}"), "openOptions": options, "options": options}])
    });
    let disk = vec(option::of(number()), 3).prop_map(|sizes| {
        let partitions: Vec<Value> = sizes
            .into_iter()
            .enumerate()
            .filter_map(|(nth, size)| Some(json!({"number": nth + 1, "sizeMiB": size?})))
            .collect();
        json!([{"device": "/dev/s", "partitions": partitions}])
    });
    (nodes, option::of(raid), option::weighted(0.3, luks), option::weighted(0.3, disk)).prop_map(
        |(nodes, raid, luks, disks)| {
            let mut storage = object(vec![("raid", raid), ("luks", luks), ("disks", disks)]);
            for (list, node) in nodes.into_iter().flatten() {
                match storage[list].as_array_mut() {
                    Some(nodes) => nodes.push(node),
                    None => storage[list] = json!([node]),
                }
            }
            storage
        },
    )
}

fn systemd() -> impl Strategy<Value = Value> {
    let text = || option::of(one_of(&["", "[Unit]\nA=1\n", "[Unit]\nA=2\n"]));
    let dropin = |name: &'static str| {
        option::of(text().prop_map(move |text| object(vec![("name", Some(name.into())), ("contents", text)])))
    };
    let unit = move |name: &'static str| {
        let dropins = (dropin("10.conf"), dropin("20.conf"));
        let unit = (text(), option::of(flag()), option::of(flag()), dropins);
        option::of(unit.prop_map(move |(contents, enabled, mask, (one, two))| {
            let dropins: Vec<Value> = one.into_iter().chain(two).collect();
            object(vec![
                ("name", Some(name.into())),
                ("contents", contents),
                ("enabled", enabled),
                ("mask", mask),
                ("dropins", Some(dropins.into())),
            ])
        }))
    };
    (unit("b.service"), unit("c.socket"), unit("d.timer"))
        .prop_map(|(a, b, c)| json!({"units": a.into_iter().chain(b).chain(c).collect::<Vec<_>>()}))
}

fn passwd() -> impl Strategy<Value = Value> {
    let user = (option::of(number()), texts(&["k1", "k2", "k3"]), texts(&["g1", "g2"]), option::of(flag()));
    let user = user.prop_map(|(uid, keys, groups, system)| {
        object(vec![
            ("name", Some("core".into())),
            ("uid", uid),
            ("sshAuthorizedKeys", Some(keys)),
            ("groups", Some(groups)),
            ("system", system),
        ])
    });
    let group = option::of(number()).prop_map(|gid| object(vec![("name", Some("g".into())), ("gid", gid)]));
    (user, option::of(group))
        .prop_map(|(user, group)| json!({"users": [user], "groups": group.into_iter().collect::<Vec<_>>()}))
}

fn arguments() -> impl Strategy<Value = Value> {
    subsequence(vec!["a", "b", "nosmt", "x=1", "x=2"], 0..=4).prop_flat_map(|all| {
        let count = all.len();
        (Just(all), 0..=count)
            .prop_map(|(all, middle)| json!({"shouldExist": all[..middle], "shouldNotExist": all[middle..]}))
    })
}

fn ignition() -> impl Strategy<Value = Value> {
    let merge = option::weighted(0.25, subsequence(vec!["https://c/0", "https://c/1", "https://c/2"], 1..=3));
    let timeouts = option::of(number().prop_map(|seconds| json!({"httpTotal": seconds})));
    (merge, timeouts).prop_map(|(merge, timeouts)| {
        let merge =
            merge.map(|urls| json!({"merge": urls.iter().map(|url| json!({"source": url})).collect::<Vec<_>>()}));
        object(vec![("config", merge), ("timeouts", timeouts)])
    })
}

/// A config of a 3.x version.
pub fn config_3() -> impl Strategy<Value = Value> {
    let version = one_of(&["3.5.0", "3.5.0", "3.4.0", "3.3.0"]);
    (
        version,
        ignition().boxed(),
        option::weighted(0.8, storage().boxed()),
        option::of(systemd().boxed()),
        option::of(passwd().boxed()),
        option::of(arguments()),
    )
        .prop_map(|(version, ignition, storage, systemd, passwd, arguments)| {
            let mut config = object(vec![
                ("ignition", Some(ignition)),
                ("storage", storage),
                ("systemd", systemd),
                ("passwd", passwd),
                ("kernelArguments", arguments),
            ]);
            config["ignition"]["version"] = version;
            config
        })
}

/// A config of a 2.x version.
fn config_2() -> impl Strategy<Value = Value> {
    let file = (one_of(&["/a", "/b", "/c"]), option::of(body()), option::of(number()), option::of(flag()));
    let file = file.prop_map(|(path, contents, mode, append)| {
        let contents = contents.map(|body| json!({"source": body["source"].as_str().filter(|s| *s != PACKED)}));
        object(vec![
            ("filesystem", Some("root".into())),
            ("path", Some(path)),
            ("contents", contents),
            ("mode", mode),
            ("append", append),
        ])
    });
    let unit = (one_of(&["b.service", "c.socket"]), option::of(flag()), option::of(flag()));
    let unit = unit.prop_map(|(name, enable, enabled)| {
        object(vec![("name", Some(name)), ("enable", enable), ("enabled", enabled)])
    });
    (one_of(&["2.2.0", "2.1.0", "2.0.0"]), vec(file, 0..4), vec(unit, 0..3), texts(&["k1", "k2"])).prop_map(
        |(version, files, units, keys)| {
            json!({
                "ignition": {"version": version},
                "storage": {"files": files},
                "systemd": {"units": units},
                "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys}]},
            })
        },
    )
}

/// The spec of a MachineConfig.
pub fn spec() -> impl Strategy<Value = Value> {
    (
        option::weighted(0.9, prop_oneof![8 => config_3().boxed(), 1 => config_2().boxed()]),
        option::of(texts(&["quiet", "x=1", "x=2", "nosmt", "a b"])),
        option::of(texts(&["usbguard", "ipsec"])),
        option::of(flag()),
        option::of(one_of(&["", "default", "realtime", "64k-pages"])),
        option::weighted(0.2, one_of(&["", "img:tag", "img@sha256:aa"])),
        option::weighted(0.2, one_of(&["", "e1", "e2"])),
    )
        .prop_map(|(config, arguments, extensions, fips, kernel, image, extensions_image)| {
            object(vec![
                ("config", config),
                ("kernelArguments", arguments),
                ("extensions", extensions),
                ("fips", fips),
                ("kernelType", kernel),
                ("osImageURL", image),
                ("baseOSExtensionsContainerImage", extensions_image),
            ])
        })
}

/// Manifests that a failed test shows as JSON, one a line.
#[derive(Clone)]
pub struct Manifests(pub Vec<Value>);

impl std::fmt::Debug for Manifests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|manifest| write!(f, "\n{manifest}"))
    }
}

/// Some MachineConfigs with names of their own.
pub fn machine_configs() -> impl Strategy<Value = Manifests> {
    let names = subsequence(vec!["0-x", "00-worker", "10-a", "50-user", "99-worker-generated-kubelet", "zz"], 1..=5);
    let made_by = prop_oneof![4 => Just(""), 1 => Just("v1"), 1 => Just("v2")];
    names.prop_flat_map(move |names| {
        let one = (select(vec!["worker", "worker", "infra"]), made_by.clone(), spec().boxed());
        vec(one, names.len()).prop_map(move |all| {
            let named = names.iter().zip(all).map(|(name, (role, made_by, spec))| {
                let machine_config = mc_of(role, name, spec);
                if made_by.is_empty() { machine_config } else { generated_by(made_by, machine_config) }
            });
            Manifests(named.collect())
        })
    })
}

/// What lies on the servers that configs refer to.
pub fn content(url: &str) -> Option<Vec<u8>> {
    let config = |sections: Value| with_version("3.4.0", sections).to_string().into_bytes();
    Some(match url {
        "https://h/0" => b"zero".to_vec(),
        "https://h/1" => b"one\n".to_vec(),
        "https://h/2" => vec![0, 159, 146, 150],
        "https://c/0" => config(json!({
            "ignition": {"config": {"merge": [{"source": "https://c/1"}]}},
            "storage": {"files": [{"path": "/a", "mode": 3, "contents": {"source": "https://h/0"}}]},
        })),
        "https://c/1" => config(json!({
            "storage": {
                "files": [{"path": "/a", "contents": {"source": "data:,c1"}}],
                "directories": [{"path": "/c"}],
            },
            "kernelArguments": {"shouldNotExist": ["a"]},
        })),
        "https://c/2" => config(json!({
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k3", "k9"]}]},
            "systemd": {"units": [{"name": "b.service", "mask": true}]},
            "storage": {"files": [{"path": "/b", "append": [{"source": "https://h/1"}], "overwrite": false}]},
        })),
        _ => return None,
    })
}

/// Answers with [`content`].
pub fn server(wanted: &ContentRequest) -> Result<Vec<u8>, FetchError> {
    let url = &wanted.request.url;
    content(url).ok_or_else(|| FetchError {
        url: url.clone(),
        redirected_to: None,
        attempts: 1,
        kind: FailureKind::NotFound,
    })
}

/// Laws about results hold trivially where there is none.
#[test]
fn most_of_these_manifests_can_be_rendered_and_meet_each_other() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = machine_configs();
    let (mut rendered, mut met, mut remote) = (0, 0, 0);
    for _ in 0..200 {
        let Manifests(manifests) = strategy.new_tree(&mut runner).unwrap().current();
        if let Ok(outcome) = try_render_with(&infra(), &manifests, &context(), &server).0 {
            rendered += 1;
            met += usize::from(outcome.provenance.iter().any(|line| !line.overrode.is_empty()));
            remote += usize::from(!outcome.embedded.is_empty());
        }
    }
    assert!(rendered > 100 && met > 50 && remote > 50, "{rendered} rendered, {met} met, {remote} remote");
}
