//! Target state: the state of a machine that a MachineConfig describes, with every file's bytes, every unit, and the boot.

use std::collections::BTreeMap;
use std::sync::Arc;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::{Kernel, checked};
use seaworthy_ignition::body::BodyError;
use seaworthy_ignition::{Node, body_of, dropin_path, parse, unit_path};
use serde::Deserialize;
use serde_json::Value;

use crate::decide::kernel_arguments;

/// More than a configuration can hold, compressed or not.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
const DEFAULT_MODE: u32 = 0o644;
/// The account whose keys and password a configuration sets.
pub const CORE: &str = "core";

/// The state of a machine that a configuration describes.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// The name of the configuration.
    pub name: String,
    pub spec: Arc<MachineConfigSpec>,
    /// The image that was built for it; it takes precedence over the configuration's own.
    pub built_image: Option<String>,
    /// Files, units and drop-ins.
    pub paths: BTreeMap<String, TargetEntry>,
    /// Links of the configuration. Running machines only ever remove them.
    pub links: BTreeMap<String, String>,
    pub units: BTreeMap<String, TargetUnit>,
    /// The account `core`, if the configuration mentions it.
    pub core: Option<CoreUser>,
    /// Kernel arguments, one by one.
    pub arguments: Vec<String>,
    pub kernel: Kernel,
    pub extensions: Vec<String>,
}

/// The entry that a configuration wants at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEntry {
    File { bytes: Arc<[u8]>, mode: u32, user: AccountRef, group: AccountRef },
    Link(String),
    Absent,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRef {
    Id(u32),
    Name(String),
}

/// A unit of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetUnit {
    /// Whether the configuration has the contents of the unit file.
    pub has_contents: bool,
    pub is_masked: bool,
    /// `None` leaves it to the vendor's presets.
    pub is_enabled: Option<bool>,
}

/// The account `core`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CoreUser {
    /// Authorized SSH keys.
    pub keys: Vec<String>,
    /// The hash of the password.
    pub password: Option<String>,
}

impl std::fmt::Debug for CoreUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hash is a secret.
        f.debug_struct("Core").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// A configuration that cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("MachineConfig {name}: its Ignition config is not valid: {problems}")]
    Invalid {
        name: String,
        /// Each with its path in the config.
        problems: String,
    },
    /// A file that cannot be written.
    #[error("MachineConfig {name}: file {path}: {why}")]
    File { name: String, path: String, why: String },
    /// A file on the disk that is not a MachineConfig.
    #[error("{path} is not a MachineConfig: {why}")]
    Unreadable { path: String, why: String },
}

/// The name and the spec of a MachineConfig in a file on the disk.
pub(crate) fn parse_config_file(
    path: &str,
    bytes: &[u8],
) -> Result<(Option<String>, Arc<MachineConfigSpec>), TargetError> {
    #[derive(Deserialize)]
    struct ConfigFile {
        #[serde(default)]
        metadata: Metadata,
        spec: MachineConfigSpec,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        name: Option<String>,
    }
    let unreadable =
        |error: serde_json::Error| TargetError::Unreadable { path: path.to_owned(), why: error.to_string() };
    let file: ConfigFile = serde_json::from_slice(bytes).map_err(unreadable)?;
    Ok((file.metadata.name, Arc::new(file.spec)))
}

impl TargetState {
    pub fn parse(name: &str, spec: Arc<MachineConfigSpec>, built_image: Option<&str>) -> Result<Self, TargetError> {
        let mut target = TargetState {
            name: name.to_owned(),
            spec: Arc::clone(&spec),
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
        let bytes: Arc<[u8]> = match body_of(file, MAX_FILE_BYTES) {
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
            name.map(|name| AccountRef::Name(name.to_owned())).unwrap_or(AccountRef::Id(id.unwrap_or(0)))
        };
        let wanted = TargetEntry::File { bytes, mode, user: who("user"), group: who("group") };
        self.paths.insert(path.to_owned(), wanted);
        Ok(())
    }

    fn unit(&mut self, unit: &Node<'_>) -> Result<(), TargetError> {
        let name = unit.text_of("name");
        let path = unit_path(name);
        let text = |text: &str| TargetEntry::File {
            bytes: text.as_bytes().into(),
            mode: DEFAULT_MODE,
            user: AccountRef::Id(0),
            group: AccountRef::Id(0),
        };
        let wrong = |path: &str, why: String| TargetError::File { name: self.name.clone(), path: path.to_owned(), why };
        checked(&path).map_err(|error| wrong(&path, error.to_string()))?;
        for dropin in unit.list_of("dropins") {
            let path = dropin_path(name, dropin.text_of("name"));
            checked(&path).map_err(|error| wrong(&path, error.to_string()))?;
            let contents = dropin.text_of("contents");
            self.paths.insert(path, if contents.is_empty() { TargetEntry::Absent } else { text(contents) });
        }
        let contents = unit.text_of("contents");
        let mask = unit.bool_of("mask");
        let wanted = match (mask, contents) {
            (Some(true), _) => Some(TargetEntry::Link("/dev/null".to_owned())),
            (Some(false), "") => Some(TargetEntry::Absent),
            (_, "") => None,
            (_, contents) => Some(text(contents)),
        };
        if let Some(wanted) = wanted {
            self.paths.insert(path, wanted);
        }
        let known = TargetUnit {
            has_contents: !contents.is_empty(),
            is_masked: mask == Some(true),
            is_enabled: unit.bool_of("enabled"),
        };
        self.units.insert(name.to_owned(), known);
        Ok(())
    }
}
