//! Every value of a result has a history, and the history is true.

use proptest::prelude::*;
use seaworthy_ignition::data_url;
use serde_json::{Value, json};

use crate::props::lookup;
use crate::props::manifests::{Manifests, content, machine_configs, server};
use crate::support::*;

/// The values of a result that are neither lists nor objects, in order.
fn leaves<'v>(value: &'v Value, all: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => map.values().for_each(|child| leaves(child, all)),
        Value::Array(list) => list.iter().for_each(|child| leaves(child, all)),
        leaf => all.push(leaf),
    }
}

/// Whether a value is the default of a field that an entry does not set.
fn is_filled_in(line: &Line, holder: &Value) -> bool {
    let is_silent = |key: &str| holder.get(key).is_none_or(Value::is_null);
    match line.field.as_str() {
        "overwrite" => is_silent("overwrite") && line.value == true,
        "mode" => is_silent("mode") && line.value == 0,
        "user.id" => is_silent("user") && line.value == 0,
        "group.id" => is_silent("group") && line.value == 0,
        // A body of spec 2.x without a source has the empty one.
        "contents.source" => line.value == "",
        field => field.starts_with("append[") && field.ends_with("].source") && line.value == "",
    }
}

/// Whether the value at a location became the value of a result.
fn became(found: &Value, line: &Line) -> bool {
    if *found == line.value {
        return true;
    }
    if line.subject == "ignition.version" {
        return line.value == "3.5.0" && found.is_string();
    }
    // A file of spec 2.x that appends does not overwrite.
    if line.field == "overwrite" && *found == true {
        return line.value == false && line.set_by.as_ref().unwrap().path.ends_with(".append");
    }
    // A body that was fetched.
    let fetched = found.as_str().and_then(content);
    fetched.is_some_and(|bytes| data_url::decode(line.value.as_str().unwrap()).unwrap().as_ref() == bytes)
}

