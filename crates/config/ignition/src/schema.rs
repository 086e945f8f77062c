//! Schema of an Ignition 3.5 config as one table: fields, their types, the version that brought them,
//! and how lists are merged.
//!
//! Shape checks, merging, pruning for older versions and comparison all read this table, so that a field
//! is described once.

use std::borrow::Cow;

use crate::node::Node;
use crate::validate::{Rule, device, file, no_rule, resource, unit};
use crate::version::Version::{self, *};

/// The type of a field or list item.
#[derive(Debug, Clone, Copy)]
pub enum FieldType {
    Str,
    /// A whole number.
    Int,
    Bool,
    Object(&'static Object),
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
    pub merge: ObjectMergeMode,
    /// The rule that one of it must obey.
    pub(crate) rule: Rule,
}

/// How two objects of one kind merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectMergeMode {
    /// Field by field.
    Fields,
    /// Field by field, unless the child names a source: then the child's body is taken as a whole.
    Body,
}

/// A field of an [`Object`].
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: FieldType,
    /// The version that brought it.
    pub since: Version,
}

/// A list of the config.
#[derive(Debug)]
pub struct List {
    /// The type of its items.
    pub item: FieldType,
    /// How two of it merge.
    pub mode: ListMergeMode,
}

/// How two lists merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMergeMode {
    /// Entries with the same key become one, the rest follow.
    Keyed(KeyBy),
    /// As [`ListMergeMode::Keyed`], but an entry without a value removes its namesake.
    Headers,
    /// One after the other, equal entries included.
    Concat,
}

/// What identifies an entry of a list.
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

const fn field(name: &'static str, kind: FieldType, since: Version) -> Field {
    Field { name, kind, since }
}

const fn object(noun: &'static str, rule: Rule, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: ObjectMergeMode::Fields, rule }
}

/// An object whose source, hash, compression and headers belong together.
const fn body(noun: &'static str, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: ObjectMergeMode::Body, rule: resource::resource }
}

macro_rules! list {
    ($item:expr, $mode:expr) => {
        FieldType::List(&List { item: $item, mode: $mode })
    };
}

const BY_TEXT: ListMergeMode = ListMergeMode::Keyed(KeyBy::Text);
const BY_NAME: ListMergeMode = ListMergeMode::Keyed(KeyBy::Field("name"));
const BY_PATH: ListMergeMode = ListMergeMode::Keyed(KeyBy::Field("path"));
const BY_SOURCE: ListMergeMode = ListMergeMode::Keyed(KeyBy::Field("source"));
const BY_DEVICE: ListMergeMode = ListMergeMode::Keyed(KeyBy::Field("device"));

/// A whole config.
pub static CONFIG: Object = object(
    "config",
    unit::config,
    &[
        field("ignition", FieldType::Object(&IGNITION), V3_0),
        field("kernelArguments", FieldType::Object(&KERNEL_ARGUMENTS), V3_3),
        field("passwd", FieldType::Object(&PASSWD), V3_0),
        field("storage", FieldType::Object(&STORAGE), V3_0),
        field("systemd", FieldType::Object(&SYSTEMD), V3_0),
    ],
);

static IGNITION: Object = object(
    "ignition section",
    no_rule,
    &[
        field("version", FieldType::Str, V3_0),
        field("config", FieldType::Object(&IGNITION_CONFIG), V3_0),
        field("proxy", FieldType::Object(&PROXY), V3_1),
        field("security", FieldType::Object(&SECURITY), V3_0),
        field("timeouts", FieldType::Object(&TIMEOUTS), V3_0),
    ],
);

static IGNITION_CONFIG: Object = object(
    "config references",
    resource::references,
    &[
        field("merge", list!(FieldType::Object(&REFERENCE), BY_SOURCE), V3_0),
        field("replace", FieldType::Object(&REPLACE), V3_0),
    ],
);

static PROXY: Object = object(
    "proxy section",
    resource::proxy,
    &[
        field("httpProxy", FieldType::Str, V3_1),
        field("httpsProxy", FieldType::Str, V3_1),
        field("noProxy", list!(FieldType::Str, BY_TEXT), V3_1),
    ],
);

