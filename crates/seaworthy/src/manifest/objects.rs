//! The objects of manifests, one by one: documents and the items of lists.

use std::cell::Cell;
use std::rc::Rc;

use seaworthy_api::machineconfiguration::GROUP;
use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::path::Path;
use seaworthy_ignition::spelling;
use seaworthy_manifest::{EntryPart, FileLocation, ManifestText, is_object, parallel};
use seaworthy_render::kinds;
use seaworthy_values::api_version::group_and_version;
use seaworthy_values::list;

use crate::failure::Failure;
use crate::terminal;

/// Finding a line costs a pass over its text; after this many bytes only files are named.
pub const MAX_LOCATE_BYTES: usize = 512 * 1024 * 1024;

/// Of many texts without objects this many are listed.
const MAX_LISTED_TEXTS: usize = 5;

/// An object of a manifest.
pub struct Object<'t> {
    pub node: Node<'t>,
    /// Its own kind, or the item kind of the list that it is in.
    pub kind: String,
    /// Its own apiVersion, or that of the typed list that it is in; empty if neither has one.
    pub api_version: String,
    pub location: ObjectLocation<'t>,
}

impl Object<'_> {
    pub fn name(&self) -> &str {
        self.node.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default()
    }

    /// Whether its kind is one of the group of MachineConfigs, in whatever version.
    pub fn is_of_our_group(&self) -> bool {
        group_and_version(&self.api_version).0 == GROUP
    }

    /// An error message about a kind that our group does not have and that resembles one that it has.
    pub fn misspelt_kind(&self) -> Option<String> {
        let kind = self.kind.as_str();
        if !self.is_of_our_group() || kinds::ALL.contains(&kind) {
            return None;
        }
        let near = spelling::nearest(kind, kinds::ALL)?;
        let named = named(self.name());
        Some(format!("an object{named}: unknown kind {kind:?} in {GROUP}; did you mean {near:?}?"))
    }
}

/// Where an object is: text, document, and path within it.
#[derive(Clone)]
pub struct ObjectLocation<'t> {
    text: &'t ManifestText,
    nth: usize,
    path: Path,
    /// How many bytes may still be passed over to find lines.
    budget: Rc<Cell<usize>>,
}

impl<'t> ObjectLocation<'t> {
    /// The file of a field of the object, and its line and column if they can be determined.
    pub fn file(&self, path: &Path, part: EntryPart) -> FileLocation<'t> {
        let position = self.text.locate(self.nth, &self.path.clone().join(path), part, &self.budget);
        FileLocation { file: &self.text.name, position }
    }

    /// An error message about the object as a whole.
    pub fn error(&self, message: &str) -> String {
        self.error_at_path(&Path::default(), message)
    }

    /// An error message about a key of the object.
    pub fn error_at_key(&self, key: &str, message: &str) -> String {
        self.error_at_path(&Path::default().key(key), message)
    }

    /// An error message about a field of the object.
    pub fn error_at_path(&self, path: &Path, message: &str) -> String {
        self.text.error_at(self.nth, &self.path.clone().join(path), &self.budget, message)
    }

    /// The location of an item of this list.
    fn item(&self, index: usize) -> ObjectLocation<'t> {
        ObjectLocation { path: self.path.clone().key("items").index(index), ..self.clone() }
    }
}

