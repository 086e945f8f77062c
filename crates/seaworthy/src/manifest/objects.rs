//! The objects of manifests, one by one: documents and the items of lists.

use std::cell::Cell;
use std::rc::Rc;

use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::path::Path;
use seaworthy_manifest::{EntryPart, FileLocation, ManifestText, is_object};

use super::manifest_set::{MAX_LOCATE_BYTES, note_empty};

/// An object of a manifest.
#[derive(Clone, Copy)]
pub struct Object<'o, 't> {
    pub node: &'o Node<'t>,
    /// Its own kind, or the item kind of the list that it is in.
    pub kind: &'o str,
    /// The apiVersion of the list that it is an item of, whose items need not repeat it.
    pub list_version: Option<&'o str>,
    pub location: &'o ObjectLocation<'t>,
}

/// Where an object is: text, document, and path within it.
#[derive(Clone)]
pub struct ObjectLocation<'t> {
    text: &'t ManifestText,
    nth: usize,
    path: Path,
    budget: Rc<Cell<usize>>,
}

impl<'t> ObjectLocation<'t> {
    /// The file of a field of the object, and its line and column if they can be determined.
    pub fn file(&self, path: &Path, part: EntryPart) -> FileLocation<'t> {
        let position = self.text.locate(self.nth, &self.path.clone().join(path), part, &self.budget);
        FileLocation { file: &self.text.name, position }
    }

    /// An error message about a key of the object.
    pub fn error_at_key(&self, key: &str, message: &str) -> String {
        self.error_at_path(&if key.is_empty() { Path::default() } else { Path::default().key(key) }, message)
    }

    /// An error message about a field of the object.
    pub fn error_at_path(&self, path: &Path, message: &str) -> String {
        self.text.error_at(self.nth, &self.path.clone().join(path), &self.budget, message)
    }
}

/// Passes every object of all texts to `take`, items of lists one by one. Everything that is not an object is an error, not
/// only the first. Texts without objects are named in a note, because their author may expect otherwise.
pub fn each<'t>(texts: &'t [ManifestText], errors: &mut Vec<String>, take: &mut dyn FnMut(Object<'_, 't>)) {
    let budget = Rc::new(Cell::new(MAX_LOCATE_BYTES));
    let mut empty: Vec<&str> = Vec::new();
    for text in texts {
        match text.documents() {
            Err(error) => errors.push(error),
            Ok(documents) => {
                if documents.is_empty() {
                    empty.push(text.name.as_str());
                }
                for (nth, document) in &documents {
                    let location =
                        ObjectLocation { text, nth: *nth, path: Path::default(), budget: Rc::clone(&budget) };
                    one(document, None, &location, errors, take);
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
    location: &ObjectLocation<'t>,
    errors: &mut Vec<String>,
    take: &mut dyn FnMut(Object<'_, 't>),
) {
    if !is_object(node) {
        let message = format!("found {}; a manifest is an object with apiVersion and kind", node.describe());
        errors.push(location.error_at_key("", &message));
        return;
    }
    let kind = match (node.text_of("kind"), list) {
        ("", Some((kind, _))) => kind,
        (kind, _) => kind,
    };
    if kind.is_empty() {
        errors.push(location.error_at_key("kind", "an object without a kind; manifests need apiVersion and kind"));
        return;
    }
    let Some((item_kind, items)) = kind.strip_suffix("List").zip(node.get("items")) else {
        take(Object { node, kind, list_version: list.map(|(_, version)| version), location });
        return;
    };
    let items = match &items.value {
        Value::List(items) => items.as_slice(),
        Value::Null => &[],
        _ => {
            let message = format!("items of a {kind} is {}; expected a list of objects", items.describe());
            errors.push(location.error_at_key("items", &message));
            return;
        }
    };
    // The items of a plain List have a kind and apiVersion of their own.
    let list = (!item_kind.is_empty()).then(|| (item_kind, node.text_of("apiVersion")));
    for (index, item) in items.iter().enumerate() {
        let path = location.path.clone().key("items").index(index);
        one(item, list, &ObjectLocation { path, ..location.clone() }, errors, take);
    }
}
