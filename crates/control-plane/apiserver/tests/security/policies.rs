//! ValidatingAdmissionPolicies apply to all users.

use rstest::rstest;
use serde_json::{Value, json};

use crate::security::harness::{ADMIN, ANN, Ask, CONFIG_MAPS, Cluster, Reply, config_map};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy for ConfigMaps, changed by a merge.
fn policy(change: Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "object.data.k == 'good'", "message": "only good things"}],
    });
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": spec})
}

fn binding(change: Value) -> Value {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"}, "spec": spec})
}

async fn cluster(policy_change: Value, binding_change: Value) -> Cluster {
    let cluster = Cluster::open().await;
    cluster.create(&format!("{GROUP}/validatingadmissionpolicies"), policy(policy_change)).await;
    cluster.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding(binding_change)).await;
    cluster
}

fn with_data(name: &str, data: &str) -> Value {
    let mut object = config_map(name);
    object["data"]["k"] = data.into();
    object
}

async fn create(cluster: &Cluster, data: &str) -> Reply {
    cluster.send(ADMIN, "POST", CONFIG_MAPS, with_data("a", data)).await
}

#[tokio::test]
async fn write_that_breaks_a_rule_is_refused_in_the_real_servers_words() {
    let cluster = cluster(json!({}), json!({})).await;
    let reply = create(&cluster, "bad").await.is(422);
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: only good things";
    assert_eq!(reply.message(), format!("configmaps \"a\" is forbidden: {why}"));
    assert_eq!(reply.body["reason"], "Invalid");
    assert_eq!(reply.body["details"], json!({"name": "a", "kind": "configmaps", "causes": [{"message": why}]}));
    cluster.get(ADMIN, &format!("{CONFIG_MAPS}/a")).await.is(404);
    create(&cluster, "good").await.is(201);
    let one = format!("{CONFIG_MAPS}/a");
    cluster.send(ADMIN, "PUT", &one, with_data("a", "bad")).await.is(422);
    cluster.patch(ADMIN, &one, json!({"data": {"k": "bad"}})).await.is(422);
    let apply = Ask {
        method: "PATCH",
        path: &format!("{one}?fieldManager=x&force=true"),
        token: ADMIN,
        headers: &[],
        kind: "application/apply-patch+yaml",
        body: with_data("a", "bad").to_string().into(),
    };
    cluster.ask(apply).await.is(422);
    assert_eq!(cluster.get(ADMIN, &one).await.body["data"]["k"], "good");
    // The policy does not match deletions.
    cluster.send(ADMIN, "DELETE", &one, Value::Null).await.is(200);
}

#[tokio::test]
async fn dry_run_is_judged_too() {
    let cluster = cluster(json!({}), json!({})).await;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    cluster.send(ADMIN, "POST", &path, with_data("a", "bad")).await.is(422);
    cluster.send(ADMIN, "POST", &path, with_data("a", "good")).await.is(201);
}

#[rstest]
#[case("Forbidden", 403)]
#[case("Unauthorized", 401)]
#[case("RequestEntityTooLarge", 413)]
#[case("Invalid", 422)]
#[tokio::test]
async fn reason_of_a_rule_is_the_reason_of_the_refusal(#[case] reason: &str, #[case] code: u16) {
    let cluster = cluster(json!({"validations": [{"expression": "false", "reason": reason}]}), json!({})).await;
    let reply = create(&cluster, "x").await.is(code);
    assert_eq!(reply.body["reason"], reason);
    assert!(reply.message().ends_with("denied request: failed expression: false"), "{}", reply.message());
}

#[tokio::test]
async fn binding_that_warns_lets_pass() {
    let cluster = cluster(json!({}), json!({"validationActions": ["Warn", "Audit"]})).await;
    let reply = create(&cluster, "bad").await.is(201);
    let why = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': only good things";
    assert_eq!(reply.warnings, [format!("299 - \"{why}\"")]);
    let reply = cluster.patch(ADMIN, &format!("{CONFIG_MAPS}/a"), json!({"data": {"x": "y"}})).await.is(200);
    assert_eq!(reply.warnings.len(), 1);
    assert!(create(&cluster, "good").await.is(409).warnings.is_empty());
}

