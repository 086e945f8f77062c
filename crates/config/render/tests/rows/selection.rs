//! Selection: the MachineConfigs of a pool, and their order.

use seaworthy_render::{Pool, keys, unselected};
use serde_json::{Value, json};

use crate::support::*;

#[test]
fn row_03_the_same_input_has_the_same_digest_in_two_pools() {
    let input = [ign("00", json!({}))];
    let names = [worker(), infra()].map(|pool| rendered(&pool, &input).name);
    assert_eq!(
        names,
        ["rendered-worker-c80a90381278fced175b4d86614b286e", "rendered-infra-c80a90381278fced175b4d86614b286e"]
    );
}

#[test]
fn row_04_inputs_are_ordered_by_name_byte_by_byte() {
    let names = ["99-worker", "99-worker-a", "99.b", "100-x", "09-y", "a", "99worker"];
    let inputs = names.map(|name| mc(name, json!({"kernelArguments": [name]})));
    let outcome = rendered(&worker(), &inputs);
    let expected = ["09-y", "100-x", "99-worker", "99-worker-a", "99.b", "99worker", "a"];
    assert_eq!(outcome.inputs, expected);
    assert_eq!(outcome.spec["kernelArguments"], json!(expected));
}

#[test]
fn row_05_infra_wins_over_worker_whatever_the_names() {
    let spec = |text: &str| {
        json!({
            "config": with_version("3.5.0", files(json!([file("/f", &format!("data:,{text}"))]))),
            "kernelArguments": [text],
            "osImageURL": format!("img-{text}"),
        })
    };
    let outcome = rendered(&infra(), &[mc_of("infra", "00-infra", spec("i")), mc("99-worker", spec("w"))]);
    assert_eq!(outcome.inputs, ["99-worker", "00-infra"]);
    assert_eq!(outcome.files()[0]["contents"]["source"], "data:,i");
    assert_eq!(outcome.spec["osImageURL"], "img-i");
    assert_eq!(outcome.spec["kernelArguments"], json!(["w", "i"]));
}

#[test]
fn row_06_later_workers_win_among_workers_and_infra_wins_over_them() {
    let packed = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
    let gzip = json!({"path": "/f2", "contents": {"source": packed, "compression": "gzip"}});
    let mut ccc = ign("ccc", files(json!([file("/f2", "data:,plain")])));
    ccc["metadata"]["labels"][keys::ROLE] = "infra".into();
    let inputs = [
        ign("aaa", files(json!([file("/f1", "data:,old")]))),
        ign("bbb", files(json!([file("/f1", "data:,new")]))),
        ccc,
        ign("ddd", files(json!([gzip]))),
    ];
    let outcome = rendered(&infra(), &inputs);
    assert_eq!(outcome.inputs, ["aaa", "bbb", "ddd", "ccc"]);
    assert_eq!(
        *outcome.files(),
        json!([
            {"path": "/f1", "contents": {"source": "data:,new"}, "overwrite": true},
            {"path": "/f2", "contents": {"source": "data:,plain"}, "overwrite": true},
        ])
    );
}

#[test]
fn row_76_a_pool_without_a_selector_selects_nothing() {
    let findings = refused(&pool("p", Value::Null), &[mc("a", json!({}))]);
    let finding = one(&findings);
    assert_eq!(finding.code, "no-machine-configs");
    assert_eq!(places(finding), ["p spec.machineConfigSelector"]);
    assert_eq!(finding.places[0].kind, "MachineConfigPool");

    let object = json!({"metadata": {"name": "p"}, "spec": {}});
    let pool = Pool::read(&seaworthy_ignition::Node::from_json(&object)).unwrap();
    assert_eq!(one(&refused(&pool, &[mc("a", json!({}))])).code, "no-machine-configs");
}

#[test]
fn row_77_an_empty_selector_does_not_mean_everything() {
    for selector in [json!({}), json!({"matchLabels": {}}), json!({"matchLabels": {}, "matchExpressions": []})] {
        let findings = refused(&pool("p", selector), &[mc("a", json!({}))]);
        assert_eq!(one(&findings).code, "empty-selector");
        assert_eq!(places(&findings[0]), ["p spec.machineConfigSelector"]);
    }
}

