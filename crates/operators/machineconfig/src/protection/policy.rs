//! Keeps people's hands off what the controllers make: an admission policy that says what to write instead.
//!
//! On a small cluster the controllers often act as the same user as the person at the keyboard. So of that user only those
//! writes pass that are made under the name of a controller. Deletions carry no such name: they pass, unless it is the
//! platform's base, which controllers never delete, or something needs what would be gone.
//!
//! What nobody but people uses, such as an annotation of their own, may be written. What tells that an object is ours, which
//! pool it is for and whose it is may not: without it the next write would be refused no more. The finalizer may be taken
//! off, as any may: that is how somebody says that he means it, and the controllers put it back.
//!
//! What the base itself stands on, the ControllerConfig and the built-in pools, nobody deletes, the controllers least of all.

use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, MASTER, WORKER, label};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use serde_json::{Value, json};

use seaworthy_deploy::policy::binding;

/// The name of the policy and its binding.
pub const NAME: &str = "seaworthy-protection";

/// What the field managers of all controllers begin with.
const MANAGERS: &str = "seaworthy-";

/// What the labels begin with that say which pool a MachineConfig is for.
const LABELS: &str = "machineconfiguration.openshift.io/";

/// Those who delete on behalf of others: what is gone with its owner was deleted by a person's wish.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The policy and its binding, for controllers that act as `user`.
pub fn objects(user: &str) -> [Value; 2] {
    [policy(user), binding(NAME)]
}

/// Whether somebody deletes what the platform stands on.
fn is_foundation() -> String {
    let built_in = label::BUILT_IN;
    format!(
        "request.operation == 'DELETE' && (request.resource.resource == 'controllerconfigs' \
         ? variables.name == '{CONTROLLER_CONFIG}' : (request.resource.resource == 'machineconfigpools' \
         && variables.name in ['{MASTER}', '{WORKER}'] && has(oldObject.metadata.labels) \
         && '{built_in}' in oldObject.metadata.labels))"
    )
}

/// Why nobody deletes an object that the platform stands on, and what to do instead: for whoever looks ahead, in the words of the
/// policy.
pub fn foundation(kind: &str, name: &str, labels: &Value) -> Option<String> {
    let said = match kind {
        "ControllerConfig" if name == CONTROLLER_CONFIG => OF_CONTROLLER_CONFIG,
        "MachineConfigPool" if [MASTER, WORKER].contains(&name) => {
            labels.get(label::BUILT_IN.as_str())?;
            OF_POOL
        }
        _ => return None,
    };
    Some(format!("it {}", said.replace("NAME", name)))
}

const OF_CONTROLLER_CONFIG: &str = "is what the base MachineConfigs (00-…, 01-…) of all nodes are made from, and they would go with \
    it. To change it, edit it: kubectl edit controllerconfig NAME";
const OF_POOL: &str = "is built in, and its nodes take their configuration from it. To keep its nodes as they are: seaworthy rollout \
    pause NAME. To change it, edit it";

/// The same as an expression, with the way out.
fn foundation_message() -> String {
    let said = |kind: &str, what: &str| {
        let what = what.replace("NAME", "' + variables.name + '");
        format!(
            "'{kind} ' + variables.name + ' {what}. To uninstall, end the controllers first, then: kubectl delete \
             validatingadmissionpolicybinding {NAME}'"
        )
    };
    format!(
        "request.resource.resource == 'controllerconfigs' ? {} : {}",
        said("ControllerConfig", OF_CONTROLLER_CONFIG),
        said("MachineConfigPool", OF_POOL)
    )
}

