//! Sides of a comparison: manifests, which are rendered, or rendered MachineConfigs as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path as FilePath, PathBuf};

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::meta::is_kind;
use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::node::{Node, Value};
use seaworthy_render::{MachineConfig, Prepared, render};
use seaworthy_values::text::counted;

use super::super::loading;
use crate::cli::Diff;
use crate::failure::Failure;
use crate::manifest::{Inputs, ManifestSet, load};
use crate::terminal;

/// The rendered configuration of each pool on one side.
pub type Side = BTreeMap<String, RenderedPool>;

/// The rendered configuration of a pool.
pub struct RenderedPool {
    /// The name of the rendered MachineConfig.
    pub name: String,
    /// Its spec, the Ignition config being of spec 3.5.
    pub spec: Node<'static>,
    pub pool: String,
}

/// Reads both sides. `None` if a pool cannot be rendered, which is reported.
pub fn both(options: &Diff) -> Result<Option<(Side, Side)>, Failure> {
    let files: Vec<&PathBuf> = options.files.iter().chain(&options.sides).collect();
    let [old, new] = files[..] else {
        let found = counted(files.len(), "side");
        let message = format!("expected two sides, got {found}: -f <OLD> -f <NEW>");
        return Err(Failure::invalid(message));
    };
    if old.as_os_str() == "-" && new.as_os_str() == "-" {
        return Err(Failure::invalid("-f - is given twice; standard input can be read only once"));
    }
    let read = |file: &PathBuf| {
        let files = std::slice::from_ref(file);
        load(&Inputs { files, recursive: options.recursive, max_mib: options.max_input })
    };
    let texts = (read(old)?, read(new)?);
    let sets = (ManifestSet::read(&texts.0)?, ManifestSet::read(&texts.1)?);
    let are_finished = (is_finished(&sets.0), is_finished(&sets.1));
    let mut known = BTreeSet::new();
    let sides = match are_finished {
        (true, true) => (finished(&sets.0, options, old, &mut known)?, finished(&sets.1, options, new, &mut known)?),
        (false, false) => {
            let wanted = &options.pool;
            (rendered(&sets.0, wanted, options, old, &mut known)?, rendered(&sets.1, wanted, options, new, &mut known)?)
        }
        (true, false) => {
            let Some(side) = finished(&sets.0, options, old, &mut known)? else { return Ok(None) };
            let other = rendered_beside(&sets.1, &side, options, (new, old), &mut known)?;
            (Some(side), other)
        }
        (false, true) => {
            let Some(side) = finished(&sets.1, options, new, &mut known)? else { return Ok(None) };
            (rendered_beside(&sets.0, &side, options, (old, new), &mut known)?, Some(side))
        }
    };
    let (Some(mut old), Some(new)) = sides else { return Ok(None) };
    if let Some(missing) = options.pool.iter().find(|pool| !known.contains(*pool)) {
        return Err(Failure::invalid(format!(
            "pool {missing:?} not found on either side; available pools: {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    if are_finished == (true, true) {
        align(&mut old, &new);
    }
    Ok(Some((old, new)))
}

/// Whether a side is rendered objects and nothing else. Anything else is to be rendered: what a MachineConfig does to a
/// machine depends on its role, and on what its references lead to.
fn is_finished(set: &ManifestSet<'_>) -> bool {
    let has_pools = !set.pools.is_empty() || !set.broken_pools(&[]).is_empty();
    !has_pools && !set.machine_configs.is_empty() && set.machine_configs.iter().all(MachineConfig::is_rendered)
}

/// Two single rendered objects are compared with each other, whatever pools they are for.
fn align(old: &mut Side, new: &Side) {
    if let (1, 1, Some(from), Some(to)) = (old.len(), new.len(), old.keys().next().cloned(), new.keys().next())
        && let Some(rendered) = old.remove(&from)
    {
        old.insert(to.clone(), rendered);
    }
}

/// The pools of manifests, rendered: those that the other side has rendered objects of. The others are neither
/// new nor gone, they were not given.
fn rendered_beside(
    set: &ManifestSet<'_>,
    other: &Side,
    options: &Diff,
    (file, other_file): (&FilePath, &FilePath),
    known: &mut BTreeSet<String>,
) -> Result<Option<Side>, Failure> {
    let mut here = BTreeSet::new();
    let wanted: Vec<String> = other.keys().cloned().collect();
    let side = rendered(set, &wanted, options, file, &mut here)?;
    let listed = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(", ");
    if let Some(missing) = wanted.iter().find(|pool| !here.contains(*pool)) {
        return Err(Failure::invalid(format!(
            "{} has a rendered MachineConfig of pool {missing}, but {} has no such pool; available pools: {}",
            other_file.display(),
            file.display(),
            listed(here.iter().collect())
        )));
    }
    let left_out: Vec<&String> = here.iter().filter(|pool| options.pool.is_empty() && !wanted.contains(pool)).collect();
    if !left_out.is_empty() {
        let (file, names) = (other_file.display(), listed(left_out));
        terminal::note(&format!("skipped, because {file} has no rendered MachineConfig for them: pool {names}"));
    }
    known.extend(here);
    Ok(side)
}

/// The pools of manifests, rendered: all, or those that are wanted. `known` gets the names of all.
fn rendered(
    set: &ManifestSet<'_>,
    wanted: &[String],
    options: &Diff,
    file: &FilePath,
    known: &mut BTreeSet<String>,
) -> Result<Option<Side>, Failure> {
    // A pool that is wanted may be on the other side only: then it is new, or gone.
    let mut pools = set.pools(&[])?;
    let broken = set.broken_pools(&[]);
    if pools.is_empty() && broken.is_empty() {
        let why = set.lacks_pools();
        return Err(Failure::invalid(format!("{}: nothing to compare: {why}", file.display())));
    }
    known.extend(pools.iter().map(|pool| pool.name.clone()));
    known.extend(broken.iter().flat_map(|finding| &finding.places).map(|place| place.name.clone()));
    pools.retain(|pool| wanted.is_empty() || wanted.contains(&pool.name));
    let mut failed = set.broken_pools(wanted);
    let prepared = loading::resolved(set, &pools, &options.remote)?;
    let context = loading::context(set, false);
    let mut side = Side::new();
    for pool in &pools {
        match render(pool, &prepared, &context) {
            Ok(rendered) => {
                let spec = rendered.spec.clone().into_owned();
                let rendered = RenderedPool { name: rendered.name.clone(), spec, pool: pool.name.clone() };
                side.insert(pool.name.clone(), rendered);
            }
            Err(findings) => failed.extend(findings),
        }
    }
    loading::report(&failed, set);
    Ok(failed.is_empty().then_some(side))
}

/// Rendered objects, which are compared as they are.
fn finished(
    set: &ManifestSet<'_>,
    options: &Diff,
    file: &FilePath,
    known: &mut BTreeSet<String>,
) -> Result<Option<Side>, Failure> {
    let mut side = Side::new();
    for input in loading::prepared(set) {
        if !input.is_valid() {
            loading::report(&input.findings, set);
            return Ok(None);
        }
        let pool = pool_of(input.source);
        known.insert(pool.clone());
        if !options.pool.is_empty() && !options.pool.contains(&pool) {
            continue;
        }
        let rendered = RenderedPool { name: input.source.name().to_owned(), spec: spec_of(&input), pool: pool.clone() };
        if let Some(other) = side.insert(pool.clone(), rendered) {
            return Err(Failure::invalid(format!(
                "{} has several rendered MachineConfigs of pool {pool}: {} and {}; pass one of them",
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
    if let Some(owner) = source.owner().filter(|owner| is_kind::<MachineConfigPool>(owner.api_version, owner.kind)) {
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
