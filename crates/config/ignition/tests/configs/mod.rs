//! Random configs: valid ones of every version, from alphabets so small that keys meet, and arbitrary JSON that only
//! looks like a config.

pub mod arbitrary;
mod blocks;
pub mod spec_2;

use proptest::prelude::*;
use proptest::sample::subsequence;
use seaworthy_ignition::Version;
use seaworthy_ignition::schema::{CONFIG, FieldType, Object};
use serde_json::{Value, json};

use self::blocks::{Field, Json, always, flag, keyed, list, maybe, object, one, set};

const HASH_512: &str = "sha512-cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";
const HASH_256: &str = "sha256-abababababababababababababababababababababababababababababababab";
const SERVICE: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=x\n";

fn source(version: Version) -> Json {
    let mut sources = vec![
        "data:,a",
        "data:,b",
        "data:;base64,YQ==",
        "http://h/a",
        "http://h/b",
        "https://i/a",
        "s3://b/k",
        "tftp://h/a",
    ];
    if version >= Version::V3_2 {
        sources.push("gs://b/k");
    }
    if version >= Version::V3_4 {
        sources.push("arn:aws:s3:::b/k");
    }
    one(&sources)
}

fn hash(version: Version) -> Json {
    one(if version >= Version::V3_1 { &[HASH_512, HASH_256] } else { &[HASH_512] })
}

fn headers(with_removals: bool) -> Json {
    keyed(&["A", "B", "C"], move |name| {
        let value = one(&["1", "2"]);
        let value = if with_removals { prop::option::of(value).boxed() } else { value.prop_map(Some).boxed() };
        object(vec![always("name", name), ("value", value)])
    })
}

/// What to vary besides the version.
#[derive(Debug, Clone, Copy)]
pub struct Variety {
    /// Headers at all.
    pub headers: bool,
    /// Headers without a value, which take the parent's away.
    pub removals: bool,
    /// Whether a path may be a file in one config and a link in another, an argument wanted in one and not in another.
    pub kinds: bool,
    /// Mode bits beyond the permissions.
    pub special_bits: bool,
    /// LUKS devices, disks and filesystems, which few machines can be given.
    pub devices: bool,
}

impl Variety {
    /// Everything that a valid config may hold.
    pub const ALL: Variety = Variety { headers: true, removals: true, kinds: true, special_bits: true, devices: true };
}

fn body(version: Version, variety: Variety) -> Json {
    let rest = object(vec![
        maybe("compression", one(&["", "gzip"])),
        maybe("verification", object(vec![maybe("hash", hash(version))])),
        maybe("httpHeaders", headers(variety.removals)),
    ]);
    (prop::option::weighted(0.8, source(version)), rest)
        .prop_map(move |(source, mut body)| {
            let is_http = source.as_ref().and_then(Value::as_str).is_some_and(|source| source.starts_with("http"));
            if let Some(map) = body.as_object_mut() {
                if !is_http || !variety.headers {
                    map.remove("httpHeaders");
                }
                match source {
                    Some(source) => drop(map.insert("source".to_owned(), source)),
                    None => drop(map.remove("verification")),
                }
            }
            body
        })
        .boxed()
}

fn reference(version: Version, variety: Variety, source: &'static str) -> Json {
    body(version, variety)
        .prop_map(move |mut body| {
            body["source"] = source.into();
            if !source.starts_with("http")
                && let Some(map) = body.as_object_mut()
            {
                map.remove("httpHeaders");
            }
            body
        })
        .boxed()
}

fn owner() -> Json {
    prop_oneof![
        one(&[0, 1]).prop_map(|id| json!({ "id": id })),
        one(&["root", "core"]).prop_map(|name| json!({ "name": name })),
        Just(json!({"id": 0, "name": ""})),
    ]
    .boxed()
}

fn mode(variety: Variety) -> Json {
    if variety.special_bits { one(&[0o644, 0o600, 0, 0o1777]) } else { one(&[0o644, 0o600, 0, 0o777]) }
}

