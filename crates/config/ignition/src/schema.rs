//! The shape of an Ignition 3.5 config as one table: fields, their types, the version that brought them,
//! and how lists are merged.
//!
//! Shape checks, merging, pruning for older versions and comparison all read this table, so that a field
//! is described once.

use std::borrow::Cow;

use crate::node::Node;
use crate::validate::{Rule, device, file, nothing, resource, unit};
use crate::version::Version::{self, *};

/// What may stand at a place.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string.
    Str,
    /// A whole number.
    Int,
    /// A boolean.
    Bool,
    /// An object.
    Object(&'static Object),
    /// A list.
    List(&'static List),
}

/// An object of the config.
#[derive(Debug)]
pub struct Object {
    /// What people call it: "file", "unit".
    pub noun: &'static str,
    /// Its fields, by name.
    pub fields: &'static [Field],
    /// Lists of this object that share one space of keys: an entry in one removes its namesake from the others.
    pub shared: &'static [&'static str],
    /// How two of it merge.
    pub merge: Merge,
    /// The rule that one of it must obey.
    pub(crate) rule: Rule,
}

/// How two objects of one kind merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Field by field.
    Fields,
    /// Field by field, unless the child names a source: then the child's body is taken as a whole.
    Body,
}

/// A field of an [`Object`].
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// The version that brought it.
    pub since: Version,
}

/// A list of the config.
#[derive(Debug)]
pub struct List {
    /// What may stand in it.
    pub item: Kind,
    /// How two of it merge.
    pub mode: Mode,
}

/// How two lists merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Entries with the same key become one, the rest follow.
    Keyed(KeyBy),
    /// As [`Mode::Keyed`], but an entry without a value removes its namesake.
    Headers,
    /// One after the other, equal entries included.
    Concat,
}

/// What tells two entries of a list apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyBy {
    /// A field of the entry.
    Field(&'static str),
    /// The entry is a string and is its own key.
    Text,
    /// A partition: by number, or by label when it has none.
    Partition,
}

impl Object {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl KeyBy {
    /// The key of an entry. Entries that lack it have the empty one, as upstream's do.
    pub fn key_of<'n>(self, node: &'n Node<'_>) -> Cow<'n, str> {
        self.key_from(node.as_str(), |field| node.str_of(field), |field| node.int_of(field))
    }

    /// The key of an entry that is a text, or whose fields are looked up.
    pub(crate) fn key_from<'n>(
        self,
        own: Option<&'n str>,
        text: impl Fn(&str) -> Option<&'n str>,
        number: impl Fn(&str) -> Option<i64>,
    ) -> Cow<'n, str> {
        match self {
            KeyBy::Field(field) => text(field).unwrap_or_default().into(),
            KeyBy::Text => own.unwrap_or_default().into(),
            KeyBy::Partition => match (number("number").unwrap_or(0), text("label")) {
                (0, Some(label)) => format!("label:{label}").into(),
                (0, None) => "".into(),
                (number, _) => format!("number:{number}").into(),
            },
        }
    }
}

const fn field(name: &'static str, kind: Kind, since: Version) -> Field {
    Field { name, kind, since }
}

const fn object(noun: &'static str, rule: Rule, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: Merge::Fields, rule }
}

/// An object whose source, hash, compression and headers belong together.
const fn body(noun: &'static str, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: Merge::Body, rule: resource::resource }
}

macro_rules! list {
    ($item:expr, $mode:expr) => {
        Kind::List(&List { item: $item, mode: $mode })
    };
}

const BY_TEXT: Mode = Mode::Keyed(KeyBy::Text);
const BY_NAME: Mode = Mode::Keyed(KeyBy::Field("name"));
const BY_PATH: Mode = Mode::Keyed(KeyBy::Field("path"));
const BY_SOURCE: Mode = Mode::Keyed(KeyBy::Field("source"));
const BY_DEVICE: Mode = Mode::Keyed(KeyBy::Field("device"));

/// A whole config.
pub static CONFIG: Object = object(
    "config",
    unit::config,
    &[
        field("ignition", Kind::Object(&IGNITION), V3_0),
        field("kernelArguments", Kind::Object(&KERNEL_ARGUMENTS), V3_3),
        field("passwd", Kind::Object(&PASSWD), V3_0),
        field("storage", Kind::Object(&STORAGE), V3_0),
        field("systemd", Kind::Object(&SYSTEMD), V3_0),
    ],
);

