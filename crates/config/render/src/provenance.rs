//! Provenance: the field of the object that set each value of a rendered config, and the values that it overrode.

use std::collections::HashMap;
use std::fmt;

use seaworthy_ignition::merge::{MergeEvent, MergeEventKind};
use seaworthy_ignition::node::{Node, Origin, Value};
use seaworthy_ignition::{Path, path::Step};

use crate::finding::FieldLocation;
use crate::locator::Locator;
use crate::remote::Embedded;
use crate::render::Rendered;

/// One value of a rendered config and its history.
#[derive(Debug, Clone)]
pub struct Entry<'r> {
    /// What the value belongs to.
    pub subject: Subject,
    /// The field of the subject; empty when the subject is the value.
    pub field: String,
    pub value: Node<'r>,
    /// The field that set it; `None` for defaults.
    pub set_by: Option<FieldLocation>,
    /// Why it is there although no input sets it.
    pub default: Option<DefaultValue>,
    /// Other fields that set the same value.
    pub also: Vec<FieldLocation>,
    /// The overridden fields with their values, the latest first.
    pub overrode: Vec<Overridden<'r>>,
    /// Fields with another value that is ignored, because the platform generated it: its images come from the
    /// ControllerConfig or the pool's OS image stream.
    pub ignored: Vec<Overridden<'r>>,
    /// What was fetched that the value is from: the body that replaced a URL, or the remote config that sets
    /// the value.
    pub fetched: Option<&'r Embedded>,
}

/// A value that rendering fills in because no input sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultValue {
    /// Why this value, for people.
    pub reason: &'static str,
    /// The entry that does not set it, where it belongs to one.
    pub entry: Option<FieldLocation>,
}

/// A value that lost.
#[derive(Debug, Clone)]
pub struct Overridden<'r> {
    /// The field that has it.
    pub place: FieldLocation,
    /// The value, as its author wrote it; `None` for a whole entry that was taken out, and for what was filled in where
    /// an entry says nothing.
    pub value: Option<Node<'r>>,
    /// What was fetched that the value is from, as in [`Entry::fetched`].
    pub fetched: Option<&'r Embedded>,
}

/// Something in a rendered config that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A field of the MachineConfig's spec.
    Field(String),
    KernelArgument(String),
    Extension(String),
    File(String),
    Directory(String),
    Link(String),
    Unit(String),
    /// A drop-in of a unit.
    Dropin {
        unit: String,
        name: String,
    },
    User(String),
    Group(String),
    /// A disk, filesystem, RAID or LUKS device.
    Device {
        /// Which of them.
        noun: &'static str,
        /// Its name or device.
        name: String,
    },
    /// Any other place of the Ignition config.
    Config(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Field(name) => f.write_str(name),
            Subject::KernelArgument(text) => write!(f, "kernel argument {text}"),
            Subject::Extension(name) => write!(f, "extension {name}"),
            Subject::File(path) => write!(f, "file {path}"),
            Subject::Directory(path) => write!(f, "directory {path}"),
            Subject::Link(path) => write!(f, "link {path}"),
            Subject::Unit(name) => write!(f, "unit {name}"),
            Subject::Dropin { unit, name } => write!(f, "drop-in {unit}.d/{name}"),
            Subject::User(name) => write!(f, "user {name}"),
            Subject::Group(name) => write!(f, "group {name}"),
            Subject::Device { noun, name } => write!(f, "{noun} {name}"),
            Subject::Config(path) => f.write_str(path),
        }
    }
}

/// What an entry of a list is called.
pub(crate) fn subject_of_entry(list: &str, entry: &Node<'_>) -> Option<Subject> {
    let text = |key: &str| entry.text_of(key).to_owned();
    Some(match list {
        "files" => Subject::File(text("path")),
        "directories" => Subject::Directory(text("path")),
        "links" => Subject::Link(text("path")),
        "units" => Subject::Unit(text("name")),
        "users" => Subject::User(text("name")),
        "groups" => Subject::Group(text("name")),
        "disks" => Subject::Device { noun: "disk", name: text("device") },
        "filesystems" => Subject::Device { noun: "filesystem", name: text("device") },
        "raid" => Subject::Device { noun: "raid", name: text("name") },
        "luks" => Subject::Device { noun: "luks device", name: text("name") },
        _ => return None,
    })
}

