//! Rendering is a function of its inputs: what a result depends on, and what not.

use proptest::prelude::*;
use seaworthy_render::{Finding, keys};
use serde_json::{Value, json};

use crate::props::lookup;
use crate::props::manifests::{Manifests, machine_configs, server};
use crate::support::*;

fn outcome(pool: &seaworthy_render::Pool, manifests: &[Value]) -> Result<Outcome, Vec<Finding>> {
    try_render_with(pool, manifests, &context(), &server).0
}

proptest! {
    #[test]
    fn the_order_of_the_inputs_does_not_matter(
        (manifests, shuffled) in machine_configs().prop_flat_map(|Manifests(all)| {
            (Just(all.clone()).prop_map(Manifests), Just(all).prop_shuffle().prop_map(Manifests))
        }),
    ) {
        for pool in [worker(), infra()] {
            prop_assert_eq!(outcome(&pool, &manifests.0), outcome(&pool, &shuffled.0));
        }
    }

    #[test]
    fn inputs_in_one_document_render_as_in_documents_of_their_own(Manifests(manifests) in machine_configs()) {
        let list = json!({"kind": "List", "items": manifests});
        let together = try_render_sources(&infra(), &read_list(&list), &context(), &server).0;
        prop_assert_eq!(outcome(&infra(), &manifests), together);
    }

    #[test]
    fn the_same_inputs_in_two_pools_have_the_same_digest(Manifests(manifests) in machine_configs()) {
        let selector = json!({"matchExpressions": [{"key": keys::ROLE, "operator": "Exists"}]});
        let both = ["one", "another"].map(|name| outcome(&pool(name, selector.clone()), &manifests));
        match both {
            [Ok(one), Ok(another)] => {
                prop_assert_eq!(one.digest(), another.digest());
                prop_assert_eq!(&one.spec, &another.spec);
                prop_assert_eq!(&one.provenance, &another.provenance);
                prop_assert_ne!(one.name, another.name);
            }
            [Err(one), Err(another)] => prop_assert_eq!(one.len(), another.len()),
            both => prop_assert!(false, "{:?}", both),
        }
    }

    #[test]
    fn an_empty_input_changes_nothing(
        Manifests(manifests) in machine_configs(),
        nothing in prop_oneof![
            Just(json!({})),
            Just(Value::Null),
            Just(json!({"config": null, "kernelArguments": [], "extensions": null, "fips": null})),
            Just(json!({"kernelType": "", "osImageURL": "", "baseOSExtensionsContainerImage": ""})),
        ],
    ) {
        let mut more = manifests.clone();
        // The last one: `row_75` shows what an input without a config does in front of the others.
        more.push(mc_of("infra", "zzz-nothing", nothing));
        match (outcome(&infra(), &manifests), outcome(&infra(), &more)) {
            (Ok(before), Ok(mut after)) => {
                prop_assert_eq!(after.inputs.pop(), Some("zzz-nothing".to_owned()));
                prop_assert_eq!(before, after);
            }
            (before, after) => prop_assert_eq!(before.err(), after.err()),
        }
    }

    #[test]
    fn unknown_keys_are_found_and_change_nothing(Manifests(manifests) in machine_configs()) {
        let mut noted = manifests.clone();
        let mut count = 0;
        for manifest in &mut noted {
            manifest["spec"]["xNote"] = json!({"a": [1, null]});
            manifest["metadata"]["xNote"] = json!("ignored by everyone");
            count += 2;
            if manifest["spec"]["config"].is_object() {
                manifest["spec"]["config"]["xNote"] = json!(["storage"]);
                manifest["spec"]["config"]["ignition"]["xNote"] = json!(1.5);
                count += 2;
            }
        }
        match (outcome(&infra(), &manifests), outcome(&infra(), &noted)) {
            (Ok(before), Ok(after)) => {
                prop_assert_eq!(&before.object, &after.object);
                let fresh = after.findings.iter().filter(|finding| {
                    finding.code == "unknown-key" && places(finding)[0].ends_with(".xNote")
                });
                prop_assert_eq!(fresh.count(), count);
                // All other findings are the same.
                let without = |outcome: &Outcome| -> Vec<Finding> {
                    let is_ours = |finding: &&Finding| !places(finding).iter().any(|at| at.ends_with("xNote"));
                    outcome.findings.iter().filter(is_ours).cloned().collect()
                };
                prop_assert_eq!(without(&before), without(&after));
            }
            (before, after) => prop_assert_eq!(before.err(), after.err()),
        }
    }

    #[test]
    fn nothing_remote_is_left_in_a_result(Manifests(manifests) in machine_configs()) {
        if let Ok(outcome) = outcome(&infra(), &manifests) {
            let text = outcome.spec.to_string();
            prop_assert!(!text.contains("http:") && !text.contains("https:"), "{}", text);
            prop_assert!(outcome.config()["ignition"].get("config").is_none());
            prop_assert_eq!(outcome.annotations.contains_key(keys::REMOTE_CONTENT), !outcome.embedded.is_empty());
        }
    }

    #[test]
    fn a_result_is_an_input_that_renders_to_itself(Manifests(manifests) in machine_configs()) {
        if let Ok(before) = outcome(&infra(), &manifests) {
            let mut spec = before.spec.clone();
            // The kernel and the images of a result are all set; that they were chosen is the only difference.
            if spec["osImageURL"] == BASE {
                spec.as_object_mut().unwrap().remove("osImageURL");
            }
            let again = rendered(&worker(), &[mc("again", spec)]);
            prop_assert_eq!(before.digest(), again.digest());
        }
    }

    #[test]
    fn findings_of_a_result_are_no_errors_and_name_inputs_and_places(Manifests(manifests) in machine_configs()) {
        if let Ok(outcome) = outcome(&infra(), &manifests) {
            for finding in &outcome.findings {
                prop_assert!(!finding.is_error(), "{}", finding);
                for place in &finding.places {
                    prop_assert!(outcome.inputs.contains(&place.name), "{}", finding);
                    prop_assert!(lookup::value(&manifests, place).is_some(), "{}", finding);
                }
            }
        }
    }
}

