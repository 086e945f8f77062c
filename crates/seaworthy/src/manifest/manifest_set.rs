//! Manifest set: the objects of all texts by kind, and where each one is.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use seaworthy_ignition::node::{Node, Origin, Value};
use seaworthy_ignition::path::Path;
use seaworthy_ignition::{Severity, spelling};
use seaworthy_manifest::{EntryPart, FileLocation, ManifestText, is_object, parallel};
use seaworthy_render::{ControllerConfig, FieldLocation, Finding, MachineConfig, OsImageStreams, Pool, keys, kinds};
use seaworthy_values::list;

use crate::failure::Failure;
use crate::terminal;

/// The API group of the kinds that are read.
const GROUP: &str = "machineconfiguration.openshift.io";

/// Everything that was read, sorted by kind.
#[derive(Default)]
pub struct ManifestSet<'t> {
    /// The MachineConfigs, in the order they were read.
    pub machine_configs: Vec<MachineConfig<'t>>,
    /// The pools, in the order of their names.
    pub pools: Vec<Pool>,
    /// Index of each pool in `pools` while they are read.
    pool_positions: HashMap<String, usize>,
    /// Pools that cannot be used.
    broken_pools: Vec<Finding>,
    /// The ControllerConfig, or the default one.
    pub controller_config: ControllerConfig,
    /// How many there were to choose from.
    controller_configs: usize,
    /// The OS images on offer.
    pub streams: Option<OsImageStreams>,
    /// The number of documents that were read: the next free number.
    pub documents: u32,
    /// The text of each document, by the number that origins refer to.
    origins: Vec<DocumentLocation<'t>>,
    /// Paths of list items within their documents.
    items: HashMap<Origin, Path>,
    /// The MachineConfigs and pools by kind and name.
    by_name: HashMap<(&'static str, String), Origin>,
    /// How many bytes may still be passed over to find lines.
    budget: Cell<usize>,
}

/// Finding a line costs a pass over its text; after this many bytes only files are named.
pub const MAX_LOCATE_BYTES: usize = 512 * 1024 * 1024;

/// Of many objects with the same name this many are listed.
const MAX_LISTED: usize = 5;

/// A document's text, and its number there.
struct DocumentLocation<'t> {
    text: &'t ManifestText,
    nth: usize,
}

/// Where errors and unknown kinds of a text are collected.
struct ReadContext<'r> {
    others: &'r mut BTreeMap<String, usize>,
    errors: &'r mut Vec<String>,
    text: &'r ManifestText,
    nth: usize,
    budget: &'r Cell<usize>,
}

impl ReadContext<'_> {
    fn report(&mut self, path: &Path, message: &str) {
        self.errors.push(self.text.error_at(self.nth, path, self.budget, message));
    }

    /// Reports the errors of the object at a path, which every pool depends on.
    fn report_findings(&mut self, object: &Path, findings: &[Finding]) {
        for finding in findings.iter().filter(|finding| finding.is_error()) {
            let path = finding.places.first().map(|place| Path::parse(&place.path)).unwrap_or_default();
            self.report(&object.clone().join(&path), &finding.to_string());
        }
    }
}

/// Names the texts without documents.
pub(super) fn note_empty(empty: &[&str]) {
    if !empty.is_empty() {
        terminal::note(&format!("no objects in {}", list::listed(empty, MAX_LISTED)));
    }
}

impl<'t> ManifestSet<'t> {
    /// Sorts the documents of all texts. Texts that cannot be read are reported together.
    pub fn read(texts: &'t [ManifestText]) -> Result<Self, Failure> {
        let mut set = ManifestSet { budget: Cell::new(MAX_LOCATE_BYTES), ..ManifestSet::default() };
        let mut errors = Vec::new();
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        let budget = Cell::new(MAX_LOCATE_BYTES);
        let mut empty: Vec<&str> = Vec::new();
        for (text, documents) in texts.iter().zip(parallel::map(texts.iter(), 1, ManifestText::documents)) {
            match documents {
                Err(error) => errors.push(error),
                Ok(documents) => {
                    if documents.is_empty() {
                        empty.push(text.name.as_str());
                    }
                    for (nth, mut document) in documents {
                        if !is_object(&document) {
                            let message = format!(
                                "found {}; a manifest is an object with apiVersion and kind",
                                document.describe()
                            );
                            errors.push(text.error_at(nth, &Path::default(), &budget, &message));
                            continue;
                        }
                        document.number(set.documents);
                        set.documents = set.documents.saturating_add(1);
                        set.origins.push(DocumentLocation { text, nth });
                        let mut context =
                            ReadContext { others: &mut others, errors: &mut errors, text, nth, budget: &budget };
                        set.take(document, "", Path::default(), &mut context);
                    }
                }
            }
        }
        if !errors.is_empty() {
            return Err(Failure::all_invalid(errors));
        }
        note_empty(&empty);
        for kind in kinds::GENERATING {
            if let Some(count) = others.remove(kind) {
                terminal::note(&format!(
                    "ignored {kind} ({count}): `seaworthy plan --server-less` checks it and shows its effect; here \
                     its settings are missing unless the MachineConfig generated from it is passed as well"
                ));
            }
        }
        if !others.is_empty() {
            let kinds: Vec<String> = others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            terminal::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
        }
        if set.controller_configs > 1 {
            terminal::note(&format!("{} ControllerConfigs given; the last one is used", set.controller_configs));
        }
        set.drop_copies();
        set.pools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(set)
    }