/// The fields that files, directories and links share.
fn node(path: &'static str) -> Vec<Field> {
    vec![always("path", path), maybe("user", owner()), maybe("group", owner()), maybe("overwrite", flag())]
}

fn file(path: &'static str, version: Version, variety: Variety) -> Json {
    let mut fields = node(path);
    fields.push(maybe("contents", body(version, variety)));
    fields.push(maybe("mode", mode(variety)));
    fields.push(maybe("append", prop::collection::vec(body(version, variety), 0..3).prop_map(Value::from).boxed()));
    object(fields)
        .prop_map(|mut file| {
            if file["overwrite"] == true && file.pointer("/contents/source").is_none() {
                file["overwrite"] = false.into();
            }
            file
        })
        .boxed()
}

fn directory(path: &'static str, variety: Variety) -> Json {
    let mut fields = node(path);
    fields.push(maybe("mode", mode(variety)));
    object(fields)
}

fn link(path: &'static str) -> Json {
    let mut fields = node(path);
    fields.push(("target", one(&["/t", "../t", "t"]).prop_map(Some).boxed()));
    fields.push(maybe("hard", flag()));
    object(fields)
}

/// Files, directories and links: each path is one of them.
fn tree(version: Version, variety: Variety) -> BoxedStrategy<Vec<(&'static str, Value)>> {
    let paths = ["/a", "/b", "/etc/x", "/opt/y", "/var/z", "/v/w"];
    subsequence(paths.to_vec(), 0..=paths.len())
        .prop_shuffle()
        .prop_flat_map(move |paths| {
            let entry = |path: &'static str| {
                let files = file(path, version, variety).prop_map(|node| ("files", node));
                let directories = directory(path, variety).prop_map(|node| ("directories", node));
                let links = link(path).prop_map(|node| ("links", node));
                if variety.kinds {
                    return prop_oneof![files, directories, links].boxed();
                }
                match path {
                    "/var/z" => directories.boxed(),
                    "/v/w" => links.boxed(),
                    _ => files.boxed(),
                }
            };
            paths.into_iter().map(entry).collect::<Vec<_>>()
        })
        .boxed()
}

fn partition(version: Version) -> Json {
    let wanted = object(vec![
        maybe("guid", one(&["", "01234567-89AB-CDEF-EDCB-A98765432101"])),
        maybe("sizeMiB", one(&[0, 5])),
        maybe("resize", flag()),
        maybe("shouldExist", one(&[true])),
        maybe("wipePartitionEntry", flag()),
    ]);
    let gone = Just(json!({"shouldExist": false}));
    prop_oneof![3 => wanted, 1 => gone]
        .prop_map(move |mut partition| {
            if version < Version::V3_2
                && let Some(map) = partition.as_object_mut()
            {
                map.remove("resize");
            }
            partition
        })
        .boxed()
}

fn disk(device: &'static str, version: Version) -> Json {
    let partitions = keyed(&["1", "2", "3"], move |number| {
        partition(version)
            .prop_map(move |mut partition| {
                let number: i64 = number.parse().unwrap();
                partition["number"] = number.into();
                if partition["shouldExist"] != false {
                    partition["label"] = format!("l{number}").into();
                    partition["startMiB"] = (number * 100).into();
                }
                partition
            })
            .boxed()
    });
    object(vec![always("device", device), maybe("wipeTable", flag()), maybe("partitions", partitions)])
}

fn filesystem(device: &'static str, version: Version) -> Json {
    let formats: &[&str] =
        if version >= Version::V3_3 { &["ext4", "xfs", "swap", "none"] } else { &["ext4", "xfs", "swap"] };
    object(vec![
        always("device", device),
        ("format", one(formats).prop_map(Some).boxed()),
        maybe("label", one(&["x", "y"])),
        maybe("path", one(&["/m", "/var/m", ""])),
        maybe("uuid", one(&["u"])),
        maybe("wipeFilesystem", flag()),
        maybe("options", list(&["o1", "o2"])),
        maybe("mountOptions", list(&["m1", "m2"])),
    ])
}