#[tokio::test]
async fn policy_holds_from_its_binding_on_and_until_it_goes() {
    let cluster = Cluster::open().await;
    cluster.create(&format!("{GROUP}/validatingadmissionpolicies"), policy(json!({}))).await;
    cluster.send(ADMIN, "POST", CONFIG_MAPS, with_data("before", "bad")).await.is(201);
    cluster.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding(json!({}))).await;
    create(&cluster, "bad").await.is(422);
    let one = format!("{GROUP}/validatingadmissionpolicies/p");
    let laxer = json!({"spec": {"validations": [{"expression": "object.data.k in ['good', 'bad']"}]}});
    cluster.patch(ADMIN, &one, laxer).await.is(200);
    create(&cluster, "bad").await.is(201);
    cluster.send(ADMIN, "POST", CONFIG_MAPS, with_data("c", "worse")).await.is(422);
    cluster.send(ADMIN, "DELETE", &format!("{GROUP}/validatingadmissionpolicybindings/b"), Value::Null).await.is(200);
    cluster.send(ADMIN, "POST", CONFIG_MAPS, with_data("c", "worse")).await.is(201);
}

#[rstest]
// What the rules of a match mean.
#[case(json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]), true)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*/*"]}]), true)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*/status"]}]), false)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]), false)]
#[case(json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]), false)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["*"]}]), false)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*"]}]), false)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"],
    "scope": "Cluster"}]), false)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"],
    "scope": "Namespaced"}]), true)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
    "resourceNames": ["a"]}]), true)]
#[case(json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
    "resourceNames": ["b"]}]), false)]