static SECURITY: Object = object("security section", no_rule, &[field("tls", FieldType::Object(&TLS), V3_0)]);

static TLS: Object = object(
    "tls section",
    resource::tls,
    &[field("certificateAuthorities", list!(FieldType::Object(&REFERENCE), BY_SOURCE), V3_0)],
);

static TIMEOUTS: Object = object(
    "timeouts section",
    no_rule,
    &[field("httpResponseHeaders", FieldType::Int, V3_0), field("httpTotal", FieldType::Int, V3_0)],
);

const HEADERS: FieldType = list!(FieldType::Object(&HEADER), ListMergeMode::Headers);

static HEADER: Object =
    object("header", resource::header, &[field("name", FieldType::Str, V3_1), field("value", FieldType::Str, V3_1)]);

static VERIFICATION: Object = object("verification", resource::verification, &[field("hash", FieldType::Str, V3_0)]);

const REFERENCE_FIELDS: &[Field] = &[
    field("compression", FieldType::Str, V3_1),
    field("httpHeaders", HEADERS, V3_1),
    field("source", FieldType::Str, V3_0),
    field("verification", FieldType::Object(&VERIFICATION), V3_0),
];

/// A reference to a config or a certificate, in a list keyed by source.
static REFERENCE: Object = object("reference", resource::resource, REFERENCE_FIELDS);

/// The config that replaces this one.
static REPLACE: Object = body("reference", REFERENCE_FIELDS);

/// What goes into a file.
static BODY: Object = body(
    "contents",
    &[
        field("compression", FieldType::Str, V3_0),
        field("httpHeaders", HEADERS, V3_1),
        field("source", FieldType::Str, V3_0),
        field("verification", FieldType::Object(&VERIFICATION), V3_0),
    ],
);

static KERNEL_ARGUMENTS: Object = Object {
    noun: "kernelArguments section",
    fields: &[
        field("shouldExist", list!(FieldType::Str, BY_TEXT), V3_3),
        field("shouldNotExist", list!(FieldType::Str, BY_TEXT), V3_3),
    ],
    shared: &["shouldExist", "shouldNotExist"],
    merge: ObjectMergeMode::Fields,
    rule: no_rule,
};

static PASSWD: Object = object(
    "passwd section",
    no_rule,
    &[
        field("groups", list!(FieldType::Object(&GROUP), BY_NAME), V3_0),
        field("users", list!(FieldType::Object(&USER), BY_NAME), V3_0),
    ],
);

static GROUP: Object = object(
    "group",
    no_rule,
    &[
        field("gid", FieldType::Int, V3_0),
        field("name", FieldType::Str, V3_0),
        field("passwordHash", FieldType::Str, V3_0),
        field("shouldExist", FieldType::Bool, V3_2),
        field("system", FieldType::Bool, V3_0),
    ],
);

static USER: Object = object(
    "user",
    no_rule,
    &[
        field("gecos", FieldType::Str, V3_0),
        field("groups", list!(FieldType::Str, BY_TEXT), V3_0),
        field("homeDir", FieldType::Str, V3_0),
        field("name", FieldType::Str, V3_0),
        field("noCreateHome", FieldType::Bool, V3_0),
        field("noLogInit", FieldType::Bool, V3_0),
        field("noUserGroup", FieldType::Bool, V3_0),
        field("passwordHash", FieldType::Str, V3_0),
        field("primaryGroup", FieldType::Str, V3_0),
        field("shell", FieldType::Str, V3_0),
        field("shouldExist", FieldType::Bool, V3_2),
        field("sshAuthorizedKeys", list!(FieldType::Str, BY_TEXT), V3_0),
        field("system", FieldType::Bool, V3_0),
        field("uid", FieldType::Int, V3_0),
    ],
);

