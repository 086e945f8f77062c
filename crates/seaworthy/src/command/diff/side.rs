//! What is compared: two sets of manifests, rendered here, or objects as they are.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::node::{Node, Value};
use seaworthy_render::{MachineConfig, Prepared, render};

use super::super::workspace;
use crate::cli::Diff;
use crate::failure::Failure;
use crate::manifest::{Inputs, Set, load};
use crate::paint;

/// What one side puts on machines, by pool (or by name, for single objects).
pub type Side = BTreeMap<String, Outcome>;

/// What a pool's machines get.
pub struct Outcome {
    /// The name of the rendered MachineConfig, or of the object.
    pub name: String,
    /// Its spec, the Ignition config being of spec 3.5.
    pub spec: Node<'static>,
    /// Whether it is of a pool.
    pub is_pool: bool,
}

/// What a side consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nature {
    /// Manifests to render.
    Sources,
    /// Rendered objects.
    Rendered,
    /// One MachineConfig without a pool.
    Single,
}

/// Reads both sides. `None` when a pool cannot be rendered, which is said.
pub fn both(options: &Diff) -> Result<Option<(Side, Side)>, Failure> {
    let [old, new] = options.files.as_slice() else {
        let times = match options.files.len() {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        return Err(Failure::unreadable(format!("-f is given {times}; give it twice: the old side and the new one")));
    };
    if old.as_os_str() == "-" && new.as_os_str() == "-" {
        return Err(Failure::unreadable("-f - is given twice; standard input can be read once"));
    }
    let read = |file: &PathBuf| {
        let files = std::slice::from_ref(file);
        load(&Inputs { files, recursive: options.recursive, max_mib: options.max_input })
    };
    let texts = (read(old)?, read(new)?);
    let sets = (Set::read(&texts.0)?, Set::read(&texts.1)?);
    let natures = (nature(&sets.0), nature(&sets.1));
    // One object and another one are compared as they are. Beside manifests it is a manifest like them.
    let are_finished = natures.0 != Nature::Sources && natures.1 != Nature::Sources;
    let is_finished = |nature: Nature| are_finished || nature == Nature::Rendered;
    let side = |set: &Set<'_>, nature: Nature, file: &FilePath| {
        if is_finished(nature) { finished(set, options, file) } else { rendered(set, options, file) }
    };
    let (mut old_side, mut new_side) = match (side(&sets.0, natures.0, old)?, side(&sets.1, natures.1, new)?) {
        (Some(old), Some(new)) => (old, new),
        _ => return Ok(None),
    };
    match (is_finished(natures.0), is_finished(natures.1)) {
        (true, true) => align(&mut old_side, &new_side),
        (true, false) => restrict(&mut new_side, &old_side, new, old)?,
        (false, true) => restrict(&mut old_side, &new_side, old, new)?,
        (false, false) => {}
    }
    if let Some(missing) =
        options.pool.iter().find(|pool| !old_side.contains_key(*pool) && !new_side.contains_key(*pool))
    {
        return Err(Failure::unreadable(format!(
            "there is no pool {missing:?} on either side; without --pool all pools are compared"
        )));
    }
    Ok(Some((old_side, new_side)))
}

fn nature(set: &Set<'_>) -> Nature {
    let objects = &set.machine_configs;
    if !set.pools.is_empty() || !set.broken_pools(&[]).is_empty() || objects.is_empty() {
        return Nature::Sources;
    }
    match objects.len() {
        _ if objects.iter().all(MachineConfig::is_rendered) => Nature::Rendered,
        1 => Nature::Single,
        _ => Nature::Sources,
    }
}

/// Two single objects are compared with each other, whatever pools they are for.
fn align(old: &mut Side, new: &Side) {
    if let (1, 1, Some(from), Some(to)) = (old.len(), new.len(), old.keys().next().cloned(), new.keys().next())
        && let Some(outcome) = old.remove(&from)
    {
        old.insert(to.clone(), outcome);
    }
}

