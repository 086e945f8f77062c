//! What a configuration wants of a machine: every file with its bytes, every unit, and what the next boot has.

use std::collections::BTreeMap;
use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::{Kernel, checked};
use seaworthy_ignition::body::BodyError;
use seaworthy_ignition::{Node, body_of, dropin_path, parse, unit_path};
use serde_json::Value;

use crate::decide::kernel_arguments;

/// More than a configuration can hold, packed or not.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;
const DEFAULT_MODE: u32 = 0o644;
/// The account whose keys and password a configuration sets.
pub const CORE: &str = "core";

/// What a configuration wants of a machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The configuration itself.
    pub spec: MachineConfigSpec,
    /// The image that was built for it; it goes before the configuration's own.
    pub built_image: Option<String>,
    /// What stands at every path: files, units, drop-ins.
    pub paths: BTreeMap<String, Wanted>,
    /// Links of the configuration. Running machines only ever remove them.
    pub links: BTreeMap<String, String>,
    /// Units by name.
    pub units: BTreeMap<String, Unit>,
    /// The account `core`, if the configuration speaks of it.
    pub core: Option<Core>,
    /// Kernel arguments, one by one.
    pub arguments: Vec<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// Features that are added to the operating system.
    pub extensions: Vec<String>,
}

/// What should stand at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A file.
    File {
        /// Its content.
        bytes: Arc<[u8]>,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        user: Who,
        /// Its group.
        group: Who,
    },
    /// A link.
    Link(String),
    /// Nothing.
    Nothing,
}

/// An account or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// By number.
    Id(u32),
    /// By name.
    Name(String),
}

/// A unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Whether there is content for its own file.
    pub has_contents: bool,
    /// Whether it must not be started.
    pub is_masked: bool,
    /// Whether it is started at boot.
    pub is_enabled: Option<bool>,
}