static IGNITION: Object = object(
    "ignition section",
    nothing,
    &[
        field("version", Kind::Str, V3_0),
        field("config", Kind::Object(&IGNITION_CONFIG), V3_0),
        field("proxy", Kind::Object(&PROXY), V3_1),
        field("security", Kind::Object(&SECURITY), V3_0),
        field("timeouts", Kind::Object(&TIMEOUTS), V3_0),
    ],
);

static IGNITION_CONFIG: Object = object(
    "config references",
    resource::references,
    &[field("merge", list!(Kind::Object(&REFERENCE), BY_SOURCE), V3_0), field("replace", Kind::Object(&REPLACE), V3_0)],
);

static PROXY: Object = object(
    "proxy section",
    resource::proxy,
    &[
        field("httpProxy", Kind::Str, V3_1),
        field("httpsProxy", Kind::Str, V3_1),
        field("noProxy", list!(Kind::Str, BY_TEXT), V3_1),
    ],
);

static SECURITY: Object = object("security section", nothing, &[field("tls", Kind::Object(&TLS), V3_0)]);

static TLS: Object = object(
    "tls section",
    resource::tls,
    &[field("certificateAuthorities", list!(Kind::Object(&REFERENCE), BY_SOURCE), V3_0)],
);

static TIMEOUTS: Object = object(
    "timeouts section",
    nothing,
    &[field("httpResponseHeaders", Kind::Int, V3_0), field("httpTotal", Kind::Int, V3_0)],
);

const HEADERS: Kind = list!(Kind::Object(&HEADER), Mode::Headers);

static HEADER: Object =
    object("header", resource::header, &[field("name", Kind::Str, V3_1), field("value", Kind::Str, V3_1)]);

static VERIFICATION: Object = object("verification", resource::verification, &[field("hash", Kind::Str, V3_0)]);

const REFERENCE_FIELDS: &[Field] = &[
    field("compression", Kind::Str, V3_1),
    field("httpHeaders", HEADERS, V3_1),
    field("source", Kind::Str, V3_0),
    field("verification", Kind::Object(&VERIFICATION), V3_0),
];

/// A reference to a config or a certificate, in a list keyed by source.
static REFERENCE: Object = object("reference", resource::resource, REFERENCE_FIELDS);

/// The config that replaces this one.
static REPLACE: Object = body("reference", REFERENCE_FIELDS);

/// What goes into a file.
static BODY: Object = body(
    "contents",
    &[
        field("compression", Kind::Str, V3_0),
        field("httpHeaders", HEADERS, V3_1),
        field("source", Kind::Str, V3_0),
        field("verification", Kind::Object(&VERIFICATION), V3_0),
    ],
);

static KERNEL_ARGUMENTS: Object = Object {
    noun: "kernelArguments section",
    fields: &[
        field("shouldExist", list!(Kind::Str, BY_TEXT), V3_3),
        field("shouldNotExist", list!(Kind::Str, BY_TEXT), V3_3),
    ],
    shared: &["shouldExist", "shouldNotExist"],
    merge: Merge::Fields,
    rule: nothing,
};

static PASSWD: Object = object(
    "passwd section",
    nothing,
    &[
        field("groups", list!(Kind::Object(&GROUP), BY_NAME), V3_0),
        field("users", list!(Kind::Object(&USER), BY_NAME), V3_0),
    ],
);

static GROUP: Object = object(
    "group",
    nothing,
    &[
        field("gid", Kind::Int, V3_0),
        field("name", Kind::Str, V3_0),
        field("passwordHash", Kind::Str, V3_0),
        field("shouldExist", Kind::Bool, V3_2),
        field("system", Kind::Bool, V3_0),
    ],
);