#[tokio::test]
async fn rules_match_the_writes_that_they_describe(#[case] rules: Value, #[case] meant: bool) {
    let never = json!([{"expression": "false"}]);
    let cluster = cluster(json!({"validations": never, "matchConstraints": {"resourceRules": rules}}), json!({})).await;
    create(&cluster, "x").await.is(if meant { 422 } else { 201 });
    // The same rules leave out what they meant.
    let everything =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*", "*/*"]}]);
    let cluster = self::cluster(
        json!({"validations": never, "matchConstraints": {"resourceRules": everything, "excludeResourceRules": rules}}),
        json!({}),
    )
    .await;
    create(&cluster, "x").await.is(if meant { 201 } else { 422 });
}

#[rstest]
#[case(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}), true)]
#[case(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}), false)]
#[case(json!({"objectSelector": {"matchLabels": {"colour": "red"}}}), true)]
#[case(json!({"objectSelector": {"matchLabels": {"colour": "blue"}}}), false)]
#[case(json!({"objectSelector": {"matchExpressions": [{"key": "colour", "operator": "Exists"}]}}), true)]
#[tokio::test]
async fn selectors_of_policy_and_binding_narrow_it_down(#[case] selectors: Value, #[case] meant: bool) {
    let mut object = with_data("a", "bad");
    object["metadata"]["labels"] = json!({"colour": "red"});
    let mut constraints = policy(json!({}))["spec"]["matchConstraints"].clone();
    constraints.as_object_mut().unwrap().extend(selectors.as_object().unwrap().clone());
    let code = if meant { 422 } else { 201 };
    let one = cluster(json!({"matchConstraints": constraints}), json!({})).await;
    one.send(ADMIN, "POST", CONFIG_MAPS, object.clone()).await.is(code);
    let two = cluster(json!({}), json!({"matchResources": selectors})).await;
    two.send(ADMIN, "POST", CONFIG_MAPS, object).await.is(code);
}

#[tokio::test]
async fn removing_a_label_does_not_slip_through_a_selector() {
    let mut constraints = policy(json!({}))["spec"]["matchConstraints"].clone();
    constraints["objectSelector"] = json!({"matchLabels": {"locked": "yes"}});
    let never = json!([{"expression": "oldObject == null"}]);
    let cluster = cluster(json!({"matchConstraints": constraints, "validations": never}), json!({})).await;
    let mut object = with_data("a", "x");
    object["metadata"]["labels"] = json!({"locked": "yes"});
    cluster.send(ADMIN, "POST", CONFIG_MAPS, object).await.is(201);
    let one = format!("{CONFIG_MAPS}/a");
    cluster.patch(ADMIN, &one, json!({"metadata": {"labels": {"locked": null}}})).await.is(422);
}

#[rstest]
#[case("request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'default'")]
#[case("request.kind.kind == 'ConfigMap' && request.kind.group == '' && request.requestKind.version == 'v1'")]
#[case("request.resource.resource == 'configmaps' && !has(request.subResource) && !request.dryRun")]
#[case("request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups")]
#[case("request.options.kind == 'CreateOptions' && request.options.fieldManager == 'me'")]
#[case("namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'")]
#[case("oldObject == null && object.metadata.name == 'a' && object.kind == 'ConfigMap'")]
#[case("authorizer.group('').resource('pods').namespace('x').check('delete').allowed()")]
#[case("authorizer.requestResource.check('create').allowed()")]
#[case("!authorizer.serviceAccount('default', 'mate').path('/metrics').check('get').allowed()")]
#[tokio::test]
async fn expressions_see_the_request(#[case] expression: &str) {
    let cluster = cluster(json!({"validations": [{"expression": expression}]}), json!({})).await;
    let path = format!("{CONFIG_MAPS}?fieldManager=me");
    cluster.send(ADMIN, "POST", &path, config_map("a")).await.is(201);
}

#[tokio::test]
async fn authorizer_answers_for_the_author_of_the_write() {
    let ask = "authorizer.group('example.com').resource('seals').check('break').allowed()";
    let cluster = cluster(json!({"validations": [{"expression": ask, "reason": "Forbidden"}]}), json!({})).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    cluster.allow("writer", "ann", rules).await;
    cluster.send(ANN, "POST", CONFIG_MAPS, config_map("a")).await.is(403);
    let rules = json!([{"apiGroups": ["example.com"], "resources": ["seals"], "verbs": ["break"]}]);
    cluster.allow("breaker", "ann", rules).await;
    cluster.send(ANN, "POST", CONFIG_MAPS, config_map("a")).await.is(201);
}

#[tokio::test]
async fn variables_are_visible_to_later_ones_and_fail_only_where_they_are_used() {
    let change = json!({
        "variables": [
            {"name": "size", "expression": "object.data.size()"},
            {"name": "double", "expression": "variables.size * 2"},
            {"name": "broken", "expression": "object.spec.missing"},
        ],
        "validations": [
            {"expression": "variables.double == 2 || variables.broken",
                "messageExpression": "'twice ' + string(variables.size) + ' is ' + string(variables.double)"},
        ],
    });
    let cluster = cluster(change, json!({})).await;
    create(&cluster, "x").await.is(201);
    let mut object = config_map("b");
    object["data"]["l"] = "m".into();
    let reply = cluster.send(ADMIN, "POST", CONFIG_MAPS, object).await.is(422);
    assert!(reply.message().contains("composited variable \"broken\" fails to evaluate"), "{}", reply.message());
}

#[tokio::test]
async fn message_is_computed_where_the_policy_says_how() {
    let change = json!({"validations": [{"expression": "object.data.k == 'good'", "message": "written",
        "messageExpression": "object.data.k == 'odd' ? '' : 'found ' + object.data.k"}]});
    let cluster = cluster(change, json!({})).await;
    assert!(create(&cluster, "bad").await.is(422).message().ends_with("denied request: found bad"));
    // What computes to nothing falls back to what is written.
    assert!(create(&cluster, "odd").await.is(422).message().ends_with("denied request: written"));
}

#[rstest]
#[case("Fail", 422)]
#[case("Ignore", 201)]
#[tokio::test]
async fn failure_of_a_policy_counts_as_it_says(#[case] failure: &str, #[case] code: u16) {
    let change = json!({"failurePolicy": failure, "validations": [{"expression": "object.spec.missing == 1"}]});
    let cluster = cluster(change, json!({})).await;
    let reply = create(&cluster, "x").await.is(code);
    if code == 422 {
        let why = "expression 'object.spec.missing == 1' resulted in error: no such key: spec";
        assert!(reply.message().ends_with(&format!("denied request: {why}")), "{}", reply.message());
    }
}

#[rstest]
#[case(json!([{"name": "c", "expression": "object.metadata.name == 'other'"}]), "Fail", 201)]
#[case(json!([{"name": "c", "expression": "object.metadata.name == 'a'"}]), "Fail", 422)]
#[case(json!([{"name": "c", "expression": "object.missing"}]), "Fail", 422)]
#[case(json!([{"name": "c", "expression": "object.missing == 1"}]), "Fail", 422)]
#[case(json!([{"name": "c", "expression": "object.missing == 1"}]), "Ignore", 201)]
#[case(json!([{"name": "c", "expression": "object.missing == 1"}, {"name": "d", "expression": "false"}]), "Fail", 201)]
#[tokio::test]
async fn conditions_decide_whether_a_policy_is_asked(
    #[case] conditions: Value,
    #[case] failure: &str,
    #[case] code: u16,
) {
    let change = json!({"failurePolicy": failure, "matchConditions": conditions});
    let object = policy(change.clone());
    let cluster = Cluster::open().await;
    let reply = cluster.send(ADMIN, "POST", &format!("{GROUP}/validatingadmissionpolicies"), object).await;
    if conditions[0]["expression"] == "object.missing" {
        // A condition is true or false, not whatever an object holds.
        assert!(reply.is(422).message().contains("must evaluate to bool"));
        return;
    }
    reply.is(201);
    cluster.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding(json!({}))).await;
    create(&cluster, "bad").await.is(code);
}

#[tokio::test]
async fn expression_that_does_not_compile_is_refused_with_its_place() {
    let cluster = Cluster::open().await;
    let change = json!({
        "variables": [{"name": "v", "expression": "object."}],
        "validations": [{"expression": "request.nothing == 1", "messageExpression": "1"},
            {"expression": "variables.unknown"}, {"expression": "true", "messageExpression": "string(authorizer)"}],
    });
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let reply = cluster.send(ADMIN, "POST", &path, policy(change)).await.is(422);
    let causes = reply.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    let wanted = [
        "spec.variables[0].expression",
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
        "spec.validations[1].expression",
        "spec.validations[2].messageExpression",
    ];
    assert_eq!(fields, wanted, "{}", reply.text);
    assert!(reply.message().contains("undefined field 'nothing'"), "{}", reply.text);
    assert!(reply.message().contains("undefined field 'unknown'"), "{}", reply.text);
}

#[tokio::test]
async fn policies_never_judge_policies() {
    let everything =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*", "*/*"]}]);
    let change = json!({"validations": [{"expression": "false"}], "matchConstraints": {"resourceRules": everything}});
    let cluster = cluster(change, json!({})).await;
    create(&cluster, "x").await.is(422);
    cluster.send(ADMIN, "DELETE", &format!("{GROUP}/validatingadmissionpolicybindings/b"), Value::Null).await.is(200);
    create(&cluster, "x").await.is(201);
}

