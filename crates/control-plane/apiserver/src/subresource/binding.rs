//! `pods/binding`: assigns a pod to a node, once.

use seaworthy_schema::Cause;
use serde_json::{Value, json};

use crate::admission;
use crate::clock;
use crate::object::Metadata;
use crate::object::field_access::FieldAccess;
use crate::request::Call;
use crate::request::options::{WriteKind, WriteOptions};
use crate::response::Answer;
use crate::response::status::{Failure, GroupResource};
use crate::write;

use super::{done, sent, set_condition};

/// Binds the pod.
pub async fn bind(call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::read(&call.query, &call.headers, WriteKind::Create)?;
    let binding = sent(call, "Binding", &["v1"])?;
    let name = &call.path.name;
    if !binding.name().is_empty() && binding.name() != name {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
    }
    let (kind, node) = (binding.text("target.kind"), binding.text("target.name"));
    let mut causes = Vec::new();
    if !matches!(kind, "" | "Node") {
        causes.push(Cause::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid(GroupResource { group: "", resource: "Binding" }, name, causes));
    }
    let warnings = admission::review_subresource(call, &binding, options.is_dry_run)?;
    let now = clock::rfc3339(call.server.clock().now());
    let conflict =
        |why: String| Err(Failure::conflict(GroupResource { group: "", resource: "pods/binding" }, name, &why));
    let bound = |pod: &mut crate::object::Object| {
        if !binding.uid().is_empty() && binding.uid() != pod.uid() {
            return conflict(format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                binding.uid(),
                pod.uid()
            ));
        }
        if pod.is_deleting() {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let own = pod.text("spec.nodeName");
        if !own.is_empty() {
            return conflict(format!("pod {name} is already assigned to node {own:?}"));
        }
        if !pod.list("spec.schedulingGates").is_empty() {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("nodeName".to_owned(), node.into());
        }
        for part in ["annotations", "labels"] {
            let Some(added) = binding.metadata().map(part).filter(|added| !added.is_empty()) else { continue };
            let own = pod.metadata_mut().entry(part).or_insert_with(|| json!({}));
            if let Some(own) = own.as_object_mut() {
                own.extend(added.clone());
            }
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
        set_condition(pod, condition, &now);
        Ok(())
    };
    let key = write::object_key(call, name);
    if options.is_dry_run {
        let found = call.server.store().get(&key);
        let found = found.ok_or_else(|| Failure::not_found(call.resource.group_resource(), name))?;
        bound(&mut crate::server::decode(&found))?;
        return Ok(Answer { warnings, ..done(call) });
    }
    write::amend(&call.server, &call.resource, &key, bound).await?;
    Ok(Answer { warnings, ..done(call) })
}
