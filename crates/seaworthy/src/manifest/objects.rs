//! The objects of manifests, one by one: documents and the items of lists.

use std::cell::Cell;
use std::rc::Rc;

use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::path::Path;

use super::document::{Part, Text, is_object};
use super::file_place::FilePlace;
use super::set::{LOCATE_BUDGET, note_empty};

/// An object of a manifest.
#[derive(Clone, Copy)]
pub struct Object<'o, 't> {
    /// The object.
    pub node: &'o Node<'t>,
    /// Its kind: what it says, or what the list says that it is an item of.
    pub kind: &'o str,
    /// The apiVersion of the list that it is an item of, whose items need not repeat it.
    pub list_version: Option<&'o str>,
    /// Where it stands.
    pub place: &'o Place<'t>,
}

/// Where an object stands.
#[derive(Clone)]
pub struct Place<'t> {
    text: &'t Text,
    nth: usize,
    path: Path,
    budget: Rc<Cell<usize>>,
}

impl<'t> Place<'t> {
    /// The file, and the line in it as far as it can be told, of a place in the object.
    pub fn file(&self, path: &Path, part: Part) -> FilePlace<'t> {
        let position = self.text.locate(self.nth, &self.path.clone().join(path), part, &self.budget);
        FilePlace { file: &self.text.name, position }
    }

    /// A complaint about a key of the object.
    pub fn complaint(&self, key: &str, message: &str) -> String {
        self.complaint_at(&if key.is_empty() { Path::default() } else { Path::default().key(key) }, message)
    }

    /// A complaint about a place in the object.
    pub fn complaint_at(&self, path: &Path, message: &str) -> String {
        self.text.complaint(self.nth, &self.path.clone().join(path), &self.budget, message)
    }
}

/// Hands out the objects of all texts, lists taken apart. Everything that is no object is an error, not the first only. Of
/// texts with nothing in them somebody may expect more, so they are named.
pub fn each<'t>(texts: &'t [Text], errors: &mut Vec<String>, take: &mut dyn FnMut(Object<'_, 't>)) {
    let budget = Rc::new(Cell::new(LOCATE_BUDGET));
    let mut empty: Vec<&str> = Vec::new();
    for text in texts {
        match text.documents() {
            Err(error) => errors.push(error),
            Ok(documents) => {
                if documents.is_empty() {
                    empty.push(text.name.as_str());
                }
                for (nth, document) in &documents {
                    let place = Place { text, nth: *nth, path: Path::default(), budget: Rc::clone(&budget) };
                    one(document, None, &place, errors, take);
                }
            }
        }
    }
    if errors.is_empty() {
        note_empty(&empty);
    }
}

fn one<'t>(
    node: &Node<'t>,
    list: Option<(&str, &str)>,
    place: &Place<'t>,
    errors: &mut Vec<String>,
    take: &mut dyn FnMut(Object<'_, 't>),
) {
    if !is_object(node) {
        let message = format!("found {}; a manifest is an object with apiVersion and kind", node.describe());
        errors.push(place.complaint("", &message));
        return;
    }
    let kind = match (node.text_of("kind"), list) {
        ("", Some((kind, _))) => kind,
        (kind, _) => kind,
    };
    if kind.is_empty() {
        errors.push(place.complaint("kind", "an object without a kind; manifests need apiVersion and kind"));
        return;
    }
    let Some((item_kind, items)) = kind.strip_suffix("List").zip(node.get("items")) else {
        take(Object { node, kind, list_version: list.map(|(_, version)| version), place });
        return;
    };
    let items = match &items.value {
        Value::List(items) => items.as_slice(),
        Value::Null => &[],
        _ => {
            let message = format!("items of a {kind} is {}; expected a list of objects", items.describe());
            errors.push(place.complaint("items", &message));
            return;
        }
    };
    // The items of a plain List speak for themselves.
    let list = (!item_kind.is_empty()).then(|| (item_kind, node.text_of("apiVersion")));
    for (index, item) in items.iter().enumerate() {
        let path = place.path.clone().key("items").index(index);
        one(item, list, &Place { path, ..place.clone() }, errors, take);
    }
}
