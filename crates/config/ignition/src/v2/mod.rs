//! Spec 2.0 to 2.2: schema, validation, and conversion to and from 3.x.

mod down;
mod passwd;
mod schema;
mod source;
mod storage;
mod systemd;
mod unsupported;
mod up;
mod validate;

pub(crate) use down::from_v3;
pub(crate) use unsupported::report_unsupported;
pub(crate) use up::to_v3;

use crate::node::{Node, Value};

/// The fields of a user that say nothing when they are empty or false.
const USER_ZEROES: [&str; 8] =
    ["gecos", "homeDir", "noCreateHome", "noLogInit", "noUserGroup", "primaryGroup", "shell", "system"];

/// Takes out what spec 2.x says for "not set" and spec 3 leaves out: `""`, `false` and `0` under these keys.
fn unset_zeroes(node: &mut Node<'_>, keys: &[&str]) {
    let Some(map) = node.as_map_mut() else { return };
    map.0.retain(|(key, value)| {
        let is_zero = match &value.value {
            Value::Str(text) => text.is_empty(),
            Value::Bool(flag) => !flag,
            Value::Int(number) => *number == 0,
            _ => false,
        };
        !(is_zero && keys.contains(&key.as_ref()))
    });
}