/// Leaves only the pools that the other side has a rendered object of: the others are not gone, nobody gave them.
fn restrict(side: &mut Side, other: &Side, file: &FilePath, other_file: &FilePath) -> Result<(), Failure> {
    let names = |side: &Side| side.keys().cloned().collect::<Vec<_>>().join(", ");
    if let Some(missing) = other.keys().find(|pool| !side.contains_key(*pool)) {
        return Err(Failure::unreadable(format!(
            "{} has a rendered MachineConfig of pool {missing}, but {} has no such pool; its pools are: {}",
            other_file.display(),
            file.display(),
            names(side)
        )));
    }
    let mut left_out = std::mem::take(side);
    for pool in other.keys() {
        if let Some(outcome) = left_out.remove(pool) {
            side.insert(pool.clone(), outcome);
        }
    }
    if !left_out.is_empty() {
        paint::note(&format!("not compared, as {} has none of it: pool {}", other_file.display(), names(&left_out)));
    }
    Ok(())
}

/// The pools of manifests, rendered.
fn rendered(set: &Set<'_>, options: &Diff, file: &FilePath) -> Result<Option<Side>, Failure> {
    let is_wanted = |name: &String| options.pool.is_empty() || options.pool.contains(name);
    // A pool that is wanted may be on the other side only: then it is new, or gone.
    let mut pools = set.pools(&[])?;
    let mut failed = set.broken_pools(&options.pool);
    if pools.is_empty() && set.broken_pools(&[]).is_empty() {
        let why = set.lacks_pools();
        return Err(Failure::unreadable(format!("{}: there is nothing to compare: {why}", file.display())));
    }
    pools.retain(|pool| is_wanted(&pool.name));
    let prepared = workspace::resolved(set, &pools, &options.remote)?;
    let context = workspace::context(set, false);
    let mut side = Side::new();
    for pool in &pools {
        match render(pool, &prepared, &context) {
            Ok(rendered) => {
                let spec = rendered.spec.clone().into_owned();
                side.insert(pool.name.clone(), Outcome { name: rendered.name.clone(), spec, is_pool: true });
            }
            Err(findings) => failed.extend(findings),
        }
    }
    workspace::report(&failed, set);
    Ok(failed.is_empty().then_some(side))
}

/// Objects that are compared as they are.
fn finished(set: &Set<'_>, options: &Diff, file: &FilePath) -> Result<Option<Side>, Failure> {
    let mut side = Side::new();
    for input in workspace::prepared(set) {
        if !input.is_valid() {
            workspace::report(&input.findings, set);
            return Ok(None);
        }
        let is_pool = input.source.is_rendered();
        let key = if is_pool { pool_of(input.source) } else { input.source.name().to_owned() };
        if is_pool && !options.pool.is_empty() && !options.pool.contains(&key) {
            continue;
        }
        let outcome = Outcome { name: input.source.name().to_owned(), spec: spec_of(&input), is_pool };
        if let Some(other) = side.insert(key.clone(), outcome) {
            return Err(Failure::unreadable(format!(
                "{} has several rendered MachineConfigs of pool {key}: {} and {}; give one of them",
                file.display(),
                other.name,
                input.source.name()
            )));
        }
    }
    Ok(Some(side))
}

/// The pool that a rendered MachineConfig is for.
fn pool_of(source: &MachineConfig<'_>) -> String {
    if let Some(owner) = source.owner().filter(|owner| owner.kind == "MachineConfigPool") {
        return owner.name.to_owned();
    }
    let name = source.name();
    let pool = name.strip_prefix(RENDERED_PREFIX).and_then(|rest| rest.rsplit_once('-'));
    pool.map_or(name, |(pool, _)| pool).to_owned()
}

/// The spec of an object, its Ignition config in the version that everything is compared in.
fn spec_of(input: &Prepared<'_>) -> Node<'static> {
    let spec = input.source.object().get("spec").cloned().map(Node::into_owned);
    let mut spec = spec.unwrap_or_else(|| Node::made(Value::Map(Default::default())));
    if let (Some(map), Some(config)) = (spec.as_map_mut(), &input.config) {
        map.set("config", config.clone().into_owned());
    }
    spec
}
