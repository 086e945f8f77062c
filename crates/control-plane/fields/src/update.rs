//! Creates, updates and patches: the manager that changes a field owns it.

use serde_json::{Map, Value};

use crate::depth::{MAX_DEPTH, is_too_deep};
use crate::managers::{Managers, Operation, managed_fields, remove_managed_fields};
use crate::typed::{Duplicates, TypeError, TypeErrors, check};
use crate::writer::{UNOWNED, Writer};

/// How many managers may update an object before the oldest are merged.
const MAX_UPDATERS: usize = 10;

impl Writer<'_> {
    /// Sets `metadata.managedFields` of an object that is about to be stored.
    ///
    /// - `live` is the object as it was, none if this one is created. An object that was never tracked stays so.
    /// - `time` is now, in RFC 3339. It is stored only if the manager changed something.
    /// - The entries that the object brings are taken as they are, if they can be read. An empty list, or one with an
    ///   empty entry, makes it an object that was never tracked.
    ///
    /// If the error is returned, the owners are those of the live object: that they cannot be tracked is no reason to
    /// refuse a write.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, time: &str) -> Result<(), TypeErrors> {
        let managers = self.managers_of(live, new);
        remove_managed_fields(new);
        let exists = live.is_some_and(has_uid);
        if managers.0.is_empty() && exists {
            return Ok(());
        }
        let empty = Value::Object(Map::new());
        match self.track_update(live.unwrap_or(&empty), new, managers, manager, time) {
            Ok(managers) => {
                managers.write_into(new);
                Ok(())
            }
            Err(error) => {
                if let (Some(entries), Some(Value::Object(metadata))) =
                    (live.and_then(managed_fields), new.get_mut("metadata"))
                {
                    metadata.insert("managedFields".to_owned(), entries.clone());
                }
                Err(error)
            }
        }
    }

    /// The managers from which an update starts.
    fn managers_of(&self, live: Option<&Value>, new: &Value) -> Managers {
        let of_live = || live.and_then(|live| Managers::of_object(live).ok()).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        if resets(managed_fields(new)) {
            return Managers::default();
        }
        match Managers::of_object(new) {
            Ok(managers) if !managers.0.is_empty() => managers,
            _ => of_live(),
        }
    }

    /// Gives everything that changes to one updater.
    pub(crate) fn track_update(
        &self,
        live: &Value,
        new: &Value,
        mut managers: Managers,
        name: &str,
        time: &str,
    ) -> Result<Managers, TypeErrors> {
        check_depth(new)?;
        check_depth(live)?;
        check(&self.kind, new, Duplicates::Allowed)?;
        check(&self.kind, live, Duplicates::Allowed)?;
        self.check_versions(&managers, None, &[live, new])?;
        self.reconcile(&mut managers);
        // Forced, nothing conflicts.
        let Ok(comparison) = self.take(live, new, &mut managers, None, true) else { return Ok(managers) };
        let fields = comparison.modified.union(comparison.added).difference(&UNOWNED);
        if !fields.is_empty() {
            let mut manager = self.manager(name, Operation::Update);
            let before = managers.remove(&manager).map(|before| before.fields).unwrap_or_default();
            manager.fields = fields.union(before);
            manager.time = Some(time.to_owned());
            managers.0.push(manager);
        }
        managers.cap_updaters(MAX_UPDATERS);
        Ok(managers)
    }
}

pub(crate) fn check_depth(object: &Value) -> Result<(), TypeErrors> {
    if is_too_deep(object, 0) {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        return Err(TypeErrors(vec![TypeError { path: String::new(), message }]));
    }
    Ok(())
}

fn has_uid(object: &Value) -> bool {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"))
        .and_then(Value::as_str)
        .is_some_and(|uid| !uid.is_empty())
}

/// Whether entries ask to forget all owners.
fn resets(entries: Option<&Value>) -> bool {
    let is_blank = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.values().all(is_blank),
        _ => false,
    }
}

/// Undoes what a write changed in `metadata.managedFields` if it is nothing but times and the rest of the object is
/// unchanged too, so that a write that changes nothing stores nothing. Returns whether the objects are then the same.
pub fn discard_timestamp_change(live: &Value, new: &mut Value) -> bool {
    let is_same = same_fields(live, new, |key, before, after| match key {
        "metadata" => same_fields(before, after, |key, before, after| match key {
            "managedFields" => is_same_but_for_time(before, after),
            _ => before == after,
        }),
        _ => before == after,
    });
    if is_same && let (Some(entries), Some(Value::Object(after))) = (managed_fields(live), new.get_mut("metadata")) {
        after.insert("managedFields".to_owned(), entries.clone());
    }
    is_same
}

fn is_same_but_for_time(before: &Value, after: &Value) -> bool {
    let (Value::Array(before), Value::Array(after)) = (before, after) else { return before == after };
    let is_same_entry = |before: &Value, after: &Value| match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let counted = |entry: &Map<String, Value>| entry.keys().filter(|key| *key != "time").count();
            counted(before) == counted(after)
                && before.iter().all(|(key, before)| key == "time" || after.get(key) == Some(before))
        }
        _ => before == after,
    };
    before.len() == after.len() && before.iter().zip(after).all(|(before, after)| is_same_entry(before, after))
}

/// Whether two objects have the same keys with values that are the same in some sense.
fn same_fields(before: &Value, after: &Value, is_same: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.len() == after.len()
                && before.iter().all(|(key, before)| after.get(key).is_some_and(|after| is_same(key, before, after)))
        }
        _ => before == after,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(time: Option<&str>, value: i64) -> Value {
        let mut entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:a": {}}});
        if let Some(time) = time {
            entry["time"] = json!(time);
        }
        json!({"metadata": {"name": "n", "managedFields": [entry]}, "a": value})
    }

    #[rstest]
    #[case::other_time(Some("2"), 1, true)]
    #[case::time_where_there_was_none(None, 1, true)]
    #[case::other_value(Some("1"), 2, false)]
    fn only_times_do_not_count(#[case] time: Option<&str>, #[case] value: i64, #[case] is_settled: bool) {
        let live = object(Some("1"), 1);
        let mut new = object(time, value);
        assert_eq!(discard_timestamp_change(&live, &mut new), is_settled);
        assert_eq!(live == new, is_settled);
    }

    #[test]
    fn another_owner_counts() {
        let live = object(Some("1"), 1);
        let mut new = live.clone();
        new["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:b": {}});
        assert!(!discard_timestamp_change(&live, &mut new));
        new["metadata"]["managedFields"] = json!([]);
        assert!(!discard_timestamp_change(&live, &mut new));
    }

    #[rstest]
    #[case(json!([]), true)]
    #[case(json!([{}]), true)]
    #[case(json!([{"manager": ""}]), true)]
    #[case(json!([{"manager": "x"}]), false)]
    #[case(json!([{}, {}]), false)]
    #[case(json!(null), false)]
    fn lists_without_content_reset(#[case] entries: Value, #[case] is_reset: bool) {
        assert_eq!(resets(Some(&entries)), is_reset);
    }
}
