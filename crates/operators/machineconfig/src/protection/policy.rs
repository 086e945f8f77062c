//! Protection policy: an admission policy that refuses edits of generated MachineConfigs, with what to change instead.
//!
//! On a small cluster the controllers often act as the same user as the person at the keyboard. So of that user only those
//! writes pass that have a controller's field manager. Deletions have no field manager: they pass, unless the object is part of
//! the platform's base, which controllers never delete, or is still in use.
//!
//! Fields that controllers do not read, such as an annotation of a user, may be written. The marks of an object as generated,
//! its pool and its owner may not: without them the next write would no longer be refused. The finalizer may be removed, as on
//! any object: a user confirms a deletion that way, and else the controllers restore it.
//!
//! The ControllerConfig and the built-in pools, on which the base depends, are not deleted by any user, controllers included.

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use seaworthy_api::meta::is_object;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, MASTER, WORKER, label};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use serde_json::{Value, json};

use seaworthy_deploy::policy::binding;

/// The name of the policy and of its binding.
pub const NAME: &str = "seaworthy-protection";

/// The prefix of the field managers of all controllers.
const MANAGER_PREFIX: &str = "seaworthy-";

/// The prefix of the labels that select the pool of a MachineConfig.
const LABEL_PREFIX: &str = "machineconfiguration.openshift.io/";

/// The users that delete objects together with their owners: the deletion of the owner was admitted.
const GARBAGE_COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// The policy and its binding, for controllers that act as `user`.
pub fn objects(user: &str) -> [Value; 2] {
    [policy(user), binding(NAME)]
}

/// The expression for the deletion of an object on which the base depends.
fn is_foundation() -> String {
    let built_in = label::BUILT_IN;
    format!(
        "request.operation == 'DELETE' && (request.resource.resource == 'controllerconfigs' \
         ? variables.name == '{CONTROLLER_CONFIG}' : (request.resource.resource == 'machineconfigpools' \
         && variables.name in ['{MASTER}', '{WORKER}'] && has(oldObject.metadata.labels) \
         && '{built_in}' in oldObject.metadata.labels))"
    )
}

/// The policy's message for the deletion of an object on which the base depends, for previews.
pub fn deletion_refusal(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    let is_labelled = || metadata.get("labels")?.get(label::BUILT_IN.as_str());
    let message = if is_object::<ControllerConfig>(object) && name == CONTROLLER_CONFIG {
        CONTROLLER_CONFIG_REFUSAL
    } else if is_object::<MachineConfigPool>(object) && [MASTER, WORKER].contains(&name) && is_labelled().is_some() {
        POOL_REFUSAL
    } else {
        return None;
    };
    Some(format!("it {}", message.replace("NAME", name)))
}

const CONTROLLER_CONFIG_REFUSAL: &str = "is the source of the base MachineConfigs (00-…, 01-…) of all nodes, which would be deleted with \
    it. To change it, edit it: kubectl edit controllerconfig NAME";
const POOL_REFUSAL: &str = "is built in, and its nodes take their configuration from it. To keep its nodes as they are: seaworthy rollout \
    pause NAME. To change it, edit it";

/// The same as an expression, with the commands to uninstall.
fn foundation_message() -> String {
    let message = |kind: &str, what: &str| {
        let what = what.replace("NAME", "' + variables.name + '");
        format!(
            "'{kind} ' + variables.name + ' {what}. To uninstall, stop the controllers first, then: kubectl delete \
             validatingadmissionpolicybinding {NAME}'"
        )
    };
    format!(
        "request.resource.resource == 'controllerconfigs' ? {} : {}",
        message("ControllerConfig", CONTROLLER_CONFIG_REFUSAL),
        message("MachineConfigPool", POOL_REFUSAL)
    )
}

fn policy(user: &str) -> Value {
    let is_controller = format!(
        "request.userInfo.username == {} && (request.operation == 'DELETE' \
         ? !variables.owners.exists(o, o.kind == 'ControllerConfig') : (has(request.options) \
         && has(request.options.fieldManager) && request.options.fieldManager.startsWith('{MANAGER_PREFIX}')))",
        json!(user)
    );
    let is_needed = format!(
        "request.operation == 'DELETE' && variables.isRendered && has(oldObject.metadata.finalizers) \
         && '{IN_USE}' in oldObject.metadata.finalizers"
    );
    let needed = "'MachineConfig ' + variables.name + ' is in use: ' + (size(variables.owners) > 0 \
        ? 'pool ' + variables.owners[0].name : 'a pool') + ' targets it, or nodes of it run it or may have to return to it \
        (kubectl get machineconfignodes shows which); it is deleted automatically when nothing uses it. To change what nodes \
        run, change the MachineConfigs of the pool, or roll back with: seaworthy rollout undo POOL'";
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
            "variables.{these}.all(k, !k.startsWith('{LABEL_PREFIX}') \
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
        ? 'it is generated from ' + variables.owners[0].kind + ' ' + variables.owners[0].name + '; change that' \
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
                "expression": format!("!(request.userInfo.username in {})", json!(GARBAGE_COLLECTORS)),
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
                // The next three are evaluated only where there is a new object.
                {"name": "newOwners", "expression": owners("object")},
                {"name": "newLabels", "expression": labels("object")},
                {"name": "keepsMarks", "expression": keeps_marks},
                {"name": "isController", "expression": is_controller},
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
                    "variables.isController || !(variables.isRendered || variables.isGenerated) || variables.keepsContent",
                "messageExpression":
                    format!("'MachineConfig ' + variables.name + ' is managed by Seaworthy: ' + ({instead})"),
                "reason": "Forbidden",
            }],
        },
    })
}
