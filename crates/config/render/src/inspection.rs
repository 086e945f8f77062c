//! Inspection of manifests: type errors, and keys that are ignored.

use seaworthy_ignition::node::{Map, Node, Value};
use seaworthy_ignition::{Path, Severity, spelling};

use crate::finding::{FieldLocation, Finding};

/// Shown in place of the name of an object that has none.
pub(crate) const NAMELESS: &str = "(without a name)";

/// The keys of an object's metadata.
const METADATA: [&str; 16] = [
    "annotations",
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// What is found out about one manifest.
pub(crate) struct Inspection {
    kind: &'static str,
    name: String,
    /// The code of errors.
    code: &'static str,
    findings: Vec<Finding>,
}

/// Keys that belong into an object.
pub(crate) struct KnownKeys<'k> {
    /// What people call the object.
    pub(crate) noun: &'k str,
    pub(crate) keys: &'k [&'k str],
    /// The keys of objects below it, for those that were indented too little.
    pub(crate) below: &'k [(&'k str, &'k [&'k str])],
}

impl Inspection {
    /// Begins with an object of a kind; errors will have the code.
    pub(crate) fn new(kind: &'static str, code: &'static str, object: &Node<'_>) -> Self {
        Inspection { kind, name: name_of(object).to_owned(), code, findings: Vec::new() }
    }

    /// Everything that was noted.
    pub(crate) fn finish(self) -> Vec<Finding> {
        self.findings
    }

