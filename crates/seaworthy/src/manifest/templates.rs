//! Templates of the base configuration: the built-in ones, with those of a folder in their place.

use std::collections::BTreeMap;
use std::path::Path;

use seaworthy_generate::base::Templates;

use crate::failure::Failure;

/// How deep a folder of templates may be: a link to a folder above would have no end.
const MAX_DEPTH: usize = 16;

/// The templates, with those of a folder in their place.
pub fn read(folder: Option<&Path>) -> Result<Templates, Failure> {
    let Some(folder) = folder else { return Ok(Templates::default()) };
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::invalid(format!("--templates: cannot read {}: {error}", path.display()))
    };
    let mut found = BTreeMap::new();
    let mut left = vec![(folder.to_owned(), 0)];
    while let Some((path, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(cannot(&path, &format!("nested deeper than {MAX_DEPTH} folders; is there a symlink loop?")));
        }
        for entry in std::fs::read_dir(&path).map_err(|error| cannot(&path, &error))? {
            let entry = entry.map_err(|error| cannot(&path, &error))?;
            // A mounted ConfigMap has its versions beside its files, in folders with such names.
            if entry.file_name().to_string_lossy().starts_with("..") {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                left.push((path, depth + 1));
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(name, std::fs::read(&path).map_err(|error| cannot(&path, &error))?);
        }
    }
    Ok(Templates::default().overridden_by(found))
}