static STORAGE: Object = Object {
    noun: "storage section",
    fields: &[
        field("directories", list!(FieldType::Object(&DIRECTORY), BY_PATH), V3_0),
        field("disks", list!(FieldType::Object(&DISK), BY_DEVICE), V3_0),
        field("files", list!(FieldType::Object(&FILE), BY_PATH), V3_0),
        field("filesystems", list!(FieldType::Object(&FILESYSTEM), BY_DEVICE), V3_0),
        field("links", list!(FieldType::Object(&LINK), BY_PATH), V3_0),
        field("luks", list!(FieldType::Object(&LUKS), BY_NAME), V3_2),
        field("raid", list!(FieldType::Object(&RAID), BY_NAME), V3_0),
    ],
    shared: &["directories", "files", "links"],
    merge: ObjectMergeMode::Fields,
    rule: file::storage,
};

static OWNER: Object =
    object("owner", file::owner, &[field("id", FieldType::Int, V3_0), field("name", FieldType::Str, V3_0)]);

static DIRECTORY: Object = object(
    "directory",
    file::directory,
    &[
        field("group", FieldType::Object(&OWNER), V3_0),
        field("mode", FieldType::Int, V3_0),
        field("overwrite", FieldType::Bool, V3_0),
        field("path", FieldType::Str, V3_0),
        field("user", FieldType::Object(&OWNER), V3_0),
    ],
);

static FILE: Object = object(
    "file",
    file::file,
    &[
        field("append", list!(FieldType::Object(&BODY), ListMergeMode::Concat), V3_0),
        field("contents", FieldType::Object(&BODY), V3_0),
        field("group", FieldType::Object(&OWNER), V3_0),
        field("mode", FieldType::Int, V3_0),
        field("overwrite", FieldType::Bool, V3_0),
        field("path", FieldType::Str, V3_0),
        field("user", FieldType::Object(&OWNER), V3_0),
    ],
);

static LINK: Object = object(
    "link",
    file::link,
    &[
        field("group", FieldType::Object(&OWNER), V3_0),
        field("hard", FieldType::Bool, V3_0),
        field("overwrite", FieldType::Bool, V3_0),
        field("path", FieldType::Str, V3_0),
        field("target", FieldType::Str, V3_0),
        field("user", FieldType::Object(&OWNER), V3_0),
    ],
);

static DISK: Object = object(
    "disk",
    device::disk,
    &[
        field("device", FieldType::Str, V3_0),
        field("partitions", list!(FieldType::Object(&PARTITION), ListMergeMode::Keyed(KeyBy::Partition)), V3_0),
        field("wipeTable", FieldType::Bool, V3_0),
    ],
);

static PARTITION: Object = object(
    "partition",
    device::partition,
    &[
        field("guid", FieldType::Str, V3_0),
        field("label", FieldType::Str, V3_0),
        field("number", FieldType::Int, V3_0),
        field("resize", FieldType::Bool, V3_2),
        field("shouldExist", FieldType::Bool, V3_0),
        field("sizeMiB", FieldType::Int, V3_0),
        field("startMiB", FieldType::Int, V3_0),
        field("typeGuid", FieldType::Str, V3_0),
        field("wipePartitionEntry", FieldType::Bool, V3_0),
    ],
);

static FILESYSTEM: Object = object(
    "filesystem",
    device::filesystem,
    &[
        field("device", FieldType::Str, V3_0),
        field("format", FieldType::Str, V3_0),
        field("label", FieldType::Str, V3_0),
        field("mountOptions", list!(FieldType::Str, ListMergeMode::Concat), V3_1),
        field("options", list!(FieldType::Str, ListMergeMode::Concat), V3_0),
        field("path", FieldType::Str, V3_0),
        field("uuid", FieldType::Str, V3_0),
        field("wipeFilesystem", FieldType::Bool, V3_0),
    ],
);

static RAID: Object = object(
    "raid",
    device::raid,
    &[
        field("devices", list!(FieldType::Str, BY_TEXT), V3_0),
        field("level", FieldType::Str, V3_0),
        field("name", FieldType::Str, V3_0),
        field("options", list!(FieldType::Str, ListMergeMode::Concat), V3_0),
        field("spares", FieldType::Int, V3_0),
    ],
);