/// What a path into an Ignition config (of an input or of the result) is about, and the field below that.
pub(crate) fn subject_at(config: &Node<'_>, path: &Path) -> (Subject, String) {
    let steps = &path.0;
    let mut node = config;
    for (nth, step) in steps.iter().enumerate() {
        let Step::Index(index) = step else {
            let Step::Key(key) = step else { break };
            match node.get(key) {
                Some(child) => node = child,
                None => break,
            }
            continue;
        };
        let list = match nth.checked_sub(1).map(|above| &steps[above]) {
            Some(Step::Key(key)) => key.as_str(),
            _ => "",
        };
        let Some(entry) = node.as_list().and_then(|list| list.get(*index)) else { break };
        let rest = Path(steps[nth + 1..].to_vec());
        let Some(subject) = subject_of_entry(list, entry) else { break };
        if let (Subject::Unit(unit), [Step::Key(dropins), Step::Index(at), below @ ..]) = (&subject, rest.0.as_slice())
            && dropins == "dropins"
        {
            let name = entry.list_of("dropins").get(*at).map(|dropin| dropin.text_of("name").to_owned());
            let name = name.unwrap_or_default();
            return (Subject::Dropin { unit: unit.clone(), name }, field_text(below));
        }
        return (subject, field_text(&rest.0));
    }
    if let [Step::Key(section), Step::Key(list), ..] = steps.as_slice()
        && section == "kernelArguments"
    {
        return (Subject::Config(format!("kernelArguments.{list}")), String::new());
    }
    (Subject::Config(path.to_string()), String::new())
}

fn field_text(steps: &[Step]) -> String {
    if steps.is_empty() { String::new() } else { Path(steps.to_vec()).to_string() }
}

impl<'r, 't: 'r> Rendered<'r, 't> {
    /// The history of every value, in the order of the result.
    pub fn provenance(&'r self) -> Vec<Entry<'r>> {
        let history = History::new(self);
        let mut entries = Vec::new();
        for (key, node) in self.spec.as_map().into_iter().flat_map(|map| map.iter()) {
            match (key, &node.value) {
                ("config", _) => history.config(node, &mut entries),
                (_, Value::List(items)) => {
                    for item in items {
                        let text = item.as_str().unwrap_or_default().to_owned();
                        let subject = match key {
                            "kernelArguments" => Subject::KernelArgument(text),
                            _ => Subject::Extension(text),
                        };
                        entries.push(history.entry(subject, String::new(), item));
                    }
                }
                _ => {
                    let ignored = self.ignored(key, node, &history);
                    let entry = history.entry(Subject::Field(key.to_owned()), String::new(), node);
                    entries.push(Entry { ignored, ..entry });
                }
            }
        }
        entries
    }

    /// The images that generated inputs name, where they are not what became of them.
    fn ignored(&'r self, key: &str, node: &Node<'_>, history: &History<'r, 't>) -> Vec<Overridden<'r>> {
        if !matches!(key, "osImageURL" | "baseOSExtensionsContainerImage") {
            return Vec::new();
        }
        let generated = self.inputs.iter().filter(|input| input.source.generated_by().is_some());
        let images = generated.filter_map(|input| input.source.field(key));
        let ignored = images.filter(|image| image.as_str() != Some("") && image.as_str() != node.as_str());
        let lost = |image: &'r Node<'t>| {
            let place = history.locator.place(image.origin)?;
            Some(Overridden { place, value: Some(image.borrowed()), fetched: None })
        };
        ignored.filter_map(lost).collect()
    }
}

struct History<'r, 't> {
    locator: Locator<'r, 't>,
    by_winner: HashMap<Origin, Vec<MergeEvent>>,
    by_loser: HashMap<Origin, Vec<MergeEvent>>,
    /// What was fetched, by the reference to it.
    fetched: HashMap<Origin, &'r Embedded>,
}