    /// Whether an error was noted.
    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }

    /// Checks what every object has: keys beside `spec`, and the metadata. `fields` are the keys of the spec.
    pub(crate) fn object(&mut self, object: &Node<'_>, fields: &[&str]) {
        let known = KnownKeys {
            noun: self.kind,
            keys: &["apiVersion", "kind", "metadata", "spec", "status"],
            below: &[("spec", fields), ("metadata", &METADATA)],
        };
        self.unknown_keys(object, &Path::default(), &known);
        let path = Path::of(&["metadata"]);
        let Some(metadata) = self.map(object.get("metadata"), &path) else {
            self.error(path.key("name"), format!("a {} needs a name", self.kind));
            return;
        };
        let known = KnownKeys { noun: "metadata section", keys: &METADATA, below: &[] };
        self.unknown_keys(metadata, &path, &known);
        self.check_name(metadata, path.clone().key("name"));
        if metadata.get("namespace").is_some_and(|namespace| !namespace.is_null()) {
            let message = format!("a {} is cluster-scoped; remove the namespace", self.kind);
            self.push(Severity::Info, "namespace", path.clone().key("namespace"), message);
        }
        for map in ["labels", "annotations"] {
            let here = path.clone().key(map);
            let Some(node) = metadata.get(map).filter(|node| !node.is_null()) else { continue };
            match node.as_map() {
                None => self.wrong(here, node, "an object of strings"),
                Some(entries) => {
                    for (key, value) in entries.iter().filter(|(_, value)| value.as_str().is_none()) {
                        self.no_string(here.clone().key(key), value);
                    }
                }
            }
        }
    }

    fn check_name(&mut self, metadata: &Node<'_>, path: Path) {
        match metadata.get("name").filter(|name| !name.is_null()) {
            Some(name) if name.as_str().is_none() => self.no_string(path, name),
            Some(name) if !name.as_str().unwrap_or_default().is_empty() => {
                let text = name.as_str().unwrap_or_default();
                let is_accepted = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
                if text.contains("{{") {
                    let message = format!("{text:?} looks like a template; render it first, and pass the output");
                    self.warn(path, "invalid-name", message);
                } else if !text.chars().all(is_accepted) || text.starts_with(['-', '.']) || text.ends_with(['-', '.']) {
                    let message = format!(
                        "invalid name {}; expected lower-case letters, digits, \"-\" and \".\", the first and last of them a \
                         letter or digit",
                        name.describe().trim_start_matches("the string ")
                    );
                    self.warn(path, "invalid-name", message);
                }
            }
            _ => self.error(path, format!("a {} needs a name", self.kind)),
        }
    }

    /// Warns of keys that are ignored, with what was probably meant.
    pub(crate) fn unknown_keys(&mut self, node: &Node<'_>, path: &Path, known: &KnownKeys<'_>) {
        let unknown = |key: &&str| !known.keys.contains(key);
        for key in node.as_map().into_iter().flat_map(Map::iter).map(|(key, _)| key).filter(unknown) {
            let holder = known.below.iter().find(|(_, keys)| keys.contains(&key)).map(|(holder, _)| *holder);
            let hint = match (holder, spelling::nearest(key, known.keys.iter().copied())) {
                (Some(holder), _) => format!("it belongs below {holder}; move it there"),
                (None, Some(near)) => format!("did you mean {near:?}?"),
                (None, None) if known.noun == "metadata section" && key.contains('/') => {
                    "it belongs below labels or annotations; move it there".to_owned()
                }
                (None, None) if known.noun == "label selector" => {
                    "labels belong below matchLabels; move it there".to_owned()
                }
                // The other dozen keys are written by the cluster alone, so they are no help here.
                (None, None) if known.noun == "metadata section" => "metadata in a manifest has name, labels and \
                                                                     annotations"
                    .to_owned(),
                (None, None) => format!("a {} has {}", known.noun, known.keys.join(", ")),
            };
            self.warn(path.clone().key(key), "unknown-key", format!("unknown key {key:?} is ignored; {hint}"));
        }
    }

    /// An object that may be missing; what is none is an error.
    pub(crate) fn map<'n, 'a>(&mut self, node: Option<&'n Node<'a>>, path: &Path) -> Option<&'n Node<'a>> {
        let node = node.filter(|node| !node.is_null())?;
        if node.as_map().is_none() {
            self.wrong(path.clone(), node, "an object");
            return None;
        }
        Some(node)
    }

    /// A string that may be missing; what is none is an error.
    pub(crate) fn text<'n>(&mut self, object: &'n Node<'_>, keys: &[&str]) -> Option<&'n str> {
        let node = object.dig(keys).filter(|node| !node.is_null())?;
        if node.as_str().is_none() {
            self.no_string(Path::of(keys), node);
        }
        node.as_str()
    }

    /// A value that is no string where one is accepted.
    pub(crate) fn no_string(&mut self, path: Path, node: &Node<'_>) {
        let accepted = match node.value {
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => "a string; quote it",
            Value::Null => "a string; write \"\" for an empty one",
            _ => "a string",
        };
        self.wrong(path, node, accepted);
    }

    /// A value of the wrong type.
    pub(crate) fn wrong(&mut self, path: Path, node: &Node<'_>, accepted: &str) {
        self.error(path, format!("found {}; expected {accepted}", node.describe()));
    }

    /// Something that is not accepted.
    pub(crate) fn error(&mut self, path: Path, message: String) {
        self.push(Severity::Error, self.code, path, message);
    }

    /// Something that is accepted and hardly meant.
    pub(crate) fn warn(&mut self, path: Path, code: &'static str, message: String) {
        self.push(Severity::Warning, code, path, message);
    }

    fn push(&mut self, severity: Severity, code: &'static str, path: Path, message: String) {
        let place = FieldLocation { kind: self.kind, name: self.name.clone(), path: path.to_string(), remote: None };
        self.findings.push(Finding {
            severity,
            code,
            pool: None,
            subject: String::new(),
            places: vec![place],
            message,
        });
    }
}

/// The name of an object, or [`NAMELESS`].
pub(crate) fn name_of<'n>(object: &'n Node<'_>) -> &'n str {
    object.dig(&["metadata", "name"]).and_then(Node::as_str).filter(|name| !name.is_empty()).unwrap_or(NAMELESS)
}