/// The account `core`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// Keys that let somebody in.
    pub keys: Vec<String>,
    /// The hash of the password.
    pub password: Option<String>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hash is a secret.
        f.debug_struct("Core").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Why a configuration cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The Ignition config is not valid.
    #[error("MachineConfig {name}: its Ignition config is not valid: {problems}")]
    Invalid {
        /// The configuration.
        name: String,
        /// What is wrong, each with its place.
        problems: String,
    },
    /// A file cannot be written.
    #[error("MachineConfig {name}: file {path}: {why}")]
    File {
        /// The configuration.
        name: String,
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The text on the disk is not a configuration.
    #[error("{path} is not a MachineConfig: {why}")]
    Unreadable {
        /// Where it stands.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Target {
    /// Reads a configuration.
    pub fn parse(name: &str, spec: &MachineConfigSpec, built_image: Option<&str>) -> Result<Self, TargetError> {
        let mut target = Target {
            name: name.to_owned(),
            spec: spec.clone(),
            built_image: built_image.filter(|image| !image.is_empty()).map(str::to_owned),
            paths: BTreeMap::new(),
            links: BTreeMap::new(),
            units: BTreeMap::new(),
            core: None,
            arguments: kernel_arguments::split(spec.kernel_arguments.iter().flatten()),
            kernel: match spec.kernel_type.as_deref() {
                Some("realtime") => Kernel::Realtime,
                Some("64k-pages") => Kernel::Pages64k,
                _ => Kernel::Default,
            },
            extensions: spec.extensions.clone().unwrap_or_default(),
        };
        if let Some(config) = &spec.config {
            target.read(config)?;
        }
        Ok(target)
    }

    /// The image of the operating system; empty if the configuration has none.
    pub fn image(&self) -> &str {
        self.built_image.as_deref().or(self.spec.os_image_url.as_deref()).unwrap_or_default()
    }

    /// The image with packages for extensions and other kernels.
    pub fn extensions_image(&self) -> Option<&str> {
        self.spec.base_os_extensions_container_image.as_deref().filter(|image| !image.is_empty())
    }

    fn read(&mut self, config: &Value) -> Result<(), TargetError> {
        let tree = Node::from_json(config);
        let parsed = parse(&tree).map_err(|problems| TargetError::Invalid {
            name: self.name.clone(),
            problems: problems
                .iter()
                .filter(|problem| problem.severity == seaworthy_ignition::Severity::Error)
                .map(|problem| format!("{}: {}", problem.path, problem.message))
                .collect::<Vec<_>>()
                .join("; "),
        })?;
        let config = &parsed.config;
        let list = |section: &str, name: &str| config.get(section).map(|section| section.list_of(name)).unwrap_or(&[]);
        for file in list("storage", "files") {
            self.file(file)?;
        }
        for link in list("storage", "links") {
            self.links.insert(link.text_of("path").to_owned(), link.text_of("target").to_owned());
        }
        for unit in list("systemd", "units") {
            self.unit(unit)?;
        }
        for user in list("passwd", "users") {
            let core = self.core.get_or_insert_default();
            core.keys.extend(user.list_of("sshAuthorizedKeys").iter().filter_map(Node::as_str).map(str::to_owned));
            if let Some(hash) = user.str_of("passwordHash").filter(|hash| !hash.is_empty()) {
                core.password = Some(hash.to_owned());
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &Node<'_>) -> Result<(), TargetError> {
        let path = file.text_of("path");
        let wrong = |why: String| TargetError::File { name: self.name.clone(), path: path.to_owned(), why };
        checked(path).map_err(|error| wrong(error.to_string()))?;
        if !file.list_of("append").is_empty() {
            return Err(wrong("a running machine cannot append to a file; write its whole content".to_owned()));
        }
        let bytes: Arc<[u8]> = match body_of(file, LARGEST_FILE) {
            Ok(bytes) => bytes.as_ref().into(),
            Err(BodyError::NoSource) => Arc::new([]),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mode = match file.int_of("mode") {
            None => DEFAULT_MODE,
            Some(mode) => u32::try_from(mode)
                .ok()
                .filter(|mode| *mode <= 0o7777)
                .ok_or_else(|| wrong(format!("mode {mode:o} is not one of 0 to 7777")))?,
        };
        let who = |key: &str| {
            let node = file.get(key);
            let name = node.and_then(|node| node.str_of("name")).filter(|name| !name.is_empty());
            let id = node.and_then(|node| node.int_of("id")).and_then(|id| u32::try_from(id).ok());
            name.map(|name| Who::Name(name.to_owned())).unwrap_or(Who::Id(id.unwrap_or(0)))
        };
        let wanted = Wanted::File { bytes, mode, user: who("user"), group: who("group") };
        self.paths.insert(path.to_owned(), wanted);
        Ok(())
    }

    fn unit(&mut self, unit: &Node<'_>) -> Result<(), TargetError> {
        let name = unit.text_of("name");
        let path = unit_path(name);
        let text = |text: &str| Wanted::File {
            bytes: text.as_bytes().into(),
            mode: DEFAULT_MODE,
            user: Who::Id(0),
            group: Who::Id(0),
        };
        let wrong = |path: &str, why: String| TargetError::File { name: self.name.clone(), path: path.to_owned(), why };
        checked(&path).map_err(|error| wrong(&path, error.to_string()))?;
        for dropin in unit.list_of("dropins") {
            let path = dropin_path(name, dropin.text_of("name"));
            checked(&path).map_err(|error| wrong(&path, error.to_string()))?;
            let contents = dropin.text_of("contents");
            self.paths.insert(path, if contents.is_empty() { Wanted::Nothing } else { text(contents) });
        }
        let contents = unit.text_of("contents");
        let mask = unit.bool_of("mask");
        let wanted = match (mask, contents) {
            (Some(true), _) => Some(Wanted::Link("/dev/null".to_owned())),
            (Some(false), "") => Some(Wanted::Nothing),
            (_, "") => None,
            (_, contents) => Some(text(contents)),
        };
        if let Some(wanted) = wanted {
            self.paths.insert(path, wanted);
        }
        let known = Unit {
            has_contents: !contents.is_empty(),
            is_masked: mask == Some(true),
            is_enabled: unit.bool_of("enabled"),
        };
        self.units.insert(name.to_owned(), known);
        Ok(())
    }
}
