//! Schema of a spec 2.2 config, with the version that introduced each field.

use super::validate as rules;
use crate::schema::{Field, FieldType, List, ListMergeMode, Object, ObjectMergeMode};
use crate::validate::{Rule, file, no_rule, resource, unit};
use crate::version::Version::{self, *};

const fn field(name: &'static str, kind: FieldType, since: Version) -> Field {
    Field { name, kind, since }
}

const fn object(noun: &'static str, rule: Rule, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: ObjectMergeMode::Fields, rule }
}

/// Spec 2.x has no keyed lists: entries are concatenated.
macro_rules! list {
    ($item:expr) => {
        FieldType::List(&List { item: $item, mode: ListMergeMode::Concat })
    };
}

/// A whole 2.x config.
pub(crate) static CONFIG: Object = object(
    "config",
    no_rule,
    &[
        field("ignition", FieldType::Object(&IGNITION), V2_0),
        field("networkd", FieldType::Object(&NETWORKD), V2_0),
        field("passwd", FieldType::Object(&PASSWD), V2_0),
        field("storage", FieldType::Object(&STORAGE), V2_0),
        field("systemd", FieldType::Object(&SYSTEMD), V2_0),
    ],
);

static IGNITION: Object = object(
    "ignition section",
    no_rule,
    &[
        field("config", FieldType::Object(&IGNITION_CONFIG), V2_0),
        field("security", FieldType::Object(&SECURITY), V2_2),
        field("timeouts", FieldType::Object(&TIMEOUTS), V2_1),
        field("version", FieldType::Str, V2_0),
    ],
);

static IGNITION_CONFIG: Object = object(
    "config references",
    no_rule,
    &[
        field("append", list!(FieldType::Object(&REFERENCE)), V2_0),
        field("replace", FieldType::Object(&REFERENCE), V2_0),
    ],
);

static REFERENCE: Object = object(
    "reference",
    rules::reference,
    &[field("source", FieldType::Str, V2_0), field("verification", FieldType::Object(&VERIFICATION), V2_0)],
);

static VERIFICATION: Object = object("verification", resource::verification, &[field("hash", FieldType::Str, V2_0)]);

static SECURITY: Object = object("security section", no_rule, &[field("tls", FieldType::Object(&TLS), V2_2)]);

static TLS: Object =
    object("tls section", no_rule, &[field("certificateAuthorities", list!(FieldType::Object(&REFERENCE)), V2_2)]);

static TIMEOUTS: Object = object(
    "timeouts section",
    no_rule,
    &[field("httpResponseHeaders", FieldType::Int, V2_1), field("httpTotal", FieldType::Int, V2_1)],
);

static NETWORKD: Object =
    object("networkd section", no_rule, &[field("units", list!(FieldType::Object(&NETWORKD_UNIT)), V2_0)]);

static NETWORKD_UNIT: Object = object(
    "networkd unit",
    no_rule,
    &[
        field("contents", FieldType::Str, V2_0),
        field("dropins", list!(FieldType::Object(&DROPIN)), V2_2),
        field("name", FieldType::Str, V2_0),
    ],
);

static PASSWD: Object = object(
    "passwd section",
    no_rule,
    &[field("groups", list!(FieldType::Object(&GROUP)), V2_0), field("users", list!(FieldType::Object(&USER)), V2_0)],
);

static GROUP: Object = object(
    "group",
    rules::group,
    &[
        field("gid", FieldType::Int, V2_0),
        field("name", FieldType::Str, V2_0),
        field("passwordHash", FieldType::Str, V2_0),
        field("system", FieldType::Bool, V2_0),
    ],
);

static USER: Object = object(
    "user",
    rules::user,
    &[
        field("create", FieldType::Object(&USER_CREATE), V2_0),
        field("gecos", FieldType::Str, V2_1),
        field("groups", list!(FieldType::Str), V2_1),
        field("homeDir", FieldType::Str, V2_1),
        field("name", FieldType::Str, V2_0),
        field("noCreateHome", FieldType::Bool, V2_1),
        field("noLogInit", FieldType::Bool, V2_1),
        field("noUserGroup", FieldType::Bool, V2_1),
        field("passwordHash", FieldType::Str, V2_0),
        field("primaryGroup", FieldType::Str, V2_1),
        field("shell", FieldType::Str, V2_1),
        field("sshAuthorizedKeys", list!(FieldType::Str), V2_0),
        field("system", FieldType::Bool, V2_1),
        field("uid", FieldType::Int, V2_1),
    ],
);

static USER_CREATE: Object = object(
    "create section",
    rules::user_create,
    &[
        field("gecos", FieldType::Str, V2_0),
        field("groups", list!(FieldType::Str), V2_0),
        field("homeDir", FieldType::Str, V2_0),
        field("noCreateHome", FieldType::Bool, V2_0),
        field("noLogInit", FieldType::Bool, V2_0),
        field("noUserGroup", FieldType::Bool, V2_0),
        field("primaryGroup", FieldType::Str, V2_0),
        field("shell", FieldType::Str, V2_0),
        field("system", FieldType::Bool, V2_0),
        field("uid", FieldType::Int, V2_0),
    ],
);