/// Values that rendering itself sets.
fn is_made(line: &Line) -> bool {
    match line.subject.as_str() {
        "fips" => line.value == false,
        "kernelType" => line.value == "default",
        "osImageURL" => line.value == BASE,
        "baseOSExtensionsContainerImage" => line.value == "",
        "ignition.version" => line.value == "3.5.0",
        _ => line.field.ends_with("compression") && line.value == "",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_value_has_its_place_and_every_place_has_its_value(Manifests(manifests) in machine_configs(), in_one in any::<bool>()) {
        let list = json!({"items": manifests});
        let sources = if in_one { read_list(&list) } else { read(&manifests) };
        let Ok(outcome) = try_render_sources(&infra(), &sources, &context(), &server).0 else { return Ok(()) };

        let mut expected = Vec::new();
        leaves(&outcome.spec, &mut expected);
        let mut values: Vec<&Value> = outcome.provenance.iter().map(|line| &line.value).collect();
        // The history follows the order of entries, the JSON of this test that of keys.
        let order = |value: &&Value| value.to_string();
        expected.sort_by_key(order);
        values.sort_by_key(order);
        prop_assert_eq!(values, expected, "every value has one line");

        for line in &outcome.provenance {
            match (&line.set_by, &line.default) {
                (None, Some(default)) => {
                    prop_assert!(default.reason != "filled in by rendering", "no reason is known for {:?}", line);
                    match &default.entry {
                        None => prop_assert!(is_made(line), "no field is named for {:?}", line),
                        Some(entry) => {
                            prop_assert!(outcome.inputs.contains(&entry.name));
                            let found = lookup::value(&manifests, entry).unwrap();
                            prop_assert!(is_filled_in(line, &found), "{:?} is the entry of {:?}", found, line);
                        }
                    }
                }
                (Some(place), None) => {
                    prop_assert!(outcome.inputs.contains(&place.name));
                    let found = lookup::value(&manifests, place);
                    prop_assert!(found.is_some(), "nothing at the location of {:?}", line);
                    prop_assert!(became(&found.clone().unwrap(), line), "{:?} at the location of {:?}", found, line);
                }
                _ => prop_assert!(false, "either a field or a reason, not both or neither: {:?}", line),
            }
            for place in &line.also {
                let also = Line { set_by: Some(place.clone()), ..line.clone() };
                let found = lookup::value(&manifests, place).unwrap();
                // Another entry may have as few fields, and mean the same.
                let is_same = became(&found, &also) || is_filled_in(line, &found);
                prop_assert!(is_same, "{:?} is not the same as {:?}", found, line);
            }
            for (place, value) in &line.overrode {
                let found = lookup::value(&manifests, place);
                match value {
                    Some(value) => prop_assert_eq!(found.as_ref(), Some(value), "overridden by {:?}", line),
                    None => prop_assert!(found.is_some_and(|found| found.is_object()), "overridden by {:?}", line),
                }
                prop_assert!(Some(place) != line.set_by.as_ref(), "{:?} overrode itself", line);
            }
        }
    }

    #[test]
    fn overridden_origins_of_a_file_are_remembered(Manifests(manifests) in machine_configs()) {
        let Ok(outcome) = try_render_with(&infra(), &manifests, &context(), &server).0 else { return Ok(()) };
        // Modes are a field that only merging touches: an input whose mode is not the result's must be among the
        // overridden ones.
        for name in &outcome.inputs {
            let manifest = manifests.iter().find(|manifest| manifest["metadata"]["name"] == name.as_str()).unwrap();
            let config = &manifest["spec"]["config"];
            if !config["ignition"]["version"].as_str().is_some_and(|version| version.starts_with('3')) {
                continue;
            }
            for (nth, file) in config["storage"]["files"].as_array().into_iter().flatten().enumerate() {
                let (Some(path), Some(mode)) = (file["path"].as_str(), file.get("mode")) else { continue };
                let subject = format!("file {path}");
                let Some(line) = outcome.provenance.iter().find(|line| line.subject == subject && line.field == "mode")
                else { continue };
                let here = format!("spec.config.storage.files[{nth}].mode");
                let is_here = |place: &seaworthy_render::FieldLocation| {
                    place.name == *name && place.path == here && place.remote.is_none()
                };
                let known = line.set_by.iter().any(is_here)
                    || line.also.iter().any(is_here)
                    || line.overrode.iter().any(|(place, _)| is_here(place));
                // An entry of another kind in between wipes the slate: then the whole entry was taken out.
                let taken_out = outcome.line(&subject, "path").overrode.iter().any(|(_, value)| value.is_none());
                prop_assert!(known || taken_out, "{name} {here} ({mode}) is forgotten in {line:?}");
            }
        }
    }
}

#[test]
fn a_default_names_its_reason_and_the_entry_that_is_silent() {
    let old = files(json!([{"path": "/a", "filesystem": "root", "contents": {"source": "data:,x"}}]));
    let manifests = [
        ign("00", files(json!([{"path": "/a", "mode": 420, "contents": {"source": "data:,y"}}]))),
        mc("01", json!({"config": with_version("2.1.0", old)})),
    ];
    let outcome = rendered(&worker(), &manifests);
    let mode = outcome.line("file /a", "mode");
    assert_eq!((&mode.set_by, &mode.value), (&None, &json!(0)));
    let default = mode.default.as_ref().unwrap();
    assert!(default.reason.contains("2.2"), "{default:?}");
    assert_eq!(default.entry.as_ref().map(place).as_deref(), Some("01 spec.config.storage.files[0]"));
    assert_eq!(mode.overrode.len(), 1, "a default overrides too: {mode:?}");
    let kernel = outcome.line("kernelType", "").default.as_ref().unwrap();
    assert!(kernel.entry.is_none() && kernel.reason.contains("kernel"), "{kernel:?}");
    assert_eq!(outcome.line("file /a", "contents.source").default, None);
}
