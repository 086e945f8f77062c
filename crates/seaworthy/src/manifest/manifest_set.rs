//! Manifest set: the objects of all texts by kind, and where each one is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use seaworthy_api::machineconfiguration as api;
use seaworthy_change::ResourceType;
use seaworthy_ignition::node::{Node, Origin};
use seaworthy_ignition::path::Path;
use seaworthy_ignition::{Severity, spelling};
use seaworthy_manifest::{EntryPart, FileLocation, ManifestText};
use seaworthy_render::{ControllerConfig, FieldLocation, Finding, MachineConfig, OsImageStreams, Pool, keys, kinds};
use seaworthy_values::list;

use super::objects::{self, Object, ObjectLocation, named};
use crate::failure::Failure;
use crate::terminal;

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
    /// The MachineConfigs and pools by kind and name.
    by_name: HashMap<(&'static str, String), Origin>,
    /// Where they are.
    locations: HashMap<Origin, ObjectLocation<'t>>,
    /// How many objects of other kinds there are.
    others: BTreeMap<String, usize>,
}

/// Of many objects with the same name this many are listed.
const MAX_LISTED: usize = 5;

/// Adds an object. The errors are messages with their location.
type Take<'t> = fn(&mut ManifestSet<'t>, Object<'t>) -> Result<(), Vec<String>>;

/// The kinds that are read in one version each.
fn read_kinds<'t>() -> [(ResourceType, Take<'t>); 3] {
    [
        (ResourceType::of::<api::MachineConfig>(), ManifestSet::take_machine_config),
        (ResourceType::of::<api::MachineConfigPool>(), ManifestSet::take_pool),
        (ResourceType::of::<api::ControllerConfig>(), ManifestSet::take_controller_config),
    ]
}

impl<'t> ManifestSet<'t> {
    /// Sorts the documents of all texts. Texts that cannot be read are reported together.
    pub fn read(texts: &'t [ManifestText]) -> Result<Self, Failure> {
        let mut set = ManifestSet::default();
        let read_kinds = read_kinds();
        set.documents = objects::each(texts, &mut |object| set.take(object, &read_kinds))?;
        for kind in kinds::GENERATING {
            if let Some(count) = set.others.remove(kind) {
                terminal::note(&format!(
                    "ignored {kind} ({count}): `seaworthy plan --server-less` checks it and shows its effect; here \
                     its settings are missing unless the MachineConfig generated from it is passed as well"
                ));
            }
        }
        if !set.others.is_empty() {
            let kinds: Vec<String> = set.others.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            terminal::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
        }
        if set.controller_configs > 1 {
            terminal::note(&format!("{} ControllerConfigs given; the last one is used", set.controller_configs));
        }
        set.drop_copies();
        set.pools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(set)
    }

    fn take(&mut self, object: Object<'t>, read_kinds: &[(ResourceType, Take<'t>)]) -> Result<(), Vec<String>> {
        if let Some((resource, take)) = read_kinds.iter().find(|(resource, _)| *resource.kind == *object.kind) {
            return match object.api_version == resource.api_version() {
                true => take(self, object),
                false => Err(vec![wrong_version(&object, &resource.api_version())]),
            };
        }
        // It has no type of ours, and is read in any version.
        if object.kind == kinds::OS_IMAGE_STREAM && object.is_of_our_group() {
            return self.take_streams(&object);
        }
        if let Some(message) = object.misspelt_kind() {
            return Err(vec![object.location.error_at_key("kind", &message)]);
        }
        *self.others.entry(object.kind).or_default() += 1;
        Ok(())
    }

    fn take_machine_config(&mut self, object: Object<'t>) -> Result<(), Vec<String>> {
        let machine_config = MachineConfig::read(object.node);
        let origin = machine_config.object().origin;
        self.by_name.insert((kinds::MACHINE_CONFIG, machine_config.name().to_owned()), origin);
        self.locations.insert(origin, object.location);
        self.machine_configs.push(machine_config);
        Ok(())
    }

    fn take_pool(&mut self, object: Object<'t>) -> Result<(), Vec<String>> {
        let origin = object.node.origin;
        let mut note = |name: &str| self.by_name.insert((kinds::MACHINE_CONFIG_POOL, name.to_owned()), origin);
        match Pool::read(&object.node) {
            Ok(pool) => {
                note(&pool.name);
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
                    note(&place.name);
                }
                self.broken_pools.extend(findings);
            }
        }
        self.locations.insert(origin, object.location);
        Ok(())
    }

    fn take_controller_config(&mut self, object: Object<'t>) -> Result<(), Vec<String>> {
        self.controller_configs += 1;
        self.controller_config = ControllerConfig::read(&object.node).map_err(|found| errors(&object, &found))?;
        Ok(())
    }

    fn take_streams(&mut self, object: &Object<'t>) -> Result<(), Vec<String>> {
        self.streams = Some(OsImageStreams::read(&object.node).map_err(|found| errors(object, &found))?);
        Ok(())
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
        Some(self.locations.get(&origin)?.file(path, part))
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

/// The error message about an object of a kind that is read in another version.
fn wrong_version(object: &Object<'_>, expected: &str) -> String {
    let found = match object.node.get("apiVersion").filter(|version| !version.is_null()) {
        Some(version) => format!("the apiVersion is {}", version.describe()),
        None if !object.api_version.is_empty() => format!("the apiVersion of its list is {:?}", object.api_version),
        None => "it has no apiVersion".to_owned(),
    };
    let message = format!("{}{}: {found}; expected {expected}", object.kind, named(object.name()));
    object.location.error_at_key("apiVersion", &message)
}

/// The error messages about an object that every pool depends on.
fn errors(object: &Object<'_>, findings: &[Finding]) -> Vec<String> {
    let message = |finding: &Finding| {
        let path = finding.places.first().map(|place| Path::parse(&place.path)).unwrap_or_default();
        object.location.error_at_path(&path, &finding.to_string())
    };
    findings.iter().filter(|finding| finding.is_error()).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locations of objects are looked up by the kinds that findings name.
    #[test]
    fn kinds_that_are_read_are_those_that_findings_name() {
        let read = read_kinds().map(|(resource, _)| resource.kind.clone());
        assert_eq!(read, [kinds::MACHINE_CONFIG, kinds::MACHINE_CONFIG_POOL, kinds::CONTROLLER_CONFIG]);
    }
}