static USER: Object = object(
    "user",
    nothing,
    &[
        field("gecos", Kind::Str, V3_0),
        field("groups", list!(Kind::Str, BY_TEXT), V3_0),
        field("homeDir", Kind::Str, V3_0),
        field("name", Kind::Str, V3_0),
        field("noCreateHome", Kind::Bool, V3_0),
        field("noLogInit", Kind::Bool, V3_0),
        field("noUserGroup", Kind::Bool, V3_0),
        field("passwordHash", Kind::Str, V3_0),
        field("primaryGroup", Kind::Str, V3_0),
        field("shell", Kind::Str, V3_0),
        field("shouldExist", Kind::Bool, V3_2),
        field("sshAuthorizedKeys", list!(Kind::Str, BY_TEXT), V3_0),
        field("system", Kind::Bool, V3_0),
        field("uid", Kind::Int, V3_0),
    ],
);

static STORAGE: Object = Object {
    noun: "storage section",
    fields: &[
        field("directories", list!(Kind::Object(&DIRECTORY), BY_PATH), V3_0),
        field("disks", list!(Kind::Object(&DISK), BY_DEVICE), V3_0),
        field("files", list!(Kind::Object(&FILE), BY_PATH), V3_0),
        field("filesystems", list!(Kind::Object(&FILESYSTEM), BY_DEVICE), V3_0),
        field("links", list!(Kind::Object(&LINK), BY_PATH), V3_0),
        field("luks", list!(Kind::Object(&LUKS), BY_NAME), V3_2),
        field("raid", list!(Kind::Object(&RAID), BY_NAME), V3_0),
    ],
    shared: &["directories", "files", "links"],
    merge: Merge::Fields,
    rule: file::storage,
};

static OWNER: Object = object("owner", file::owner, &[field("id", Kind::Int, V3_0), field("name", Kind::Str, V3_0)]);

static DIRECTORY: Object = object(
    "directory",
    file::directory,
    &[
        field("group", Kind::Object(&OWNER), V3_0),
        field("mode", Kind::Int, V3_0),
        field("overwrite", Kind::Bool, V3_0),
        field("path", Kind::Str, V3_0),
        field("user", Kind::Object(&OWNER), V3_0),
    ],
);

static FILE: Object = object(
    "file",
    file::file,
    &[
        field("append", list!(Kind::Object(&BODY), Mode::Concat), V3_0),
        field("contents", Kind::Object(&BODY), V3_0),
        field("group", Kind::Object(&OWNER), V3_0),
        field("mode", Kind::Int, V3_0),
        field("overwrite", Kind::Bool, V3_0),
        field("path", Kind::Str, V3_0),
        field("user", Kind::Object(&OWNER), V3_0),
    ],
);

static LINK: Object = object(
    "link",
    file::link,
    &[
        field("group", Kind::Object(&OWNER), V3_0),
        field("hard", Kind::Bool, V3_0),
        field("overwrite", Kind::Bool, V3_0),
        field("path", Kind::Str, V3_0),
        field("target", Kind::Str, V3_0),
        field("user", Kind::Object(&OWNER), V3_0),
    ],
);

static DISK: Object = object(
    "disk",
    device::disk,
    &[
        field("device", Kind::Str, V3_0),
        field("partitions", list!(Kind::Object(&PARTITION), Mode::Keyed(KeyBy::Partition)), V3_0),
        field("wipeTable", Kind::Bool, V3_0),
    ],
);

static PARTITION: Object = object(
    "partition",
    device::partition,
    &[
        field("guid", Kind::Str, V3_0),
        field("label", Kind::Str, V3_0),
        field("number", Kind::Int, V3_0),
        field("resize", Kind::Bool, V3_2),
        field("shouldExist", Kind::Bool, V3_0),
        field("sizeMiB", Kind::Int, V3_0),
        field("startMiB", Kind::Int, V3_0),
        field("typeGuid", Kind::Str, V3_0),
        field("wipePartitionEntry", Kind::Bool, V3_0),
    ],
);

static FILESYSTEM: Object = object(
    "filesystem",
    device::filesystem,
    &[
        field("device", Kind::Str, V3_0),
        field("format", Kind::Str, V3_0),
        field("label", Kind::Str, V3_0),
        field("mountOptions", list!(Kind::Str, Mode::Concat), V3_1),
        field("options", list!(Kind::Str, Mode::Concat), V3_0),
        field("path", Kind::Str, V3_0),
        field("uuid", Kind::Str, V3_0),
        field("wipeFilesystem", Kind::Bool, V3_0),
    ],
);

