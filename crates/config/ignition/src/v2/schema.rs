//! The shape of a spec 2.2 config, with the version that brought each field.

use super::validate as rules;
use crate::schema::{Field, Kind, List, Merge, Mode, Object};
use crate::validate::{Rule, file, nothing, resource, unit};
use crate::version::Version::{self, *};

const fn field(name: &'static str, kind: Kind, since: Version) -> Field {
    Field { name, kind, since }
}

const fn object(noun: &'static str, rule: Rule, fields: &'static [Field]) -> Object {
    Object { noun, fields, shared: &[], merge: Merge::Fields, rule }
}

/// Spec 2.x has no keyed lists: entries stand side by side.
macro_rules! list {
    ($item:expr) => {
        Kind::List(&List { item: $item, mode: Mode::Concat })
    };
}

/// A whole 2.x config.
pub(crate) static CONFIG: Object = object(
    "config",
    nothing,
    &[
        field("ignition", Kind::Object(&IGNITION), V2_0),
        field("networkd", Kind::Object(&NETWORKD), V2_0),
        field("passwd", Kind::Object(&PASSWD), V2_0),
        field("storage", Kind::Object(&STORAGE), V2_0),
        field("systemd", Kind::Object(&SYSTEMD), V2_0),
    ],
);

static IGNITION: Object = object(
    "ignition section",
    nothing,
    &[
        field("config", Kind::Object(&IGNITION_CONFIG), V2_0),
        field("security", Kind::Object(&SECURITY), V2_2),
        field("timeouts", Kind::Object(&TIMEOUTS), V2_1),
        field("version", Kind::Str, V2_0),
    ],
);

static IGNITION_CONFIG: Object = object(
    "config references",
    nothing,
    &[field("append", list!(Kind::Object(&REFERENCE)), V2_0), field("replace", Kind::Object(&REFERENCE), V2_0)],
);

static REFERENCE: Object = object(
    "reference",
    rules::reference,
    &[field("source", Kind::Str, V2_0), field("verification", Kind::Object(&VERIFICATION), V2_0)],
);

static VERIFICATION: Object = object("verification", resource::verification, &[field("hash", Kind::Str, V2_0)]);

static SECURITY: Object = object("security section", nothing, &[field("tls", Kind::Object(&TLS), V2_2)]);

static TLS: Object =
    object("tls section", nothing, &[field("certificateAuthorities", list!(Kind::Object(&REFERENCE)), V2_2)]);

static TIMEOUTS: Object = object(
    "timeouts section",
    nothing,
    &[field("httpResponseHeaders", Kind::Int, V2_1), field("httpTotal", Kind::Int, V2_1)],
);

static NETWORKD: Object =
    object("networkd section", nothing, &[field("units", list!(Kind::Object(&NETWORKD_UNIT)), V2_0)]);

static NETWORKD_UNIT: Object = object(
    "networkd unit",
    nothing,
    &[
        field("contents", Kind::Str, V2_0),
        field("dropins", list!(Kind::Object(&DROPIN)), V2_2),
        field("name", Kind::Str, V2_0),
    ],
);

static PASSWD: Object = object(
    "passwd section",
    nothing,
    &[field("groups", list!(Kind::Object(&GROUP)), V2_0), field("users", list!(Kind::Object(&USER)), V2_0)],
);

static GROUP: Object = object(
    "group",
    rules::group,
    &[
        field("gid", Kind::Int, V2_0),
        field("name", Kind::Str, V2_0),
        field("passwordHash", Kind::Str, V2_0),
        field("system", Kind::Bool, V2_0),
    ],
);

static USER: Object = object(
    "user",
    rules::user,
    &[
        field("create", Kind::Object(&USER_CREATE), V2_0),
        field("gecos", Kind::Str, V2_1),
        field("groups", list!(Kind::Str), V2_1),
        field("homeDir", Kind::Str, V2_1),
        field("name", Kind::Str, V2_0),
        field("noCreateHome", Kind::Bool, V2_1),
        field("noLogInit", Kind::Bool, V2_1),
        field("noUserGroup", Kind::Bool, V2_1),
        field("passwordHash", Kind::Str, V2_0),
        field("primaryGroup", Kind::Str, V2_1),
        field("shell", Kind::Str, V2_1),
        field("sshAuthorizedKeys", list!(Kind::Str), V2_0),
        field("system", Kind::Bool, V2_1),
        field("uid", Kind::Int, V2_1),
    ],
);

static USER_CREATE: Object = object(
    "create section",
    rules::user_create,
    &[
        field("gecos", Kind::Str, V2_0),
        field("groups", list!(Kind::Str), V2_0),
        field("homeDir", Kind::Str, V2_0),
        field("noCreateHome", Kind::Bool, V2_0),
        field("noLogInit", Kind::Bool, V2_0),
        field("noUserGroup", Kind::Bool, V2_0),
        field("primaryGroup", Kind::Str, V2_0),
        field("shell", Kind::Str, V2_0),
        field("system", Kind::Bool, V2_0),
        field("uid", Kind::Int, V2_0),
    ],
);