#[tokio::test]
async fn deletion_is_judged_by_what_is_deleted() {
    let constraints = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
        "resources": ["configmaps"]}]});
    let change = json!({"matchConstraints": constraints, "validations": [
        {"expression": "object == null && oldObject.data.k != 'precious' && request.operation == 'DELETE'"}]});
    let cluster = cluster(change, json!({})).await;
    for (name, data) in [("a", "junk"), ("b", "precious"), ("c", "junk")] {
        cluster.send(ADMIN, "POST", CONFIG_MAPS, with_data(name, data)).await.is(201);
    }
    cluster.send(ADMIN, "DELETE", &format!("{CONFIG_MAPS}/b"), Value::Null).await.is(422);
    cluster.send(ADMIN, "DELETE", &format!("{CONFIG_MAPS}/a"), Value::Null).await.is(200);
    cluster.send(ADMIN, "DELETE", CONFIG_MAPS, Value::Null).await.is(422);
    cluster.get(ADMIN, &format!("{CONFIG_MAPS}/b")).await.is(200);
}

#[tokio::test]
async fn eviction_and_token_requests_can_be_refused() {
    let constraints = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods/eviction", "serviceaccounts/token", "pods/binding"]}]});
    let change = json!({"matchConstraints": constraints, "validations": [{"expression": "false",
        "messageExpression": "request.subResource + ' of ' + request.kind.kind + ' ' + request.name"}]});
    let cluster = cluster(change, json!({})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let container = json!([{"name": "c", "image": "i"}]);
    cluster
        .create(
            pods,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": container}}),
        )
        .await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let reply = cluster.send(ADMIN, "POST", &format!("{pods}/p/eviction"), eviction).await.is(422);
    assert!(reply.message().ends_with("denied request: eviction of Eviction p"), "{}", reply.message());
    cluster.get(ADMIN, &format!("{pods}/p")).await.is(200);
    let target = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    cluster.send(ADMIN, "POST", &format!("{pods}/p/binding"), target).await.is(422);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.create(accounts, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "m"}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    cluster.send(ADMIN, "POST", &format!("{accounts}/m/token"), request).await.is(422);
}

#[tokio::test]
async fn scale_is_judged_as_a_scale() {
    let constraints = json!({"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
        "operations": ["UPDATE"], "resources": ["deployments/scale"]}]});
    let change = json!({"matchConstraints": constraints, "validations": [{"expression":
        "request.kind.kind == 'Scale' && object.spec.replicas <= 3 && oldObject.spec.replicas == 1"}]});
    let cluster = cluster(change, json!({})).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster
        .create(
            deployments,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        )
        .await;
    let scale = format!("{deployments}/d/scale");
    cluster.patch(ADMIN, &scale, json!({"spec": {"replicas": 5}})).await.is(422);
    cluster.patch(ADMIN, &scale, json!({"spec": {"replicas": 3}})).await.is(200);
}