    fn take(&mut self, object: Node<'t>, item_kind: &str, path: Path, context: &mut ReadContext<'_>) {
        let kind = match object.get("kind").filter(|kind| !kind.is_null()) {
            Some(kind) => kind.as_str().unwrap_or_default().to_owned(),
            None => item_kind.to_owned(),
        };
        let api_version = object.text_of("apiVersion");
        if kind.is_empty() {
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
            let message = format!("an object{}: {found}; manifests need apiVersion and kind{hint}", named(name));
            context.report(&path.key("kind"), &message);
            return;
        }
        // The items of a typed list need not repeat the list's apiVersion.
        let is_item = api_version.is_empty() && !item_kind.is_empty();
        let is_ours = api_version.split_once('/').is_some_and(|(group, _)| group == GROUP) || is_item;
        let is_current = api_version == keys::API_VERSION || is_item;
        if let Some(item_kind) = kind.strip_suffix("List")
            && object.get("items").is_some()
        {
            let item_kind = if is_ours { item_kind.to_owned() } else { String::new() };
            let Value::Map(mut map) = object.value else { return };
            let items = match map.remove("items") {
                Some(Node { value: Value::List(items), .. }) => items,
                Some(other) if !other.is_null() => {
                    let message = format!("items of a {kind} is {}; expected a list of objects", other.describe());
                    context.report(&path.key("items"), &message);
                    return;
                }
                _ => return,
            };
            for (index, item) in items.into_iter().enumerate() {
                let path = path.clone().key("items").index(index);
                if is_object(&item) {
                    self.take(item, &item_kind, path, context);
                } else {
                    let message = format!("an item of a {kind} is {}; expected an object", item.describe());
                    context.report(&path, &message);
                }
            }
            return;
        }
        match kind.as_str() {
            kinds::MACHINE_CONFIG if is_current => {
                let machine_config = MachineConfig::read(object);
                self.note(kinds::MACHINE_CONFIG, machine_config.name(), machine_config.object().origin, path);
                self.machine_configs.push(machine_config);
            }
            kinds::MACHINE_CONFIG_POOL if is_current => match Pool::read(&object) {
                Ok(pool) => {
                    self.note(kinds::MACHINE_CONFIG_POOL, &pool.name, object.origin, path);
                    // Applying manifests one after the other leaves the last one.
                    match self.pool_positions.get(&pool.name) {
                        Some(at) if self.pools[*at] == pool => {}
                        Some(at) => {
                            terminal::note(&format!(
                                "MachineConfigPool {} is defined twice; the last one is used",
                                pool.name
                            ));
                            self.pools[*at] = pool;
                        }
                        None => {
                            self.pool_positions.insert(pool.name.clone(), self.pools.len());
                            self.pools.push(pool);
                        }
                    }
                }
                Err(findings) => {
                    for place in findings.iter().flat_map(|finding| &finding.places) {
                        self.note(kinds::MACHINE_CONFIG_POOL, &place.name, object.origin, path.clone());
                    }
                    self.broken_pools.extend(findings);
                }
            },
            kinds::CONTROLLER_CONFIG if is_current => {
                self.controller_configs += 1;
                match ControllerConfig::read(&object) {
                    Ok(controller_config) => self.controller_config = controller_config,
                    Err(findings) => context.report_findings(&path, &findings),
                }
            }
            kinds::OS_IMAGE_STREAM if is_ours => match OsImageStreams::read(&object) {
                Ok(streams) => self.streams = Some(streams),
                Err(findings) => context.report_findings(&path, &findings),
            },
            kinds::MACHINE_CONFIG | kinds::MACHINE_CONFIG_POOL | kinds::CONTROLLER_CONFIG => {
                let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default();
                let found = match object.get("apiVersion").filter(|version| !version.is_null()) {
                    Some(version) => format!("the apiVersion is {}", version.describe()),
                    None => "it has no apiVersion".to_owned(),
                };
                let message = format!("{kind}{}: {found}; expected {}", named(name), keys::API_VERSION);
                context.report(&path.key("apiVersion"), &message);
            }
            _ => {
                let name = object.dig(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default();
                let version = if is_ours { keys::API_VERSION } else { api_version };
                match misspelt(version, &kind, name) {
                    Some(message) => context.report(&path.key("kind"), &message),
                    None => *context.others.entry(kind).or_default() += 1,
                }
            }
        }
    }

    /// Records where an object is.
    fn note(&mut self, kind: &'static str, name: &str, origin: Origin, path: Path) {
        self.by_name.insert((kind, name.to_owned()), origin);
        if !path.is_root() {
            self.items.insert(origin, path);
        }
    }

    /// The same MachineConfig read twice (a file, and the folder it is in) counts once. One of another content stays,
    /// and the pools that select it report it.
    fn drop_copies(&mut self) {
        let mut first: HashMap<&str, usize> = HashMap::new();
        let mut copies: BTreeSet<usize> = BTreeSet::new();
        let (mut listed, mut unlisted) = (0, 0);
        for (at, machine_config) in self.machine_configs.iter().enumerate() {
            // With the first of its name only: comparing with all would take the square of their number.
            match first.get(machine_config.name()) {
                Some(known) if self.machine_configs[*known].object() == machine_config.object() => {
                    copies.insert(at);
                }
                Some(known) if listed < MAX_LISTED => {
                    listed += 1;
                    let name = Path::of(&["metadata", "name"]);
                    let place = |object: &Node<'_>| self.place_of(object.origin, &name, EntryPart::Value);
                    let places = (place(self.machine_configs[*known].object()), place(machine_config.object()));
                    if let (Some(one), Some(other)) = places {
                        let name = machine_config.name();
                        terminal::note(&format!("two different MachineConfigs are named {name}: {one} and {other}"));
                    }
                }
                Some(_) => unlisted += 1,
                None => drop(first.insert(machine_config.name(), at)),
            }
        }
        if unlisted > 0 {
            terminal::note(&format!("{unlisted} more MachineConfigs have the name of a different one"));
        }
        if copies.is_empty() {
            return;
        }
        let names: BTreeSet<&str> = copies.iter().map(|at| self.machine_configs[*at].name()).collect();
        let names = list::listed(names, MAX_LISTED);
        terminal::note(&format!("duplicates with the same content, used once: MachineConfig {names}"));
        let mut at = 0;
        self.machine_configs.retain(|_| {
            at += 1;
            !copies.contains(&(at - 1))
        });
    }

    /// Pools that cannot be used, of those that are wanted.
    pub fn broken_pools(&self, wanted: &[String]) -> Vec<Finding> {
        let is_wanted =
            |finding: &&Finding| wanted.is_empty() || finding.places.iter().any(|place| wanted.contains(&place.name));
        self.broken_pools.iter().filter(is_wanted).cloned().collect()
    }

    /// The pools to work on: those that were read, or those that the roles of the MachineConfigs call for.
    pub fn pools(&self, wanted: &[String]) -> Result<Vec<Pool>, Failure> {
        let mut pools = self.pools.clone();
        if pools.is_empty() && self.broken_pools.is_empty() {
            pools = self.assumed_pools();
        }
        if wanted.is_empty() {
            return Ok(pools);
        }
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        let broken =
            |name: &str| self.broken_pools.iter().any(|finding| finding.places.iter().any(|place| place.name == name));
        let is_missing = |name: &&String| !names.contains(&name.as_str()) && !broken(name);
        let missing: Vec<String> = wanted.iter().filter(is_missing).map(|name| format!("{name:?}")).collect();
        if !missing.is_empty() {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let near = wanted.iter().filter(is_missing).find_map(|name| spelling::nearest(name, names.iter().copied()));
            let hint = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => "correct the name, or add its MachineConfigPool".to_owned(),
            };
            return Err(Failure::invalid(format!(
                "pool {} not found in the input; available pools: {known}; {hint}",
                missing.join(", ")
            )));
        }
        pools.retain(|pool| wanted.contains(&pool.name));
        Ok(pools)
    }