static STORAGE: Object = object(
    "storage section",
    no_rule,
    &[
        field("directories", list!(FieldType::Object(&DIRECTORY)), V2_1),
        field("disks", list!(FieldType::Object(&DISK)), V2_0),
        field("files", list!(FieldType::Object(&FILE)), V2_0),
        field("filesystems", list!(FieldType::Object(&FILESYSTEM)), V2_0),
        field("links", list!(FieldType::Object(&LINK)), V2_1),
        field("raid", list!(FieldType::Object(&RAID)), V2_0),
    ],
);

static OWNER: Object =
    object("owner", file::owner, &[field("id", FieldType::Int, V2_0), field("name", FieldType::Str, V2_1)]);

static DIRECTORY: Object = object(
    "directory",
    rules::node,
    &[
        field("filesystem", FieldType::Str, V2_1),
        field("group", FieldType::Object(&OWNER), V2_1),
        field("mode", FieldType::Int, V2_1),
        field("overwrite", FieldType::Bool, V2_2),
        field("path", FieldType::Str, V2_1),
        field("user", FieldType::Object(&OWNER), V2_1),
    ],
);

static FILE: Object = object(
    "file",
    rules::file,
    &[
        field("append", FieldType::Bool, V2_2),
        field("contents", FieldType::Object(&BODY), V2_0),
        field("filesystem", FieldType::Str, V2_0),
        field("group", FieldType::Object(&OWNER), V2_0),
        field("mode", FieldType::Int, V2_0),
        field("overwrite", FieldType::Bool, V2_2),
        field("path", FieldType::Str, V2_0),
        field("user", FieldType::Object(&OWNER), V2_0),
    ],
);

static BODY: Object = object(
    "contents",
    rules::body,
    &[
        field("compression", FieldType::Str, V2_0),
        field("source", FieldType::Str, V2_0),
        field("verification", FieldType::Object(&VERIFICATION), V2_0),
    ],
);

static LINK: Object = object(
    "link",
    rules::node,
    &[
        field("filesystem", FieldType::Str, V2_1),
        field("group", FieldType::Object(&OWNER), V2_1),
        field("hard", FieldType::Bool, V2_1),
        field("overwrite", FieldType::Bool, V2_2),
        field("path", FieldType::Str, V2_1),
        field("target", FieldType::Str, V2_1),
        field("user", FieldType::Object(&OWNER), V2_1),
    ],
);

static DISK: Object = object(
    "disk",
    no_rule,
    &[
        field("device", FieldType::Str, V2_0),
        field("partitions", list!(FieldType::Object(&PARTITION)), V2_0),
        field("wipeTable", FieldType::Bool, V2_0),
    ],
);

static PARTITION: Object = object(
    "partition",
    no_rule,
    &[
        field("guid", FieldType::Str, V2_1),
        field("label", FieldType::Str, V2_0),
        field("number", FieldType::Int, V2_0),
        field("size", FieldType::Int, V2_0),
        field("start", FieldType::Int, V2_0),
        field("typeGuid", FieldType::Str, V2_0),
    ],
);

static FILESYSTEM: Object = object(
    "filesystem",
    rules::filesystem,
    &[
        field("mount", FieldType::Object(&MOUNT), V2_0),
        field("name", FieldType::Str, V2_0),
        field("path", FieldType::Str, V2_0),
    ],
);

static MOUNT: Object = object(
    "mount section",
    rules::mount,
    &[
        field("create", FieldType::Object(&MOUNT_CREATE), V2_0),
        field("device", FieldType::Str, V2_0),
        field("format", FieldType::Str, V2_0),
        field("label", FieldType::Str, V2_1),
        field("options", list!(FieldType::Str), V2_1),
        field("uuid", FieldType::Str, V2_1),
        field("wipeFilesystem", FieldType::Bool, V2_1),
    ],
);

static MOUNT_CREATE: Object = object(
    "create section",
    no_rule,
    &[field("force", FieldType::Bool, V2_0), field("options", list!(FieldType::Str), V2_0)],
);

static RAID: Object = object(
    "raid",
    no_rule,
    &[
        field("devices", list!(FieldType::Str), V2_0),
        field("level", FieldType::Str, V2_0),
        field("name", FieldType::Str, V2_0),
        field("options", list!(FieldType::Str), V2_2),
        field("spares", FieldType::Int, V2_0),
    ],
);

static SYSTEMD: Object = object("systemd section", no_rule, &[field("units", list!(FieldType::Object(&UNIT)), V2_0)]);

static UNIT: Object = object(
    "unit",
    unit::unit,
    &[
        field("contents", FieldType::Str, V2_0),
        field("dropins", list!(FieldType::Object(&DROPIN)), V2_0),
        field("enable", FieldType::Bool, V2_0),
        field("enabled", FieldType::Bool, V2_1),
        field("mask", FieldType::Bool, V2_0),
        field("name", FieldType::Str, V2_0),
    ],
);

static DROPIN: Object =
    object("drop-in", unit::dropin, &[field("contents", FieldType::Str, V2_0), field("name", FieldType::Str, V2_0)]);