fn policy(user: &str) -> Value {
    let is_plane = format!(
        "request.userInfo.username == {} && (request.operation == 'DELETE' \
         ? !variables.owners.exists(o, o.kind == 'ControllerConfig') : (has(request.options) \
         && has(request.options.fieldManager) && request.options.fieldManager.startsWith('{MANAGERS}')))",
        json!(user)
    );
    let is_needed = format!(
        "request.operation == 'DELETE' && variables.isRendered && has(oldObject.metadata.finalizers) \
         && '{IN_USE}' in oldObject.metadata.finalizers"
    );
    let needed = "'MachineConfig ' + variables.name + ' is in use: ' + (size(variables.owners) > 0 \
        ? 'pool ' + variables.owners[0].name : 'a pool') + ' targets it, or nodes of it run it or may have to go back to it \
        (kubectl get machineconfignodes shows which); it goes by itself when nothing needs it any more. To change what \
        nodes run, change the MachineConfigs of the pool, or go back with: seaworthy rollout undo POOL'";
    let generated_by = "machineconfiguration.openshift.io/generated-by-controller-version";
    let owners = |of: &str| {
        format!(
            "has({of}.metadata.ownerReferences) \
             ? {of}.metadata.ownerReferences.filter(o, has(o.controller) && o.controller) : []"
        )
    };
    let made_by = |of: &str| {
        format!(
            "has({of}.metadata.annotations) && '{generated_by}' in {of}.metadata.annotations \
             ? {of}.metadata.annotations['{generated_by}'] : ''"
        )
    };
    let labels = |of: &str| format!("has({of}.metadata.labels) ? {of}.metadata.labels : {{}}");
    let are_in = |these: &str, those: &str| {
        format!(
            "variables.{these}.all(k, !k.startsWith('{LABELS}') \
             || (k in variables.{those} && variables.{those}[k] == variables.{these}[k]))"
        )
    };
    let keeps_marks = format!(
        "({}) == variables.madeBy && {} && {} && size(variables.newOwners) == size(variables.owners) \
         && variables.owners.all(o, variables.newOwners.exists(n, n.uid == o.uid))",
        made_by("object"),
        are_in("labels", "newLabels"),
        are_in("newLabels", "labels"),
    );
    let instead = "variables.isRendered \
        ? 'it is rendered from the MachineConfigs of its pool; create or change one of those' \
        : variables.owners.exists(o, o.kind in ['KubeletConfig', 'ContainerRuntimeConfig']) \
        ? 'it is made from ' + variables.owners[0].kind + ' ' + variables.owners[0].name + '; change that' \
        : 'it is part of the platform; create a MachineConfig of your own, with the label \
           machineconfiguration.openshift.io/role and a name that sorts after it'";
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["machineconfiguration.openshift.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["machineconfigs"],
            }, {
                "apiGroups": ["machineconfiguration.openshift.io"],
                "apiVersions": ["v1"],
                "operations": ["DELETE"],
                "resources": ["controllerconfigs", "machineconfigpools"],
            }]},
            "matchConditions": [{
                "name": "people",
                "expression": format!("!(request.userInfo.username in {})", json!(COLLECTORS)),
            }],
            "variables": [
                {"name": "subject", "expression": "request.operation == 'CREATE' ? object : oldObject"},
                {"name": "name", "expression": "has(variables.subject.metadata.name) ? variables.subject.metadata.name \
                    : has(variables.subject.metadata.generateName) ? variables.subject.metadata.generateName : ''"},
                {"name": "isRendered", "expression":
                    "request.resource.resource == 'machineconfigs' && variables.name.startsWith('rendered-')"},
                {"name": "madeBy", "expression": made_by("variables.subject")},
                {"name": "isGenerated", "expression": "variables.madeBy != ''"},
                {"name": "owners", "expression": owners("variables.subject")},
                {"name": "labels", "expression": labels("variables.subject")},
                // These three are asked only where there is a new object.
                {"name": "newOwners", "expression": owners("object")},
                {"name": "newLabels", "expression": labels("object")},
                {"name": "keepsMarks", "expression": keeps_marks},
                {"name": "isPlane", "expression": is_plane},
                {"name": "isNeeded", "expression": is_needed},
                {"name": "isFoundation", "expression": is_foundation()},
                {"name": "keepsContent", "expression": "request.operation == 'UPDATE' \
                    && has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec) \
                    && variables.keepsMarks"},
            ],
            "validations": [{
                "expression": "!variables.isFoundation",
                "messageExpression": foundation_message(),
                "reason": "Forbidden",
            }, {
                "expression": "!variables.isNeeded",
                "messageExpression": needed,
                "reason": "Forbidden",
            }, {
                "expression":
                    "variables.isPlane || !(variables.isRendered || variables.isGenerated) || variables.keepsContent",
                "messageExpression":
                    format!("'MachineConfig ' + variables.name + ' is kept by Seaworthy: ' + ({instead})"),
                "reason": "Forbidden",
            }],
        },
    })
}