    /// Whether all MachineConfigs in the input are rendered ones.
    pub fn has_only_results(&self) -> bool {
        !self.machine_configs.is_empty() && self.machine_configs.iter().all(MachineConfig::is_rendered)
    }

    /// Why there is no pool to work on.
    pub fn lacks_pools(&self) -> String {
        const MAX_NAMED: usize = 3;
        if let Some(first) = self.machine_configs.first().filter(|_| self.has_only_results()) {
            return format!(
                "nothing to render: {} is already rendered, and the input has neither a MachineConfigPool nor \
                 another MachineConfig; pass its sources, or compare it with `seaworthy diff`",
                first.name()
            );
        }
        let without: Vec<&str> = self.machine_configs.iter().map(MachineConfig::name).collect();
        let found = match without.as_slice() {
            [] => "and no MachineConfig".to_owned(),
            some => format!("and no MachineConfig with the label {} ({})", keys::ROLE, list::examples(some, MAX_NAMED)),
        };
        format!("no MachineConfigPool in the input, {found}; cannot determine the pools to render")
    }

    fn assumed_pools(&self) -> Vec<Pool> {
        let mut roles: BTreeMap<&str, Vec<&MachineConfig<'_>>> = BTreeMap::new();
        for machine_config in self.machine_configs.iter().filter(|machine_config| !machine_config.is_rendered()) {
            if let Some(role) = machine_config.role().filter(|role| !role.is_empty()) {
                roles.entry(role).or_default().push(machine_config);
            }
        }
        if roles.is_empty() {
            return Vec::new();
        }
        let misspelt = |role: &str| {
            // Of two roles that are alike, the one that more MachineConfigs have is the right one.
            let is_common = |known: &&str| roles[known].len() > roles[role].len();
            let common = roles.keys().copied().filter(is_common);
            (!OWN_ROLES.contains(&role)).then(|| spelling::nearest(role, OWN_ROLES.into_iter().chain(common)))?
        };
        let names: Vec<&str> = roles.keys().copied().collect();
        let custom: Vec<&str> =
            names.iter().copied().filter(|role| !OWN_ROLES.contains(role) && misspelt(role).is_none()).collect();
        let hint = match custom.as_slice() {
            [] => String::new(),
            [one] => {
                format!(
                    "; {one} is not a built-in pool: pass its MachineConfigPool, because its selector is assumed here"
                )
            }
            several => format!(
                "; {} are not built-in pools: pass their MachineConfigPools, because their selectors are assumed here",
                several.join(" and ")
            ),
        };
        terminal::note(&format!(
            "no MachineConfigPool in the input; assuming the default pools for the roles: {}{hint}",
            names.join(", ")
        ));
        let pool = |(role, machine_configs): (&&str, &Vec<&MachineConfig<'_>>)| {
            let finding = misspelt(role).map(|near| misspelt_role(role, near, machine_configs));
            Pool { findings: finding.into_iter().collect(), ..Pool::for_role(role) }
        };
        roles.iter().map(pool).collect()
    }

