//! RuntimeClass: the container runtime of a pod.

use jiff::Timestamp;
use seaworthy_schema::Cause;
use seaworthy_values::names;
use serde_json::Value;

use crate::builtin::rules::placement::validate_toleration;
use crate::builtin::rules::pod::labels;
use crate::object::field_access::FieldAccess;
use crate::object::quantity::Quantity;
use crate::object::{Metadata, Object};
use crate::resource::built_in_kind::{BuiltInKind, KindBehaviour, ObjectPart, TableColumn};
use crate::response::table;

pub static RUNTIME_CLASS: BuiltInKind = BuiltInKind {
    group: "node.k8s.io",
    plural: "runtimeclasses",
    singular: "runtimeclass",
    kind: "RuntimeClass",
    is_namespaced: false,
    definition: "io.k8s.api.node.v1.RuntimeClass",
    behaviour: KindBehaviour { updates_unconditionally: false, ..KindBehaviour::PLAIN },
    validate,
    columns: &[TableColumn::NAME, TableColumn::text("Handler", "What the node calls it."), TableColumn::AGE],
    cells,
    ..BuiltInKind::BASE
};

fn validate(object: &Object, old: Option<&Object>, _: ObjectPart) -> Vec<Cause> {
    let handler = object.text("handler");
    let mut causes: Vec<Cause> = match handler {
        "" => vec![Cause::required("handler", "")],
        name => names::dns_label(name).iter().map(|why| Cause::invalid("handler", name, why)).collect(),
    };
    if old.is_some_and(|old| old.text("handler") != handler) {
        causes.push(Cause::invalid("handler", &Value::Null, "field is immutable"));
    }
    for (name, amount) in object.map("overhead.podFixed").into_iter().flatten() {
        if amount.as_str().and_then(Quantity::parse).is_some_and(Quantity::is_negative) {
            // kube-apiserver validates it as the limits of a container.
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("overhead.limits[{name}]"), amount, why));
        }
    }
    causes.extend(labels("scheduling.nodeSelector", object.map("scheduling.nodeSelector")));
    let tolerations = object.list("scheduling.tolerations");
    for (at, toleration) in tolerations.iter().enumerate() {
        let field = format!("scheduling.tolerations[{at}]");
        validate_toleration(toleration, &field, &mut causes);
        if tolerations[..at].contains(toleration) {
            causes.push(Cause::duplicate(field, toleration));
        }
    }
    causes
}

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![object.name().into(), object.text("handler").into(), table::age(object, now)]
}