#[test]
fn row_78_a_selector_takes_what_has_its_labels_and_nothing_else() {
    let inputs = [mc_of("master", "00-m", json!({})), mc_of("master", "01-m", json!({})), mc("00-w", json!({}))];
    let master = pool("master", json!({"matchLabels": {keys::ROLE: "master"}}));
    assert_eq!(rendered(&master, &inputs).inputs, ["00-m", "01-m"]);

    let findings = refused(&worker(), &inputs[..2]);
    let finding = one(&findings);
    assert_eq!(finding.code, "no-machine-configs");
    let expected = format!("no MachineConfigs found matching selector {}=worker", keys::ROLE);
    assert!(finding.message.starts_with(&expected), "{finding}");
}

#[test]
fn row_78_every_operator_selects_as_kubernetes_does() {
    let labelled = |name: &str, labels: Value| {
        let mut machine_config = mc(name, json!({}));
        machine_config["metadata"]["labels"] = labels;
        machine_config
    };
    let inputs = [
        labelled("a", json!({"x": "1"})),
        labelled("b", json!({"x": "2", "y": ""})),
        labelled("c", json!({"x": "3"})),
        labelled("d", json!({"z": "1"})),
    ];
    let selects = |expression: Value| rendered(&pool("p", json!({"matchExpressions": [expression]})), &inputs).inputs;
    assert_eq!(selects(json!({"key": "x", "operator": "In", "values": ["1", "3"]})), ["a", "c"]);
    assert_eq!(selects(json!({"key": "x", "operator": "NotIn", "values": ["1", "3"]})), ["b", "d"]);
    assert_eq!(selects(json!({"key": "y", "operator": "Exists"})), ["b"]);
    assert_eq!(selects(json!({"key": "x", "operator": "DoesNotExist"})), ["d"]);
    let both = json!({"matchLabels": {"x": "2"}, "matchExpressions": [{"key": "y", "operator": "Exists"}]});
    assert_eq!(rendered(&pool("p", both), &inputs).inputs, ["b"]);
}

fn not_master() -> Pool {
    pool("p", json!({"matchExpressions": [{"key": keys::ROLE, "operator": "NotIn", "values": ["master"]}]}))
}

#[test]
fn row_79_rendered_configs_are_never_selected() {
    let mut old = mc("rendered-master-x", json!({}));
    old["metadata"].as_object_mut().unwrap().remove("labels");
    assert_eq!(rendered(&not_master(), &[old, mc("00-w", json!({}))]).inputs, ["00-w"]);
    // A label does not change that.
    let labelled = mc("rendered-worker-x", json!({}));
    assert_eq!(rendered(&worker(), &[labelled, mc("00-w", json!({}))]).inputs, ["00-w"]);
}

#[test]
fn row_79_another_config_without_labels_is_refused_by_name() {
    let mut unlabelled = mc("stray", json!({}));
    unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
    let inputs = [mc("00-w", json!({})), unlabelled.clone()];
    let findings = refused(&not_master(), &inputs);
    let finding = one(&findings);
    assert_eq!(finding.code, "no-role-label");
    assert_eq!(places(finding), ["stray metadata.labels"]);
    assert!(finding.message.contains("cannot find label in MachineConfig stray"), "{finding}");
    // Where it is not selected it does no harm.
    assert_eq!(rendered(&worker(), &inputs).inputs, ["00-w"]);
}

#[test]
fn row_79_every_input_without_labels_is_reported_in_the_order_of_names_beside_what_is_broken() {
    let unlabelled = |name: &str| {
        let mut machine_config = mc(name, json!({}));
        machine_config["metadata"].as_object_mut().unwrap().remove("labels");
        machine_config
    };
    let inputs = [unlabelled("z"), mc("m", json!({"kernelType": "rt"})), unlabelled("b")];
    let findings = refused(&not_master(), &inputs);
    let all: Vec<_> = findings.iter().map(|finding| (finding.code, finding.places[0].name.as_str())).collect();
    assert_eq!(all, [("no-role-label", "b"), ("no-role-label", "z"), ("kernel-type", "m")]);
}