#[tokio::test]
async fn policy_for_one_version_holds_for_the_others_unless_it_is_exact() {
    for (policy, code) in [("Equivalent", 422), ("Exact", 201)] {
        let constraints = json!({"matchPolicy": policy, "resourceRules": [{"apiGroups": ["example.com"],
            "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["boats"]}]});
        let rules = json!([{"expression": "object.apiVersion == 'example.com/v1' && request.kind.version == 'v1' && \
            request.requestKind.version == 'v2' && object.spec.length < 10"}]);
        let cluster = cluster(json!({"matchConstraints": constraints, "validations": rules}), json!({})).await;
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version =
            |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
        let definition = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"}, "versions": [version("v1", true), version("v2", false)]}});
        cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        let boat = |name: &str, length: i64| {
            json!({"kind": "Boat", "apiVersion": "example.com/v2", "metadata": {"name": name},
                "spec": {"length": length}})
        };
        let boats = "/apis/example.com/v2/namespaces/default/boats";
        cluster.send(ADMIN, "POST", boats, boat("long", 12)).await.is(code);
        cluster.send(ADMIN, "POST", boats, boat("short", 8)).await.is(201);
    }
}

#[rstest]
#[case(json!({"name": "limits", "parameterNotFoundAction": "Deny"}), "bad", 201)]
#[case(json!({"name": "limits", "parameterNotFoundAction": "Deny"}), "worse", 422)]
#[case(json!({"selector": {"matchLabels": {"for": "p"}}, "parameterNotFoundAction": "Deny"}), "bad", 201)]
#[case(json!({"selector": {"matchLabels": {"for": "p"}}, "parameterNotFoundAction": "Deny"}), "worse", 422)]
#[case(json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}), "worse", 422)]
#[case(json!({"name": "limits", "namespace": "kube-public", "parameterNotFoundAction": "Deny"}), "bad", 422)]
#[case(json!({"name": "other", "parameterNotFoundAction": "Allow"}), "worse", 201)]
#[tokio::test]
async fn policy_is_set_up_by_an_object(#[case] reference: Value, #[case] data: &str, #[case] code: u16) {
    let change = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.metadata.name == object.metadata.name || object.data.k == params.data.k"}]});
    let cluster = Cluster::open().await;
    let mut limits = with_data("limits", "bad");
    limits["metadata"]["labels"] = json!({"for": "p"});
    cluster.create(CONFIG_MAPS, limits).await;
    cluster.create(&format!("{GROUP}/validatingadmissionpolicies"), policy(change)).await;
    let bound = binding(json!({"paramRef": reference}));
    cluster.create(&format!("{GROUP}/validatingadmissionpolicybindings"), bound).await;
    let reply = create(&cluster, data).await.is(code);
    if reference["namespace"] == "kube-public" {
        let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
        assert!(reply.message().ends_with(why), "{}", reply.message());
    }
}

#[tokio::test]
async fn policy_set_up_by_a_kind_that_is_not_served_refuses() {
    let change = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Nothing"}});
    let cluster = cluster(change, json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}})).await;
    let reply = create(&cluster, "good").await.is(422);
    let why = "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource";
    assert!(reply.message().contains(why), "{}", reply.message());
}

#[tokio::test]
async fn expression_that_costs_too_much_refuses_instead_of_taking_long() {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let nested = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, \
        {list}.all(f, a + b + c + d + e + f > 0))))))"
    );
    let cluster = cluster(json!({"validations": [{"expression": nested}]}), json!({})).await;
    let reply = create(&cluster, "x").await.is(422);
    assert!(reply.message().contains("cost limit exceeded"), "{}", reply.message());
}