fn raid(name: &'static str) -> Json {
    let devices = subsequence(vec!["/dev/a", "/dev/b", "/dev/c"], 1..=3).prop_shuffle().prop_map(Value::from);
    object(vec![
        always("name", name),
        ("devices", devices.prop_map(Some).boxed()),
        ("level", one(&["raid1", "raid5", "1"]).prop_map(Some).boxed()),
        maybe("spares", one(&[0, 1])),
        maybe("options", list(&["o1", "o2"])),
    ])
}

fn luks(name: &'static str, version: Version, variety: Variety) -> Json {
    let tang = keyed(&["http://t1", "https://t2"], |url| {
        object(vec![
            always("url", url),
            ("thumbprint", one(&["x", "y"]).prop_map(Some).boxed()),
            maybe("advertisement", one(&["{}", "{\"a\":1}"])),
        ])
    });
    let pins = object(vec![maybe("tang", tang), maybe("threshold", one(&[1, 2])), maybe("tpm2", flag())]);
    let custom = object(vec![maybe("needsNetwork", flag()), always("pin", "tpm2"), always("config", "{}")])
        .prop_map(|custom| json!({ "custom": custom }));
    object(vec![
        always("name", name),
        ("device", one(&["/dev/a", "/dev/b"]).prop_map(Some).boxed()),
        maybe("clevis", prop_oneof![3 => pins, 1 => custom].boxed()),
        maybe("keyFile", body(version, variety)),
        maybe("label", one(&["x", "y"])),
        maybe("uuid", one(&["u"])),
        maybe("wipeVolume", flag()),
        maybe("options", list(&["o1", "o2"])),
        maybe("openOptions", set(&["p1", "p2"])),
        maybe("discard", flag()),
        maybe("cex", object(vec![maybe("enabled", flag())])),
    ])
    .prop_map(|mut luks| {
        let has_pins =
            ["tang", "tpm2", "threshold", "custom"].iter().any(|pin| luks.pointer(&format!("/clevis/{pin}")).is_some());
        if luks.pointer("/cex/enabled") == Some(&Value::Bool(true))
            && (has_pins || luks.pointer("/keyFile/source").is_some())
        {
            luks["cex"]["enabled"] = false.into();
        }
        luks
    })
    .boxed()
}

fn dropins() -> Json {
    keyed(&["10.conf", "20.conf", "30.conf"], |name| {
        object(vec![always("name", name), maybe("contents", one(&["", "[Unit]\nA=1\n", "[Unit]\nA=2\n"]))])
    })
}

fn unit(name: &'static str) -> Json {
    object(vec![
        always("name", name),
        maybe("contents", one(&["", SERVICE, "[Unit]\nDescription=a\n"])),
        maybe("enabled", flag()),
        maybe("mask", flag()),
        maybe("dropins", dropins()),
    ])
}

fn user(name: &'static str) -> Json {
    object(vec![
        always("name", name),
        maybe("gecos", one(&["", "g"])),
        maybe("groups", set(&["g1", "g2"])),
        maybe("homeDir", one(&["/h"])),
        maybe("noCreateHome", flag()),
        maybe("passwordHash", one(&["", "h1", "h2"])),
        maybe("primaryGroup", one(&["p"])),
        maybe("shell", one(&["/bin/sh"])),
        maybe("shouldExist", flag()),
        maybe("sshAuthorizedKeys", set(&["k1", "k2", "k3"])),
        maybe("system", flag()),
        maybe("uid", one(&[0, 1000])),
    ])
}

fn group(name: &'static str) -> Json {
    object(vec![
        always("name", name),
        maybe("gid", one(&[0, 5])),
        maybe("passwordHash", one(&["", "h"])),
        maybe("shouldExist", flag()),
        maybe("system", flag()),
    ])
}

