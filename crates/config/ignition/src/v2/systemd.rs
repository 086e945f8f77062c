//! Up-conversion of units from spec 2.x to spec 3.0.

use std::collections::{HashMap, HashSet};

use super::unset_zeroes;
use super::up::UpConversion;
use crate::node::{Node, quote};
use crate::problem::PathRef;

impl<'t> UpConversion<'_> {
    pub(super) fn systemd(&mut self, mut section: Node<'t>) -> Node<'t> {
        let Some(units) = section.take("units") else {
            return section;
        };
        let origin = units.origin;
        let mut out: Vec<Node<'t>> = Vec::new();
        // The position of a unit, and, as soon as an earlier one gives some, the drop-ins that it has.
        let mut places: HashMap<String, (usize, Option<HashSet<String>>)> = HashMap::new();
        // From the end: the last unit of a name stays, earlier ones give the drop-ins that it lacks.
        for (index, mut unit) in units.into_list().into_iter().enumerate().rev() {
            let name = unit.text_of("name").to_owned();
            let Some((at, known)) = places.get_mut(&name) else {
                places.insert(name, (out.len(), None));
                out.push(unit);
                continue;
            };
            let lost: Vec<_> =
                ["contents", "enable", "enabled", "mask"].into_iter().filter(|key| unit.get(key).is_some()).collect();
            if !lost.is_empty() {
                let message =
                    format!("unit {} is defined again below: {} of this one is dropped", quote(&name), lost.join(", "));
                let place = PathRef::ROOT.key("systemd");
                self.report.warn(&place.key("units").index(index), &unit, "v2-dropped", message);
            }
            let Some(dropins) = unit.take("dropins") else {
                continue;
            };
            let Some(kept) = out[*at].as_map_mut() else {
                continue;
            };
            let mut all = kept.remove("dropins").map(Node::into_list).unwrap_or_default();
            let known =
                known.get_or_insert_with(|| all.iter().map(|dropin| dropin.text_of("name").to_owned()).collect());
            let dropins_origin = dropins.origin;
            for dropin in dropins.into_list() {
                if known.insert(dropin.text_of("name").to_owned()) {
                    all.push(dropin);
                }
            }
            kept.set("dropins", Node::list_at(all, dropins_origin));
        }
        for unit in &mut out {
            enabled(unit);
            unset_zeroes(unit, &["mask", "contents"]);
            unit.list_of_mut("dropins").iter_mut().for_each(|dropin| unset_zeroes(dropin, &["contents"]));
        }
        section.set("units", Node::list_at(out, origin));
        section
    }
}

/// `enabled` beats the older `enable`.
fn enabled(unit: &mut Node<'_>) {
    let Some(map) = unit.as_map_mut() else { return };
    let enable = map.remove("enable").filter(|enable| enable.as_bool() == Some(true));
    if let (Some(enable), None) = (enable, map.get("enabled")) {
        map.set("enabled", enable);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::node::Node;
    use crate::parse::parse;

    #[test]
    fn earlier_copies_of_a_unit_give_the_drop_ins_that_it_lacks() {
        let unit = |dropins: &[(&str, &str)]| {
            let dropins: Vec<_> = dropins
                .iter()
                .map(|(name, text)| json!({"name": name, "contents": format!("[S]\n{text}=\n")}))
                .collect();
            json!({"name": "a.service", "dropins": dropins})
        };
        let units = json!([
            unit(&[("1.conf", "A"), ("3.conf", "A")]),
            unit(&[("2.conf", "B"), ("1.conf", "B")]),
            unit(&[("2.conf", "C")])
        ]);
        let config = json!({"ignition": {"version": "2.2.0"}, "systemd": {"units": units}});
        let node = Node::from_json(&config);
        let parsed = parse(&node).unwrap().config.to_json();
        let expected = json!([unit(&[("2.conf", "C"), ("1.conf", "B"), ("3.conf", "A")])]);
        assert_eq!(parsed["systemd"]["units"], expected);
    }

    /// Takes many minutes as soon as the drop-ins that are known are gathered again for each copy.
    #[test]
    fn many_copies_of_a_unit_are_joined_in_one_go() {
        let units: Vec<_> =
            (0..20_000).map(|at| json!({"name": "a.service", "dropins": [{"name": format!("{at}.conf")}]})).collect();
        let config = json!({"ignition": {"version": "2.2.0"}, "systemd": {"units": units}});
        let node = Node::from_json(&config);
        let parsed = parse(&node).unwrap().config;
        let units = parsed.dig(&["systemd", "units"]).unwrap().as_list().unwrap();
        assert_eq!(units.len(), 1);
        assert_eq!(units[0].list_of("dropins").len(), 20_000);
    }
}
