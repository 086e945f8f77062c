//! Pod admission: priority, tolerations and runtime class of a new pod, and checks that depend on other objects.
//!
//! kube-apiserver does this in admission plugins that are on by default: Priority, DefaultTolerationSeconds and
//! RuntimeClass. The fields that they set have no field manager.

use seaworthy_store::Key;
use serde_json::{Value, json};

use crate::object::field_access::{FieldAccess, map_mut};
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::response::status::Failure;
use crate::server::{Server, decode};

const PRIORITY_CLASSES: &str = "scheduling.k8s.io/priorityclasses";
const RUNTIME_CLASSES: &str = "node.k8s.io/runtimeclasses";

/// The encoded mark of the default priority class. False is not written, so no other text equals it.
const GLOBAL_DEFAULT: &[u8] = br#""globalDefault":true"#;

/// Taints that pods tolerate for [`DEFAULT_TOLERATION_SECONDS`] by default.
const NODE_CONDITION_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// Sets priority, tolerations and runtime class fields of a pod.
pub fn admit_pod(call: &Call, pod: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    let name = pod.name().to_owned();
    let refused = |why: &str| Failure::forbidden(call.resource.group_resource(), &name, why);
    let Some(spec) = map_mut(pod, "spec") else { return Ok(()) };
    match old {
        None => set_priority(&call.server, spec).map_err(|why| refused(&why))?,
        Some(old) => {
            // An update without computed fields keeps them.
            for key in ["priority", "preemptionPolicy"] {
                if let (None, Some(value)) = (spec.get(key), old.at(&format!("spec.{key}"))) {
                    spec.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    add_tolerations(spec);
    if old.is_none() {
        apply_runtime_class(&call.server, spec).map_err(|why| refused(&why))?;
    }
    Ok(())
}

/// Refuses a second default priority class.
pub fn check_global(call: &Call, class: &mut Object, _: Option<&Object>) -> Result<(), Failure> {
    if !class.flag("globalDefault") {
        return Ok(());
    }
    match global_class(&call.server) {
        Some(other) if other.name() != class.name() => {
            let why =
                format!("PriorityClass {} is already marked as default. Only one default can exist", other.name());
            Err(Failure::forbidden(call.resource.group_resource(), class.name(), &why))
        }
        _ => Ok(()),
    }
}

/// Taints a new node as not ready, so that no pods are scheduled to it yet.
pub fn taint_new_node(_: &Call, node: &mut Object, old: Option<&Object>) -> Result<(), Failure> {
    if old.is_some() {
        return Ok(());
    }
    let taint = json!({"key": NODE_CONDITION_TAINTS[0], "effect": "NoSchedule"});
    let is_there = |own: &Value| own.text("key") == NODE_CONDITION_TAINTS[0] && own.text("effect") == "NoSchedule";
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    if spec.list("taints").iter().any(is_there) {
        return Ok(());
    }
    if let Some(taints) = spec.as_object_mut().map(|spec| spec.entry("taints").or_insert_with(|| json!([])))
        && let Some(taints) = taints.as_array_mut()
    {
        taints.push(taint);
    }
    Ok(())
}

fn set_priority(server: &Server, spec: &mut Object) -> Result<(), String> {
    let named = spec.text("priorityClassName").to_owned();
    let class = match named.as_str() {
        "" => global_class(server),
        name => {
            let found = class(server, PRIORITY_CLASSES, name);
            Some(found.ok_or_else(|| format!("no PriorityClass with name {name} was found"))?)
        }
    };
    if let (true, Some(class)) = (named.is_empty(), &class) {
        spec.insert("priorityClassName".to_owned(), class.name().into());
    }
    let computed = class.as_ref().and_then(|class| class.number("value")).unwrap_or(0);
    if let Some(requested) = spec.number("priority").filter(|requested| *requested != computed) {
        return Err(format!(
            "the integer value of priority ({requested}) must not be provided in pod spec; priority admission controller \
             computed {computed} from the given PriorityClass name"
        ));
    }
    spec.insert("priority".to_owned(), computed.into());
    let policy = class.as_ref().map(|class| class.text("preemptionPolicy")).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    let requested = spec.text("preemptionPolicy");
    if !requested.is_empty() && requested != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({requested}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// The default priority class, the lowest one if there are several.
fn global_class(server: &Server) -> Option<Object> {
    let records = server.store().list(PRIORITY_CLASSES, None).records;
    let is_marked_global = |body: &[u8]| body.windows(GLOBAL_DEFAULT.len()).any(|window| window == GLOBAL_DEFAULT);
    let classes = records.iter().filter(|record| is_marked_global(&record.body())).map(|record| decode(record));
    classes.filter(|class| class.flag("globalDefault")).min_by_key(|class| class.number("value").unwrap_or(0))
}

fn class(server: &Server, resource: &str, name: &str) -> Option<Object> {
    server.store().get(&Key::new(resource, "", name)).map(|record| decode(&record))
}

fn add_tolerations(spec: &mut Object) {
    for taint in NODE_CONDITION_TAINTS {
        let tolerates = |toleration: &Value| {
            let (key, effect) = (toleration.text("key"), toleration.text("effect"));
            (key.is_empty() || key == taint) && matches!(effect, "" | "NoExecute")
        };
        if spec.list("tolerations").iter().any(tolerates) {
            continue;
        }
        let toleration = json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_TOLERATION_SECONDS});
        if let Some(tolerations) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
            tolerations.push(toleration);
        }
    }
}

/// Applies overhead and scheduling of the runtime class.
fn apply_runtime_class(server: &Server, spec: &mut Object) -> Result<(), String> {
    let name = spec.text("runtimeClassName").to_owned();
    let class = match name.as_str() {
        "" => Object::new(),
        name => class(server, RUNTIME_CLASSES, name)
            .ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))?,
    };
    match (class.at("overhead.podFixed"), spec.get("overhead")) {
        (None, Some(_)) => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned());
        }
        (Some(fixed), Some(own)) if fixed != own => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        (Some(fixed), None) => {
            spec.insert("overhead".to_owned(), fixed.clone());
        }
        _ => {}
    }
    for (key, value) in class.map("scheduling.nodeSelector").into_iter().flatten() {
        let own = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        let Some(own) = own.as_object_mut() else { continue };
        if let Some(found) = own.get(key).filter(|found| *found != value) {
            let (wanted, found) = (value.as_str().unwrap_or_default(), found.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {found}"
            ));
        }
        own.insert(key.clone(), value.clone());
    }
    let needed = class.list("scheduling.tolerations");
    if !needed.is_empty()
        && let Some(own) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut()
    {
        own.extend(needed.iter().filter(|toleration| !own.contains(toleration)).cloned().collect::<Vec<_>>());
    }
    Ok(())
}