fn kernel_arguments(variety: Variety) -> Json {
    let words: (&[&'static str], &[&'static str]) =
        if variety.kinds { (&["a", "b", "c d", "e=1"], &[]) } else { (&["a", "b"], &["c d", "e=1"]) };
    (set(words.0), set(words.1), any::<prop::sample::Index>())
        .prop_map(move |(first, second, cut)| {
            let mut exist = first.as_array().cloned().unwrap_or_default();
            let not = if variety.kinds {
                exist.split_off(cut.index(exist.len() + 1))
            } else {
                second.as_array().cloned().unwrap_or_default()
            };
            json!({"shouldExist": exist, "shouldNotExist": not})
        })
        .boxed()
}

/// A valid config of a 3.x version.
pub fn config(version: Version, variety: Variety) -> Json {
    let references = object(vec![
        maybe(
            "merge",
            keyed(&["http://m/1", "http://m/2", "data:,m"], move |source| reference(version, variety, source)),
        ),
        maybe("replace", body(version, variety)),
    ]);
    let authorities = keyed(&["https://c/1", "data:,c"], move |source| reference(version, variety, source));
    let ignition = object(vec![
        always("version", version.as_str()),
        maybe("config", references),
        maybe(
            "proxy",
            object(vec![
                maybe("httpProxy", one(&["http://p"])),
                maybe("httpsProxy", one(&["https://p"])),
                maybe("noProxy", set(&["n1", "n2"])),
            ]),
        ),
        maybe("security", object(vec![maybe("tls", object(vec![maybe("certificateAuthorities", authorities)]))])),
        maybe("timeouts", object(vec![maybe("httpResponseHeaders", one(&[0, 10])), maybe("httpTotal", one(&[0, 20]))])),
    ]);
    let passwd =
        object(vec![maybe("users", keyed(&["core", "u"], user)), maybe("groups", keyed(&["g1", "g2"], group))]);
    let devices = object(vec![
        maybe("disks", keyed(&["/dev/a", "/dev/b"], move |device| disk(device, version))),
        maybe("filesystems", keyed(&["/dev/c", "/dev/d"], move |device| filesystem(device, version))),
        maybe("luks", keyed(&["l1", "l2"], move |name| luks(name, version, variety))),
        maybe("raid", keyed(&["r1", "r2"], raid)),
    ]);
    let storage = (tree(version, variety), devices)
        .prop_map(move |(tree, devices)| {
            let mut storage = if variety.devices { devices } else { json!({}) };
            for (list, node) in tree {
                let nodes = storage.as_object_mut().unwrap().entry(list).or_insert_with(|| json!([]));
                nodes.as_array_mut().unwrap().push(node);
            }
            storage
        })
        .boxed();
    let systemd = object(vec![maybe("units", keyed(&["a.service", "b.service", "c@.service"], unit))]);
    object(vec![
        ("ignition", ignition.prop_map(Some).boxed()),
        maybe("kernelArguments", kernel_arguments(variety)),
        maybe("passwd", passwd),
        maybe("storage", storage),
        maybe("systemd", systemd),
    ])
    .prop_map(move |mut config| {
        keep_known(&mut config, &CONFIG, version);
        config
    })
    .boxed()
}

/// Takes out the fields that came after a version, as well as empty objects and lists.
fn keep_known(json: &mut Value, object: &Object, version: Version) {
    let Some(map) = json.as_object_mut() else { return };
    map.retain(|key, child| {
        let Some(field) = object.field(key).filter(|field| field.since <= version) else { return false };
        match &field.kind {
            FieldType::Object(object) => keep_known(child, object, version),
            FieldType::List(list) => {
                if let FieldType::Object(object) = &list.item {
                    child.as_array_mut().into_iter().flatten().for_each(|item| keep_known(item, object, version));
                }
            }
            _ => {}
        }
        child != &json!({}) && child != &json!([])
    });
}
