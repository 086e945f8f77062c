//! `seaworthy crds`: the CustomResourceDefinitions.

use seaworthy_api::crds;
use seaworthy_ignition::spelling;

use crate::cli::Crds;
use crate::failure::{EXIT_OK, Failure};
use crate::output;

pub fn run(options: &Crds) -> Result<u8, Failure> {
    let definitions = match &options.group {
        Some(group) => crds::for_group(group),
        None => crds::all(),
    };
    if definitions.is_empty() {
        let mut groups: Vec<String> = crds::all().into_iter().map(|definition| definition.spec.group).collect();
        groups.dedup();
        let wanted = options.group.as_deref().unwrap_or_default();
        let begins = groups.iter().find(|group| !wanted.is_empty() && group.starts_with(wanted)).map(String::as_str);
        let near = begins.or_else(|| spelling::nearest(wanted, groups.iter().map(String::as_str)));
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let accepted = groups.join(", ");
        return Err(Failure::invalid(format!("unknown API group {wanted:?}; known groups: {accepted}{near}")));
    }
    let mut objects = Vec::new();
    for definition in &definitions {
        objects.push(serde_json::to_value(definition).map_err(Failure::invalid)?);
    }
    output::objects(&objects, options.output)?;
    Ok(EXIT_OK)
}
