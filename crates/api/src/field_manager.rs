//! Field managers: which manager wrote a field last.

use std::cmp::Ordering;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

/// The prefix of the field managers of all controllers of this program.
pub const OWN_PREFIX: &str = "seaworthy-";

/// The manager that wrote a field last (`kubectl-edit`), if it was none of the controllers. The field is a path in the form
/// of `managedFields`: `/f:spec/f:configuration`.
pub fn last_editor<'a>(metadata: &'a ObjectMeta, field: &str) -> Option<&'a str> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let is_own = |entry: &ManagedFieldsEntry| entry.manager.as_deref().unwrap_or_default().starts_with(OWN_PREFIX);
    // Times have seconds: of two in the same second the user came after the controller that created the object.
    let order = |a: &&ManagedFieldsEntry, b: &&ManagedFieldsEntry| -> Ordering {
        let time = |entry: &ManagedFieldsEntry| entry.time.as_ref().map(|time| time.0);
        time(a).cmp(&time(b)).then_with(|| is_own(b).cmp(&is_own(a)))
    };
    let owns_field =
        |entry: &&ManagedFieldsEntry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(field).is_some());
    let last = entries.iter().filter(owns_field).max_by(order)?;
    (!is_own(last)).then(|| last.manager.as_deref().unwrap_or("an unknown manager"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(by: &[(&str, &str, Value)]) -> ObjectMeta {
        let entries: Vec<Value> = by
            .iter()
            .map(|(manager, second, fields)| {
                json!({"manager": manager, "operation": "Update", "time": format!("2026-01-01T00:00:{second}Z"),
                       "fieldsType": "FieldsV1", "fieldsV1": fields})
            })
            .collect();
        serde_json::from_value(json!({"name": "00-worker", "managedFields": entries})).unwrap()
    }

    #[test]
    fn last_manager_of_the_spec_is_named_unless_it_is_a_controller() {
        let (spec, labels) = (json!({"f:spec": {}}), json!({"f:metadata": {}}));
        let editor = |by: &[(&str, &str, Value)]| last_editor(&written(by), "/f:spec").map(str::to_owned);
        let own = ("seaworthy-base", "05", spec.clone());
        let edit = ("kubectl-edit", "05", spec.clone());
        assert_eq!(editor(&[own.clone(), edit]).as_deref(), Some("kubectl-edit"));
        assert_eq!(editor(&[("kubectl-edit", "04", spec.clone()), own.clone()]), None);
        assert_eq!(editor(&[own, ("kubectl-label", "09", labels)]), None);
        assert_eq!(editor(&[]), None);
    }
}