static LUKS: Object = object(
    "luks device",
    device::luks,
    &[
        field("cex", FieldType::Object(&CEX), V3_5),
        field("clevis", FieldType::Object(&CLEVIS), V3_2),
        field("device", FieldType::Str, V3_2),
        field("discard", FieldType::Bool, V3_4),
        field("keyFile", FieldType::Object(&BODY), V3_2),
        field("label", FieldType::Str, V3_2),
        field("name", FieldType::Str, V3_2),
        field("openOptions", list!(FieldType::Str, BY_TEXT), V3_4),
        field("options", list!(FieldType::Str, ListMergeMode::Concat), V3_2),
        field("uuid", FieldType::Str, V3_2),
        field("wipeVolume", FieldType::Bool, V3_2),
    ],
);

static CEX: Object = object("cex section", no_rule, &[field("enabled", FieldType::Bool, V3_5)]);

static CLEVIS: Object = object(
    "clevis section",
    no_rule,
    &[
        field("custom", FieldType::Object(&CLEVIS_CUSTOM), V3_2),
        field("tang", list!(FieldType::Object(&TANG), ListMergeMode::Keyed(KeyBy::Field("url"))), V3_2),
        field("threshold", FieldType::Int, V3_2),
        field("tpm2", FieldType::Bool, V3_2),
    ],
);

static CLEVIS_CUSTOM: Object = object(
    "custom clevis pin",
    device::clevis_custom,
    &[
        field("config", FieldType::Str, V3_2),
        field("needsNetwork", FieldType::Bool, V3_2),
        field("pin", FieldType::Str, V3_2),
    ],
);

static TANG: Object = object(
    "tang server",
    device::tang,
    &[
        field("advertisement", FieldType::Str, V3_4),
        field("thumbprint", FieldType::Str, V3_2),
        field("url", FieldType::Str, V3_2),
    ],
);

static SYSTEMD: Object =
    object("systemd section", unit::systemd, &[field("units", list!(FieldType::Object(&UNIT), BY_NAME), V3_0)]);

static UNIT: Object = object(
    "unit",
    unit::unit,
    &[
        field("contents", FieldType::Str, V3_0),
        field("dropins", list!(FieldType::Object(&DROPIN), BY_NAME), V3_0),
        field("enabled", FieldType::Bool, V3_0),
        field("mask", FieldType::Bool, V3_0),
        field("name", FieldType::Str, V3_0),
    ],
);

static DROPIN: Object =
    object("drop-in", unit::dropin, &[field("contents", FieldType::Str, V3_0), field("name", FieldType::Str, V3_0)]);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every object of the table, once.
    fn objects() -> Vec<&'static Object> {
        fn walk(kind: &FieldType, seen: &mut HashSet<usize>, out: &mut Vec<&'static Object>) {
            match kind {
                FieldType::Object(object) if seen.insert(std::ptr::from_ref(*object).addr()) => {
                    out.push(object);
                    object.fields.iter().for_each(|field| walk(&field.kind, seen, out));
                }
                FieldType::List(list) => walk(&list.item, seen, out),
                _ => {}
            }
        }
        let mut out = Vec::new();
        walk(&FieldType::Object(&CONFIG), &mut HashSet::new(), &mut out);
        out
    }

    #[test]
    fn fields_are_sorted_and_keys_and_groups_exist() {
        for object in objects() {
            let names: Vec<_> =
                object.fields.iter().map(|field| field.name).filter(|name| *name != "version").collect();
            assert!(names.is_sorted(), "{}: {names:?}", object.noun);
            for shared in object.shared {
                assert!(matches!(object.field(shared).unwrap().kind, FieldType::List(_)));
            }
            for field in object.fields {
                if let FieldType::List(List {
                    item: FieldType::Object(item),
                    mode: ListMergeMode::Keyed(KeyBy::Field(key)),
                }) = &field.kind
                {
                    assert!(matches!(item.field(key).unwrap().kind, FieldType::Str), "{}.{}", object.noun, field.name);
                }
            }
        }
    }
}
