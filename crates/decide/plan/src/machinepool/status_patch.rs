//! Status patch: the merge patch from the status that a pool has to the one it should have.
//!
//! Differs: upstream writes the status in up to three patches, of which only the conditions are bound to a revision; here it is
//! one patch, bound to the revision that was decided on, so that a condition of another writer is never lost. Server-side apply
//! would not do: the old conditions are a list without keys, which has one owner as a whole.

use seaworthy_api::cluster::v1beta2::{MachinePool, MachinePoolStatus};
use seaworthy_change::{Action, Change, ObjectRef};
use serde_json::{Map, Value, json};

/// The change that makes the pool's status this one; `None` if it is that already.
pub fn status_change(pool: &MachinePool, status: &MachinePoolStatus) -> Option<Change> {
    if pool.status.as_ref() == Some(status) {
        return None;
    }
    // Objects with text for keys have a JSON form.
    let to_json = |status: &MachinePoolStatus| serde_json::to_value(status).unwrap_or_default();
    let old = pool.status.as_ref().map_or_else(|| json!({}), to_json);
    let patch = difference(&old, &to_json(status))?;
    Some(Change { object: ObjectRef::of(pool), action: Action::PatchStatus(json!({ "status": patch })) })
}

/// The merge patch from one value to another; `None` if they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let changed = match old.get(key) {
            Some(found) => difference(found, value),
            None => Some(value.clone()),
        };
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use seaworthy_change::memory::merge;

    use super::*;

    #[test]
    fn patch_leads_from_one_value_to_the_other() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": {"f": 1}, "g": [1]});
        let new = json!({"a": 1, "b": {"c": [1, 2]}, "e": {"f": 1}, "h": {"i": 1}});
        let patch = difference(&old, &new).unwrap();
        assert_eq!(patch, json!({"b": {"c": [1, 2], "d": null}, "g": null, "h": {"i": 1}}));
        let mut merged = old;
        merge(&mut merged, &patch);
        assert_eq!(merged, new);
        assert_eq!(difference(&merged, &new), None);
    }
}