/// What is done with an object. The errors are messages with their location.
pub type Take<'f, 't> = dyn FnMut(Object<'t>) -> Result<(), Vec<String>> + 'f;

/// Passes every object of all texts to `take`, items of lists one by one, and returns the number of documents: every value has
/// the number of its document in its origin.
///
/// Errors are reported together, not the first only. Texts without objects are named in a note, because their author may expect
/// otherwise.
pub fn each<'t>(texts: &'t [ManifestText], take: &mut Take<'_, 't>) -> Result<u32, Failure> {
    let budget = Rc::new(Cell::new(MAX_LOCATE_BYTES));
    let mut errors = Vec::new();
    let mut empty: Vec<&str> = Vec::new();
    let mut count = 0_u32;
    for (text, documents) in texts.iter().zip(parallel::map(texts.iter(), 1, ManifestText::documents)) {
        match documents {
            Err(error) => errors.push(error),
            Ok(documents) => {
                if documents.is_empty() {
                    empty.push(text.name.as_str());
                }
                for (nth, mut document) in documents {
                    let location = ObjectLocation { text, nth, path: Path::default(), budget: Rc::clone(&budget) };
                    if !is_object(&document) {
                        let found = document.describe();
                        let message = format!("found {found}; a manifest is an object with apiVersion and kind");
                        errors.push(location.error(&message));
                        continue;
                    }
                    document.number(count);
                    count = count.saturating_add(1);
                    one(document, None, location, &mut errors, take);
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(Failure::all_invalid(errors));
    }
    if !empty.is_empty() {
        terminal::note(&format!("no objects in {}", list::listed(empty, MAX_LISTED_TEXTS)));
    }
    Ok(count)
}

/// The kind and the apiVersion that the items of a typed list need not repeat.
#[derive(Clone, Copy, Default)]
struct ItemType<'l> {
    kind: &'l str,
    api_version: &'l str,
}

fn one<'t>(
    node: Node<'t>,
    item_type: Option<ItemType<'_>>,
    location: ObjectLocation<'t>,
    errors: &mut Vec<String>,
    take: &mut Take<'_, 't>,
) {
    let item_type = item_type.unwrap_or_default();
    let own_kind = node.get("kind").filter(|kind| !kind.is_null());
    let kind = own_kind.map_or(item_type.kind, |kind| kind.as_str().unwrap_or_default()).to_owned();
    if kind.is_empty() {
        errors.push(location.error_at_key("kind", &without_kind(&node)));
        return;
    }
    let own_version = node.text_of("apiVersion");
    let api_version = if own_version.is_empty() { item_type.api_version } else { own_version }.to_owned();
    let Some(item_kind) = kind.strip_suffix("List").filter(|_| node.get("items").is_some()) else {
        if let Err(wrong) = take(Object { node, kind, api_version, location }) {
            errors.extend(wrong);
        }
        return;
    };
    let Value::Map(mut map) = node.value else { return };
    let items = match map.remove("items") {
        Some(Node { value: Value::List(items), .. }) => items,
        Some(other) if !other.is_null() => {
            let message = format!("items of a {kind} is {}; expected a list of objects", other.describe());
            errors.push(location.error_at_key("items", &message));
            return;
        }
        _ => return,
    };
    // The items of a plain List have a kind and an apiVersion of their own.
    let item_type = (!item_kind.is_empty()).then_some(ItemType { kind: item_kind, api_version: &api_version });
    for (index, item) in items.into_iter().enumerate() {
        let location = location.item(index);
        if is_object(&item) {
            one(item, item_type, location, errors, take);
        } else {
            let message = format!("an item of a {kind} is {}; expected an object", item.describe());
            errors.push(location.error(&message));
        }
    }
}

/// The error message about an object without a kind.
fn without_kind(object: &Node<'_>) -> String {
    let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default();
    let found = match object.get("kind").filter(|kind| !kind.is_null()) {
        Some(kind) => format!("the kind is {}", kind.describe()),
        None => "it has no kind".to_owned(),
    };
    let misspelt = object
        .as_map()
        .and_then(|map| map.iter().map(|(key, _)| key).find(|key| spelling::nearest(key, ["kind"]).is_some()));
    let hint = if let Some(misspelt) = misspelt.filter(|key| *key != "kind") {
        &format!("; did you mean \"kind\" where it says {misspelt:?}?")
    } else if object.get("ignition").is_some() {
        "; put an Ignition config into spec.config of a MachineConfig, or check it with `seaworthy ignition \
         validate`"
    } else if object.get("variant").is_some() {
        "; convert a Butane config to a manifest with `butane` first"
    } else {
        ""
    };
    format!("an object{}: {found}; manifests need apiVersion and kind{hint}", named(name))
}

/// A name in quotes behind a space, if there is one.
pub(super) fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" {name:?}") }
}