impl<'r, 't: 'r> History<'r, 't> {
    fn new(rendered: &'r Rendered<'r, 't>) -> Self {
        let mut by_winner: HashMap<Origin, Vec<MergeEvent>> = HashMap::new();
        let mut by_loser: HashMap<Origin, Vec<MergeEvent>> = HashMap::new();
        for event in rendered.events.iter().filter(|event| event.kind != MergeEventKind::Kept) {
            by_winner.entry(event.winner).or_default().push(*event);
            by_loser.entry(event.loser).or_default().push(*event);
        }
        let embedded = rendered.inputs.iter().flat_map(|input| &input.embedded);
        let fetched = embedded.map(|embedded| (embedded.origin, embedded)).collect();
        History { locator: Locator::new(&rendered.inputs), by_winner, by_loser, fetched }
    }

    fn config(&self, config: &'r Node<'r>, entries: &mut Vec<Entry<'r>>) {
        self.walk(config, config, Path::default(), entries);
    }

    fn walk(&self, config: &'r Node<'r>, node: &'r Node<'r>, path: Path, entries: &mut Vec<Entry<'r>>) {
        match &node.value {
            Value::Map(map) => {
                let first = entries.len();
                for (key, child) in &map.0 {
                    self.walk(config, child, path.clone().key(key.as_ref()), entries);
                }
                // An entry that took another out of the config says so where it says its path.
                if self.by_winner.contains_key(&node.origin)
                    && let Some(entry) = entries[first..].iter_mut().find(|entry| entry.field == "path")
                {
                    self.losers(node.origin, HistoryScope::Whole, &mut entry.overrode, &mut entry.also);
                }
            }
            Value::List(list) => {
                for (index, child) in list.iter().enumerate() {
                    self.walk(config, child, path.clone().index(index), entries);
                }
            }
            _ => {
                let (subject, field) = subject_at(config, &path);
                entries.push(self.entry(subject, field, node));
            }
        }
    }

    fn entry(&self, subject: Subject, field: String, node: &'r Node<'r>) -> Entry<'r> {
        let mut overrode = Vec::new();
        let mut also = Vec::new();
        // Values that no document contains share one origin, but no history.
        if node.origin.is_some() {
            self.losers(node.origin, HistoryScope::Field(&field), &mut overrode, &mut also);
            // A text that several inputs list stays with the first; the others repeat it.
            if !self.is_filled_in(node.origin) {
                let repeated = self.by_loser.get(&node.origin).into_iter().flatten();
                let repeated = repeated.filter(|event| event.kind == MergeEventKind::Repeated);
                also.extend(repeated.filter_map(|event| self.locator.place(event.winner)));
            }
            also.dedup();
        }
        let place = self.locator.place(node.origin);
        let (set_by, default) = if place.is_none() || self.is_filled_in(node.origin) {
            (None, Some(DefaultValue { reason: reason(&subject, &field), entry: place }))
        } else {
            (place, None)
        };
        let fetched = self.fetched(node.origin);
        Entry { subject, field, value: node.borrowed(), set_by, default, also, overrode, ignored: Vec::new(), fetched }
    }

    /// What was fetched that a value is from.
    fn fetched(&self, origin: Origin) -> Option<&'r Embedded> {
        let body = self.fetched.get(&origin);
        let config = || self.fetched.get(&self.locator.remote(origin)?.referred_by);
        body.or_else(config).copied()
    }

    /// Whether the value is a default: those have the origin of the object that does not set them.
    fn is_filled_in(&self, origin: Origin) -> bool {
        self.locator.value(origin).is_some_and(|node| node.as_map().is_some())
    }

    /// The values that a value overrode, and those that they had overridden, the latest first.
    fn losers(
        &self,
        winner: Origin,
        part: HistoryScope<'_>,
        overrode: &mut Vec<Overridden<'r>>,
        also: &mut Vec<FieldLocation>,
    ) {
        // The second is whether the value is still the winner's.
        let mut left = vec![(winner, true)];
        while let Some((winner, is_same)) = left.pop() {
            let next = left.len();
            let events = self.by_winner.get(&winner).map(Vec::as_slice).unwrap_or_default();
            let is_shared = !events.is_empty() && self.is_filled_in(winner);
            for event in events.iter().filter(|event| !is_shared || self.concerns(event, part)) {
                let Some(place) = self.locator.place(event.loser) else { continue };
                let is_same = is_same && event.kind == MergeEventKind::Repeated;
                if is_same {
                    also.push(place);
                } else {
                    let value = self.locator.value(event.loser).filter(|value| value.as_map().is_none());
                    let fetched = self.fetched(event.loser);
                    overrode.push(Overridden { place, value: value.map(Node::borrowed), fetched });
                }
                left.push((event.loser, is_same));
            }
            left[next..].reverse();
        }
    }

    /// Whether an event of an entry's origin, which the entry shares with all that is filled in there, is about a part.
    fn concerns(&self, event: &MergeEvent, part: HistoryScope<'_>) -> bool {
        let field = match part {
            HistoryScope::Whole => return event.kind == MergeEventKind::Removed,
            HistoryScope::Field(_) if event.kind == MergeEventKind::Removed => return false,
            HistoryScope::Field(field) => field,
        };
        let Some(found) = self.locator.find(event.loser) else { return false };
        match self.locator.value(event.loser).and_then(Node::as_map) {
            Some(map) => map.get(field.split('.').next().unwrap_or_default()).is_none(),
            None => found.path.to_string().strip_suffix(field).is_some_and(|above| above.ends_with('.')),
        }
    }
}

/// Why rendering fills in a value that no input sets.
fn reason(subject: &Subject, field: &str) -> &'static str {
    match (subject, field.rsplit('.').next().unwrap_or_default()) {
        (Subject::File(_), "overwrite") => "a file replaces the one of the OS image unless overwrite is false",
        (_, "mode") => "before Ignition 2.2 a missing mode means 0",
        (_, "id") => "in Ignition 2.0 a missing owner means root",
        (_, "source") => "in Ignition 2.x a body without a source is empty",
        (_, "compression") => "content that was fetched is embedded decompressed",
        (Subject::Field(name), _) => match name.as_str() {
            "fips" => "off unless a MachineConfig enables it",
            "kernelType" => "the OS image's own kernel unless a MachineConfig selects another",
            _ => "the cluster's own (ControllerConfig or OS image stream) unless a MachineConfig sets another",
        },
        (Subject::Config(path), _) if path == "ignition.version" => "the version of every rendered config",
        _ => UNEXPLAINED,
    }
}

/// Used where [`reason`] has no reason; the tests make sure that this never happens.
const UNEXPLAINED: &str = "filled in by rendering";

/// The part of an entry that a history covers.
#[derive(Clone, Copy)]
enum HistoryScope<'f> {
    /// An entry as a whole.
    Whole,
    Field(&'f str),
}