    /// Whether the input has neither a ControllerConfig nor image streams, which set the images of pools that choose none.
    pub fn lacks_images(&self) -> bool {
        self.controller_configs == 0 && self.streams.is_none()
    }

    /// The stream that the worker pool asks for.
    pub fn worker_stream(&self) -> Option<String> {
        self.pools.iter().find(|pool| pool.name == "worker")?.os_image_stream.clone()
    }

    /// The file of a field, and its line and column if they can be determined.
    pub fn file_of(&self, place: &FieldLocation, part: EntryPart) -> Option<FileLocation<'t>> {
        if place.remote.is_some() {
            return None;
        }
        self.place_of(*self.by_name.get(&(place.kind, place.name.clone()))?, &Path::parse(&place.path), part)
    }

    fn place_of(&self, origin: Origin, path: &Path, part: EntryPart) -> Option<FileLocation<'t>> {
        let document = self.origins.get(origin.doc as usize)?;
        let start = self.items.get(&origin).cloned().unwrap_or_default();
        let position = document.text.locate(document.nth, &start.join(path), part, &self.budget);
        Some(FileLocation { file: &document.text.name, position })
    }
}

/// The roles that every cluster has a pool for, or may have.
const OWN_ROLES: [&str; 3] = ["arbiter", "master", "worker"];

/// A finding about an unknown role that resembles a known one.
fn misspelt_role(role: &str, near: &str, machine_configs: &[&MachineConfig<'_>]) -> Finding {
    let path = Path::of(&["metadata", "labels"]).key(keys::ROLE);
    let places = machine_configs.iter().take(MAX_LISTED);
    Finding {
        severity: Severity::Warning,
        code: "misspelt-role",
        pool: None,
        subject: format!("role {role}"),
        places: places.map(|machine_config| FieldLocation::machine_config(machine_config.name(), &path)).collect(),
        message: format!("no MachineConfigPool {role} in the input; did you mean the role {near:?}?"),
    }
}

/// An error message about a kind that the group does not have and that resembles one that it has.
pub fn misspelt(api_version: &str, kind: &str, name: &str) -> Option<String> {
    let is_ours = api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
    if !is_ours || kinds::ALL.contains(&kind) {
        return None;
    }
    let near = spelling::nearest(kind, kinds::ALL)?;
    Some(format!("an object{}: unknown kind {kind:?} in {GROUP}; did you mean {near:?}?", named(name)))
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" {name:?}") }
}
