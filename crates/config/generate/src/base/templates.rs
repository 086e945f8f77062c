//! The templates as they come with the program, and as a folder of the user's overrides them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::template::{TemplateError, Variables, filled};
use crate::generated::GeneratedFile;

/// Templates by their path in the folder `templates`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates(BTreeMap<String, Vec<u8>>);

/// The parts of the base: folder of the templates, and ending of the MachineConfig's name behind the role.
pub(super) const PARTS: [(&str, &str, &str); 3] =
    [("00", "00", ""), ("01-kubelet", "01", "-kubelet"), ("01-container-runtime", "01", "-container-runtime")];

/// The folder for all roles.
const COMMON: &str = "common";

macro_rules! templates {
    ($($path:literal),+ $(,)?) => { &[$(($path, include_bytes!(concat!("../../templates/", $path)))),+] };
}

const BUILT_IN: &[(&str, &[u8])] = templates![
    "common/00/files/etc/kubernetes/ca.crt",
    "common/00/files/etc/kubernetes/kubelet-ca.crt",
    "common/00/files/etc/kubernetes/proxy.env",
    "common/00/files/etc/modules-load.d/kubelet.conf",
    "common/00/files/etc/sysctl.d/90-kubelet.conf",
    "common/01-container-runtime/files/etc/containers/policy.json",
    "common/01-container-runtime/files/etc/containers/registries.conf",
    "common/01-container-runtime/files/etc/containers/storage.conf",
    "common/01-container-runtime/files/etc/crio/crio.conf.d/00-default",
    "common/01-kubelet/files/etc/systemd/system/kubelet.service.d/20-logging.conf",
    "common/01-kubelet/programs/usr/local/sbin/node-sizing",
    "common/01-kubelet/units/kubelet.service",
    "common/01-kubelet/units/node-sizing.service",
    "master/01-kubelet/files/etc/kubernetes/kubelet.conf",
    "master/01-kubelet/files/etc/node-sizing-enabled.env",
    "worker/01-kubelet/files/etc/kubernetes/kubelet.conf",
    "worker/01-kubelet/files/etc/node-sizing-enabled.env",
];

impl Default for Templates {
    fn default() -> Self {
        Templates(BUILT_IN.iter().map(|(path, text)| ((*path).to_owned(), text.to_vec())).collect())
    }
}

impl Templates {
    /// The templates with those of a folder in their place: a path that exists is replaced, a new one is added, and one
    /// of no bytes takes the template away.
    #[must_use]
    pub fn overridden_by(mut self, folder: BTreeMap<String, Vec<u8>>) -> Self {
        self.0.extend(folder);
        self
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Files and units of one part for a role. What renders to blanks is left out.
    pub(super) fn part(
        &self,
        role: &str,
        part: &str,
        variables: &Variables,
    ) -> Result<(Vec<GeneratedFile>, Vec<Value>), Vec<TemplateError>> {
        // The role's own come later and so replace the common ones of the same place.
        let mut chosen: BTreeMap<(&str, &str), (&str, &[u8])> = BTreeMap::new();
        for layer in [COMMON, role] {
            for (path, content) in &self.0 {
                let place = path.strip_prefix(layer).and_then(|rest| rest.strip_prefix('/'));
                let place = place.and_then(|rest| rest.strip_prefix(part)).and_then(|rest| rest.strip_prefix('/'));
                if let Some((category, place)) = place.and_then(|rest| rest.split_once('/')) {
                    chosen.insert((category, place), (path, content));
                }
            }
        }
        let (mut files, mut units, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for ((category, place), (path, content)) in chosen {
            if content.is_empty() {
                continue;
            }
            let text = match std::str::from_utf8(content) {
                Ok(text) => filled(path, text, variables),
                Err(_) => Err(vec![TemplateError::NotText { template: path.to_owned() }]),
            };
            match text {
                Err(found) => errors.extend(found),
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => match category {
                    "units" => units.push(unit(place, &text)),
                    _ => {
                        let mode = if category == "programs" { 0o755 } else { 0o644 };
                        files.push(GeneratedFile { mode, ..GeneratedFile::new(format!("/{place}"), text) });
                    }
                },
            }
        }
        if errors.is_empty() { Ok((files, units)) } else { Err(errors) }
    }

    /// Templates that lie where none belongs.
    pub(super) fn misplaced(&self) -> Vec<TemplateError> {
        let is_placed = |path: &str| {
            let mut steps = path.splitn(4, '/');
            let (layer, part, category, place) = (steps.next(), steps.next(), steps.next(), steps.next());
            let is_part = part.is_some_and(|part| PARTS.iter().any(|(folder, _, _)| *folder == part));
            let is_place = place.is_some_and(|place| {
                let is_sound = !place.split('/').any(|step| matches!(step, "" | "." | ".."));
                match category {
                    Some("files" | "programs") => is_sound,
                    Some("units") => is_sound && !place.contains('/'),
                    _ => false,
                }
            });
            matches!(layer, Some(COMMON | "master" | "worker")) && is_part && is_place
        };
        let misplaced = self.paths().filter(|path| !is_placed(path));
        misplaced.map(|path| TemplateError::Misplaced { template: path.to_owned() }).collect()
    }
}

/// A unit; one that says how to enable it is enabled.
fn unit(name: &str, text: &str) -> Value {
    let mut unit = json!({"name": name, "contents": text});
    if text.lines().any(|line| line.trim() == "[Install]") {
        unit["enabled"] = true.into();
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        fn walk(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut found = Vec::new();
        walk(&root, &mut found);
        let mut found: Vec<String> =
            found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
        found.sort();
        assert_eq!(Templates::default().paths().collect::<Vec<_>>(), found);
    }

    #[test]
    fn the_built_in_ones_lie_where_they_belong() {
        assert_eq!(Templates::default().misplaced(), []);
    }
}