#[test]
fn row_80_an_unknown_operator_is_refused() {
    let selector = json!({"matchExpressions": [{"key": "k", "operator": "Foo", "values": ["v"]}]});
    let findings = try_pool("p", selector).unwrap_err();
    let finding = one(&findings);
    assert!(finding.is_error());
    assert_eq!(finding.code, "invalid-pool");
    assert_eq!(places(finding), ["p spec.machineConfigSelector.matchExpressions[0].operator"]);
    assert!(finding.message.contains("invalid label selector operator \"Foo\""), "{finding}");
    assert!(finding.message.contains("In, NotIn, Exists, DoesNotExist"), "{finding}");
}

#[test]
fn row_80_every_other_mistake_in_a_selector_is_refused_at_its_place() {
    let expression = |expression: Value| json!({"matchExpressions": [{"key": "k", "operator": "Exists"}, expression]});
    let below = "spec.machineConfigSelector";
    let cases = [
        (json!("role=worker"), ""),
        (json!([]), ""),
        (json!({"matchLabels": []}), ".matchLabels"),
        (json!({"matchLabels": {"k": true}}), ".matchLabels.k"),
        (json!({"matchExpressions": {}}), ".matchExpressions"),
        (expression(json!({"operator": "Exists"})), ".matchExpressions[1].key"),
        (json!({"matchExpressions": [7]}), ".matchExpressions[0]"),
        (expression(json!({"key": "k", "operator": "In", "values": "v"})), ".matchExpressions[1].values"),
        (expression(json!({"key": "k", "operator": "In"})), ".matchExpressions[1].values"),
        (expression(json!({"key": "k", "operator": "NotIn", "values": []})), ".matchExpressions[1].values"),
        (expression(json!({"key": "k", "operator": "In", "values": [1]})), ".matchExpressions[1].values"),
        (expression(json!({"key": "k", "operator": "Exists", "values": ["v"]})), ".matchExpressions[1].values"),
        (expression(json!({"key": "k"})), ".matchExpressions[1].operator"),
    ];
    for (selector, path) in cases {
        let findings = try_pool("p", selector.clone()).expect_err(&selector.to_string());
        assert_eq!(places(one(&findings)), [format!("p {below}{path}")], "{selector}");
    }
}

#[test]
fn two_inputs_of_one_name_are_refused_whatever_their_roles() {
    let twice = [mc("a", json!({})), mc("a", json!({"fips": true}))];
    assert_eq!(one(&refused(&worker(), &twice)).code, "duplicate-name");
    let roles = [mc("a", json!({})), mc("b", json!({})), mc_of("infra", "a", json!({}))];
    let findings = refused(&infra(), &roles);
    assert_eq!(one(&findings).code, "duplicate-name");
    assert_eq!(places(&findings[0]), ["a metadata.name"]);
    // The worker pool sees only one of them.
    assert_eq!(rendered(&worker(), &roles).inputs, ["a", "b"]);
}

#[test]
fn what_no_pool_selects_is_reported_unless_a_pool_may_have_been_meant_to_select_it() {
    let manifests = [mc("a", json!({})), mc_of("worke", "b", json!({})), mc_of("x", "rendered-worker-1", json!({}))];
    let sources = read(&manifests);
    let found = unselected(&sources, &[worker()], &[]);
    assert_eq!((one(&found).code, places(one(&found))), ("not-selected", vec!["b metadata.labels".to_owned()]));
    assert!(one(&found).message.contains("did you mean \"worker\"?"), "{found:?}");
    let broken = try_pool("p", json!("role=worker")).unwrap_err();
    assert_eq!(unselected(&sources, &[worker()], &broken), []);
    assert_eq!(unselected(&sources, &[worker(), pool("p", json!({}))], &[]), []);
}

#[test]
fn a_pool_name_leaves_room_for_the_rendered_name() {
    let longest = "p".repeat(211);
    let selector = json!({"matchLabels": {keys::ROLE: "worker"}});
    let outcome = rendered(&pool(&longest, selector.clone()), &[mc("a", json!({}))]);
    assert_eq!(outcome.name.len(), 253);
    let findings = try_pool(&"p".repeat(212), selector).unwrap_err();
    let finding = one(&findings);
    assert_eq!(finding.places[0].path, "metadata.name");
    assert!(finding.message.contains("212 characters") && finding.message.contains("211"), "{finding}");
}