static RAID: Object = object(
    "raid",
    device::raid,
    &[
        field("devices", list!(Kind::Str, BY_TEXT), V3_0),
        field("level", Kind::Str, V3_0),
        field("name", Kind::Str, V3_0),
        field("options", list!(Kind::Str, Mode::Concat), V3_0),
        field("spares", Kind::Int, V3_0),
    ],
);

static LUKS: Object = object(
    "luks device",
    device::luks,
    &[
        field("cex", Kind::Object(&CEX), V3_5),
        field("clevis", Kind::Object(&CLEVIS), V3_2),
        field("device", Kind::Str, V3_2),
        field("discard", Kind::Bool, V3_4),
        field("keyFile", Kind::Object(&BODY), V3_2),
        field("label", Kind::Str, V3_2),
        field("name", Kind::Str, V3_2),
        field("openOptions", list!(Kind::Str, BY_TEXT), V3_4),
        field("options", list!(Kind::Str, Mode::Concat), V3_2),
        field("uuid", Kind::Str, V3_2),
        field("wipeVolume", Kind::Bool, V3_2),
    ],
);

static CEX: Object = object("cex section", nothing, &[field("enabled", Kind::Bool, V3_5)]);

static CLEVIS: Object = object(
    "clevis section",
    nothing,
    &[
        field("custom", Kind::Object(&CLEVIS_CUSTOM), V3_2),
        field("tang", list!(Kind::Object(&TANG), Mode::Keyed(KeyBy::Field("url"))), V3_2),
        field("threshold", Kind::Int, V3_2),
        field("tpm2", Kind::Bool, V3_2),
    ],
);

static CLEVIS_CUSTOM: Object = object(
    "custom clevis pin",
    device::clevis_custom,
    &[field("config", Kind::Str, V3_2), field("needsNetwork", Kind::Bool, V3_2), field("pin", Kind::Str, V3_2)],
);

static TANG: Object = object(
    "tang server",
    device::tang,
    &[field("advertisement", Kind::Str, V3_4), field("thumbprint", Kind::Str, V3_2), field("url", Kind::Str, V3_2)],
);

static SYSTEMD: Object =
    object("systemd section", unit::systemd, &[field("units", list!(Kind::Object(&UNIT), BY_NAME), V3_0)]);

static UNIT: Object = object(
    "unit",
    unit::unit,
    &[
        field("contents", Kind::Str, V3_0),
        field("dropins", list!(Kind::Object(&DROPIN), BY_NAME), V3_0),
        field("enabled", Kind::Bool, V3_0),
        field("mask", Kind::Bool, V3_0),
        field("name", Kind::Str, V3_0),
    ],
);

static DROPIN: Object =
    object("drop-in", unit::dropin, &[field("contents", Kind::Str, V3_0), field("name", Kind::Str, V3_0)]);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every object of the table, once.
    fn objects() -> Vec<&'static Object> {
        fn walk(kind: &Kind, seen: &mut HashSet<usize>, out: &mut Vec<&'static Object>) {
            match kind {
                Kind::Object(object) if seen.insert(std::ptr::from_ref(*object).addr()) => {
                    out.push(object);
                    object.fields.iter().for_each(|field| walk(&field.kind, seen, out));
                }
                Kind::List(list) => walk(&list.item, seen, out),
                _ => {}
            }
        }
        let mut out = Vec::new();
        walk(&Kind::Object(&CONFIG), &mut HashSet::new(), &mut out);
        out
    }

    #[test]
    fn fields_are_sorted_and_keys_and_groups_exist() {
        for object in objects() {
            let names: Vec<_> =
                object.fields.iter().map(|field| field.name).filter(|name| *name != "version").collect();
            assert!(names.is_sorted(), "{}: {names:?}", object.noun);
            for shared in object.shared {
                assert!(matches!(object.field(shared).unwrap().kind, Kind::List(_)));
            }
            for field in object.fields {
                if let Kind::List(List { item: Kind::Object(item), mode: Mode::Keyed(KeyBy::Field(key)) }) = &field.kind
                {
                    assert!(matches!(item.field(key).unwrap().kind, Kind::Str), "{}.{}", object.noun, field.name);
                }
            }
        }
    }
}
