//! Selection: the MachineConfigs of a pool, and the order in which they are merged.

use std::collections::HashSet;

use seaworthy_ignition::path::Path;
use seaworthy_ignition::{Severity, spelling};
use seaworthy_values::list::listed;

use crate::finding::{FieldLocation, Finding};
use crate::machine_config::MachineConfig;
use crate::pool::Pool;
use crate::prepare::Prepared;
use crate::selector::Selector;
use crate::{keys, kinds};

/// The inputs of a pool in merge order: later ones win. Beside them what keeps some of them from being merged.
///
/// The platform's own come first, then the workers', then the rest; by name, byte by byte, in each.
///
/// Differs: upstream orders by role and name alone, because its platform configs happen to be called `00-…`; a user's
/// `0-x` would sort before them and lose. Without such names the order is the same.
pub(crate) fn inputs<'r, 't>(
    pool: &Pool,
    all: &'r [Prepared<'t>],
) -> Result<(Vec<&'r Prepared<'t>>, Vec<Finding>), Finding> {
    let error = |code, message: String, place: FieldLocation| Finding {
        severity: Severity::Error,
        code,
        pool: Some(pool.name.clone()),
        subject: String::new(),
        places: vec![place],
        message,
    };
    let of_selector = || FieldLocation::pool(&pool.name, "spec.machineConfigSelector");
    let Some(selector) = &pool.selector else {
        let message =
            "there is no machineConfigSelector, so no MachineConfigs are found; select some by label".to_owned();
        return Err(error("no-machine-configs", message, of_selector()));
    };
    if selector.is_empty() {
        let message = format!(
            "the machineConfigSelector is empty; it must select MachineConfigs by label, such as {}: {}",
            keys::ROLE,
            pool.name
        );
        return Err(error("empty-selector", message, of_selector()));
    }
    // Differs: upstream takes rendered configs for inputs when a selector matches them (`NotIn`, `DoesNotExist`) and
    // fails on them, because it never excludes its own results.
    let mut selected: Vec<&Prepared<'_>> = all.iter().filter(|input| pool.selects(input.source)).collect();
    if selected.is_empty() {
        let message = format!("no MachineConfigs found matching selector {selector}; {}", roles_of(all, selector));
        return Err(error("no-machine-configs", message, of_selector()));
    }
    selected.sort_by(|a, b| rank(a).cmp(&rank(b)));

    let of_input = |input: &Prepared<'_>, path: &str| FieldLocation {
        kind: kinds::MACHINE_CONFIG,
        name: input.source.name().to_owned(),
        path: path.to_owned(),
        remote: None,
    };
    let mut findings = Vec::new();
    for input in selected.iter().filter(|input| !input.source.has_labels()) {
        let message = format!("cannot find label in MachineConfig {}: it needs {}", input.source.name(), keys::ROLE);
        findings.push(error("no-role-label", message, of_input(input, "metadata.labels")));
    }
    // Two with one name need not be neighbours: roles come before names in the order.
    let mut seen = HashSet::new();
    for input in selected.iter().filter(|input| !seen.insert(input.source.name())) {
        let message = "two MachineConfigs in the input have this name; a cluster has one of them, remove the other";
        findings.push(error("duplicate-name", message.to_owned(), of_input(input, "metadata.name")));
    }
    Ok((selected, findings))
}

/// Which MachineConfigs there are, and what their roles may have been meant for.
fn roles_of(all: &[Prepared<'_>], selector: &Selector) -> String {
    const MAX_LISTED: usize = 5;
    let mut found: Vec<_> = all.iter().map(|input| input.source).filter(|source| !source.is_rendered()).collect();
    if found.is_empty() {
        return "there is no MachineConfig at all: add some, or take the pool out".to_owned();
    }
    let wanted: Vec<&str> = selector.values_of(keys::ROLE).collect();
    // Those that were probably meant come first; the platform's alone may be more than are named.
    let is_other = |source: &MachineConfig<'_>| {
        source.role().is_some_and(|role| spelling::nearest(role, wanted.iter().copied()).is_none())
    };
    found.sort_by(|a, b| (is_other(a), a.name()).cmp(&(is_other(b), b.name())));
    let named = found.iter().map(|source| format!("{} with {}", source.name(), describe_role(source, &wanted)));
    let named = listed(named, MAX_LISTED);
    let count = match found.len() {
        1 => "there is 1 MachineConfig, and it does not match".to_owned(),
        count => format!("there are {count} MachineConfigs, and none of them matches"),
    };
    let next = match selector.keys().find(|key| is_like_role(key)) {
        Some(key) => format!("the selector requires the label {key:?}; did you mean {:?}?", keys::ROLE),
        None => "correct their labels or the selector, or add a MachineConfig that matches".to_owned(),
    };
    format!("{count}: {named}; {next}")
}