static STORAGE: Object = object(
    "storage section",
    nothing,
    &[
        field("directories", list!(Kind::Object(&DIRECTORY)), V2_1),
        field("disks", list!(Kind::Object(&DISK)), V2_0),
        field("files", list!(Kind::Object(&FILE)), V2_0),
        field("filesystems", list!(Kind::Object(&FILESYSTEM)), V2_0),
        field("links", list!(Kind::Object(&LINK)), V2_1),
        field("raid", list!(Kind::Object(&RAID)), V2_0),
    ],
);

static OWNER: Object = object("owner", file::owner, &[field("id", Kind::Int, V2_0), field("name", Kind::Str, V2_1)]);

static DIRECTORY: Object = object(
    "directory",
    rules::node,
    &[
        field("filesystem", Kind::Str, V2_1),
        field("group", Kind::Object(&OWNER), V2_1),
        field("mode", Kind::Int, V2_1),
        field("overwrite", Kind::Bool, V2_2),
        field("path", Kind::Str, V2_1),
        field("user", Kind::Object(&OWNER), V2_1),
    ],
);

static FILE: Object = object(
    "file",
    rules::file,
    &[
        field("append", Kind::Bool, V2_2),
        field("contents", Kind::Object(&BODY), V2_0),
        field("filesystem", Kind::Str, V2_0),
        field("group", Kind::Object(&OWNER), V2_0),
        field("mode", Kind::Int, V2_0),
        field("overwrite", Kind::Bool, V2_2),
        field("path", Kind::Str, V2_0),
        field("user", Kind::Object(&OWNER), V2_0),
    ],
);

static BODY: Object = object(
    "contents",
    rules::body,
    &[
        field("compression", Kind::Str, V2_0),
        field("source", Kind::Str, V2_0),
        field("verification", Kind::Object(&VERIFICATION), V2_0),
    ],
);

static LINK: Object = object(
    "link",
    rules::node,
    &[
        field("filesystem", Kind::Str, V2_1),
        field("group", Kind::Object(&OWNER), V2_1),
        field("hard", Kind::Bool, V2_1),
        field("overwrite", Kind::Bool, V2_2),
        field("path", Kind::Str, V2_1),
        field("target", Kind::Str, V2_1),
        field("user", Kind::Object(&OWNER), V2_1),
    ],
);

static DISK: Object = object(
    "disk",
    nothing,
    &[
        field("device", Kind::Str, V2_0),
        field("partitions", list!(Kind::Object(&PARTITION)), V2_0),
        field("wipeTable", Kind::Bool, V2_0),
    ],
);

static PARTITION: Object = object(
    "partition",
    nothing,
    &[
        field("guid", Kind::Str, V2_1),
        field("label", Kind::Str, V2_0),
        field("number", Kind::Int, V2_0),
        field("size", Kind::Int, V2_0),
        field("start", Kind::Int, V2_0),
        field("typeGuid", Kind::Str, V2_0),
    ],
);

static FILESYSTEM: Object = object(
    "filesystem",
    rules::filesystem,
    &[field("mount", Kind::Object(&MOUNT), V2_0), field("name", Kind::Str, V2_0), field("path", Kind::Str, V2_0)],
);

static MOUNT: Object = object(
    "mount section",
    rules::mount,
    &[
        field("create", Kind::Object(&MOUNT_CREATE), V2_0),
        field("device", Kind::Str, V2_0),
        field("format", Kind::Str, V2_0),
        field("label", Kind::Str, V2_1),
        field("options", list!(Kind::Str), V2_1),
        field("uuid", Kind::Str, V2_1),
        field("wipeFilesystem", Kind::Bool, V2_1),
    ],
);

static MOUNT_CREATE: Object =
    object("create section", nothing, &[field("force", Kind::Bool, V2_0), field("options", list!(Kind::Str), V2_0)]);

static RAID: Object = object(
    "raid",
    nothing,
    &[
        field("devices", list!(Kind::Str), V2_0),
        field("level", Kind::Str, V2_0),
        field("name", Kind::Str, V2_0),
        field("options", list!(Kind::Str), V2_2),
        field("spares", Kind::Int, V2_0),
    ],
);

static SYSTEMD: Object = object("systemd section", nothing, &[field("units", list!(Kind::Object(&UNIT)), V2_0)]);

static UNIT: Object = object(
    "unit",
    unit::unit,
    &[
        field("contents", Kind::Str, V2_0),
        field("dropins", list!(Kind::Object(&DROPIN)), V2_0),
        field("enable", Kind::Bool, V2_0),
        field("enabled", Kind::Bool, V2_1),
        field("mask", Kind::Bool, V2_0),
        field("name", Kind::Str, V2_0),
    ],
);

static DROPIN: Object =
    object("drop-in", unit::dropin, &[field("contents", Kind::Str, V2_0), field("name", Kind::Str, V2_0)]);