/// Something else in the place of a value.
fn surprise() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(99_999)),
        Just(json!(0.5)),
        Just(json!("")),
        Just(json!("relative")),
        Just(json!("ftp://h/x")),
        Just(json!("https://h/missing")),
        Just(json!([])),
        Just(json!([null, 1, "a", {}])),
        Just(json!({})),
        Just(json!({"source": 1, "path": []})),
    ]
}

/// Every place in a value, as steps that lead there.
fn places_in(value: &Value, here: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    all.push(here.clone());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(nth, child)| (nth.to_string(), child)).collect(),
        _ => return,
    };
    for (key, child) in children {
        here.push(key);
        places_in(child, here, all);
        here.pop();
    }
}

/// Puts something else at a place, or takes it away.
fn broken(manifest: &Value, nth: prop::sample::Index, surprise: Option<Value>) -> Value {
    let mut manifest = manifest.clone();
    let mut all = Vec::new();
    places_in(&manifest["spec"], &mut Vec::new(), &mut all);
    let path = &all[nth.index(all.len())];
    let pointer: String = path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect();
    match (surprise, path.split_last()) {
        (Some(surprise), _) => *manifest["spec"].pointer_mut(&pointer).unwrap() = surprise,
        (None, Some((last, _))) => {
            let parent = &pointer[..pointer.rfind('/').unwrap()];
            match manifest["spec"].pointer_mut(parent).unwrap() {
                Value::Object(map) => drop(map.remove(last)),
                Value::Array(list) => drop(list.remove(last.parse().unwrap())),
                _ => {}
            }
        }
        (None, None) => manifest["spec"] = Value::Null,
    }
    manifest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn errors_name_an_input_and_a_place_in_it(
        Manifests(manifests) in machine_configs(),
        breaks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(),
            proptest::option::weighted(0.8, surprise())), 1..4),
    ) {
        let mut manifests = manifests;
        for (which, at, surprise) in breaks {
            let which = which.index(manifests.len());
            manifests[which] = broken(&manifests[which], at, surprise);
        }
        let pool = pool("p", json!({"matchExpressions": [{"key": keys::ROLE, "operator": "Exists"}]}));
        if let Err(findings) = outcome(&pool, &manifests) {
            prop_assert!(!findings.is_empty());
            for finding in &findings {
                prop_assert!(finding.is_error(), "{}", finding);
                prop_assert_eq!(finding.pool.as_deref(), Some("p"));
                prop_assert!(!finding.places.is_empty(), "{}", finding);
                prop_assert!(!finding.message.is_empty());
                for place in finding.places.iter().filter(|place| place.remote.is_none()) {
                    prop_assert_eq!(place.kind, "MachineConfig");
                    let manifest = manifests.iter().find(|manifest| manifest["metadata"]["name"] == place.name.as_str());
                    prop_assert!(manifest.is_some(), "{}", finding);
                    // A version that is missing together with its section is named all the same.
                    let is_version = place.path == "spec.config.ignition.version";
                    prop_assert!(
                        is_version || lookup::is_there_or_its_parent_is(manifest.unwrap(), &place.path),
                        "{}\n{}", finding, manifest.unwrap()
                    );
                    prop_assert!(finding.to_string().contains(&place.name));
                }
            }
        }
    }
}
