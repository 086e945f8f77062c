//! Units of spec 2.x on the way to spec 3.0.

use std::collections::{HashMap, HashSet};

use super::unset_zeroes;
use super::up::Up;
use crate::node::{Node, quote};
use crate::problem::Place;

impl<'t> Up<'_> {
    pub(super) fn systemd(&mut self, mut section: Node<'t>) -> Node<'t> {
        let Some(units) = section.take("units") else {
            return section;
        };
        let origin = units.origin;
        let mut out: Vec<Node<'t>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        // From the end: the last unit of a name stays, earlier ones give the drop-ins that it lacks.
        for (index, mut unit) in units.into_list().into_iter().enumerate().rev() {
            let name = unit.text_of("name").to_owned();
            let Some(at) = places.get(&name) else {
                places.insert(name, out.len());
                out.push(unit);
                continue;
            };
            let lost: Vec<_> =
                ["contents", "enable", "enabled", "mask"].into_iter().filter(|key| unit.get(key).is_some()).collect();
            if !lost.is_empty() {
                let message =
                    format!("unit {} is given again below: {} of this one is dropped", quote(&name), lost.join(", "));
                let place = Place::ROOT.key("systemd");
                self.report.warn(&place.key("units").index(index), &unit, "v2-dropped", message);
            }
            let Some(dropins) = unit.take("dropins") else {
                continue;
            };
            let Some(kept) = out[*at].as_map_mut() else {
                continue;
            };
            let mut all = kept.remove("dropins").map(Node::into_list).unwrap_or_default();
            let known: HashSet<String> = all.iter().map(|dropin| dropin.text_of("name").to_owned()).collect();
            let dropins_origin = dropins.origin;
            // Two of one name in the earlier unit both count as new only once.
            let mut added = HashSet::new();
            for dropin in dropins.into_list() {
                let name = dropin.text_of("name").to_owned();
                if !known.contains(&name) && added.insert(name) {
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