/// Whether a label was probably meant for a MachineConfig's role.
fn is_like_role(key: &str) -> bool {
    key != keys::ROLE && (key == "role" || key.ends_with("/role") || spelling::nearest(key, [keys::ROLE]).is_some())
}

/// The role of a MachineConfig that no pool selects, and which of the wanted ones it may have been meant for.
fn describe_role(source: &MachineConfig<'_>, wanted: &[&str]) -> String {
    match source.role() {
        Some(role) if wanted.contains(&role) => format!("role {role:?}"),
        Some(role) => match spelling::nearest(role, wanted.iter().copied()) {
            Some(near) => format!("role {role:?} (did you mean {near:?}?)"),
            None => format!("role {role:?}"),
        },
        None => {
            let misspelt = source.label_keys().find(|key| spelling::nearest(key, [keys::ROLE]).is_some());
            match misspelt {
                Some(key) => format!("label {key:?} (did you mean {:?}?)", keys::ROLE),
                None if source.label_keys().any(is_like_role) => {
                    format!("a role label other than {}", keys::ROLE)
                }
                None => format!("no label {}", keys::ROLE),
            }
        }
    }
}

/// The MachineConfigs that no pool selects: mostly a label is missing or misspelt. There are none while a pool cannot be read, for
/// which these findings are, or selects nothing: that is reported for the pool, and what it should select is unknown.
pub fn unselected<'m, 't: 'm>(
    sources: impl IntoIterator<Item = &'m MachineConfig<'t>>,
    pools: &[Pool],
    of_broken_pools: &[Finding],
) -> Vec<Finding> {
    let selects_nothing = |pool: &Pool| pool.selector.as_ref().is_none_or(Selector::is_empty);
    if !of_broken_pools.is_empty() || pools.iter().any(selects_nothing) {
        return Vec::new();
    }
    let is_left_out =
        |source: &&MachineConfig<'_>| !source.is_rendered() && !pools.iter().any(|pool| pool.selects(source));
    sources.into_iter().filter(is_left_out).map(|source| not_selected(source, pools)).collect()
}

fn not_selected(source: &MachineConfig<'_>, pools: &[Pool]) -> Finding {
    let selectors = pools.iter().filter_map(|pool| pool.selector.as_ref());
    let wanted: Vec<&str> = selectors.flat_map(|selector| selector.values_of(keys::ROLE)).collect();
    let role = describe_role(source, &wanted);
    Finding {
        severity: Severity::Warning,
        code: "not-selected",
        pool: None,
        subject: String::new(),
        places: vec![FieldLocation::machine_config(source.name(), &Path::of(&["metadata", "labels"]))],
        message: format!("no pool selects it, so it has no effect: {role}; {}", selectors_of(pools)),
    }
}

/// The pools and what they select, for people.
fn selectors_of(pools: &[Pool]) -> String {
    const MAX_LISTED: usize = 5;
    if pools.is_empty() {
        return "there is no pool in the input".to_owned();
    }
    let named = pools.iter().map(|pool| match &pool.selector {
        Some(selector) => format!("{} ({selector})", pool.name),
        None => format!("{} (nothing)", pool.name),
    });
    format!("the pools select: {}", listed(named, MAX_LISTED))
}

fn rank<'r>(input: &'r Prepared<'_>) -> (bool, bool, &'r str) {
    let source = input.source;
    (!source.is_platform(), source.role() != Some("worker"), source.name())
}
