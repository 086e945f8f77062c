//! What is added to a pool's config, and what it becomes in each version.
//!
//! The object that is shared is never touched: every version is made from a copy, so the hundredth answer is the first
//! one again.

use std::borrow::Cow;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
use seaworthy_api::meta::Base64;
use seaworthy_api::vocabulary::machineconfiguration::{State, annotation, node};
use seaworthy_ignition::node::{Map, Node, Origin, Value};
use seaworthy_ignition::{Problem, Version, data_url, parse, take_kernel_arguments, translate_down};
use serde::Serialize as _;
use serde_json::json;

use crate::remote::{self, Remote};

/// Where the kubelet finds who vouches for the API server.
pub const KUBELET_AUTHORITY: &str = "/etc/kubernetes/kubelet-ca.crt";
/// Where the cloud's client finds who vouches for the cloud.
pub const CLOUD_AUTHORITY: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
/// What the node daemon puts on its Node at first.
pub const NODE_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
/// With what the kubelet asks to join.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// The MachineConfig that was served.
pub const MACHINE_CONFIG: &str = "/etc/mcs-machine-config-content.json";
/// What Ignition does not do itself, for the first boot.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

/// The mode of every file that is added.
const MODE: i64 = 0o644;

/// Who vouches for what, as the ControllerConfig has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// For the API server; empty if there is nobody.
    pub kubelet: Vec<u8>,
    /// For the cloud; empty if there is nobody.
    pub cloud: Vec<u8>,
}

impl Authorities {
    /// Those of a ControllerConfig.
    pub fn of(config: &ControllerConfig) -> Result<Authorities, Refusal> {
        let decoded = |field: &'static str, data: Option<&Base64>| match data.map(Base64::decode) {
            None => Ok(Vec::new()),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(Refusal::Authority { field, error: error.to_string() }),
        };
        Ok(Authorities {
            kubelet: decoded("kubeAPIServerServingCAData", config.spec.kube_api_server_serving_ca_data.as_ref())?,
            cloud: decoded("cloudProviderCAData", config.spec.cloud_provider_ca_data.as_ref())?,
        })
    }
}

/// What is added beside the MachineConfig itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// Who vouches for what.
    pub authorities: Authorities,
    /// The kubelet's kubeconfig.
    pub kubeconfig: String,
    /// Registries by host, with who vouches for each.
    pub registries: Vec<(String, Vec<u8>)>,
}

/// Why a MachineConfig cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// Its Ignition config is not valid.
    #[error("MachineConfig {name}: spec.config is not valid: {}", first(problems))]
    Invalid {
        /// The MachineConfig.
        name: String,
        /// What is wrong.
        problems: Vec<Problem>,
    },
    /// A part of it lies elsewhere.
    #[error("MachineConfig {name}: spec.config.{remote}")]
    Remote {
        /// The MachineConfig.
        name: String,
        /// Which.
        remote: Remote,
    },
    /// The version cannot say it.
    #[error("MachineConfig {name}: version {version} cannot say it: {}", first(problems))]
    Version {
        /// The MachineConfig.
        name: String,
        /// The version that was asked for.
        version: Version,
        /// What it cannot say.
        problems: Vec<Problem>,
    },
    /// What the ControllerConfig has cannot be read.
    #[error("ControllerConfig: spec.{field} is not base64: {error}")]
    Authority {
        /// The field.
        field: &'static str,
        /// What is wrong.
        error: String,
    },
    /// It cannot be written as JSON.
    #[error("MachineConfig {name}: {error}")]
    Encoding {
        /// The MachineConfig.
        name: String,
        /// What is wrong.
        error: String,
    },
}

/// The first problem, and how many more there are.
fn first(problems: &[Problem]) -> String {
    let Some(first) = problems.first() else { return String::new() };
    let more = match problems.len() - 1 {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    format!("{}: {}{more}", first.path, first.message)
}

/// A MachineConfig that is ready to be served in any version.
#[derive(Debug)]
pub struct Dish {
    object: MachineConfig,
    /// The Ignition config in 3.5, with what every version has.
    config: Node<'static>,
    additions: Additions,
}

impl Dish {
    /// Reads a MachineConfig, and refuses one that cannot be served in any version.
    pub fn new(object: &MachineConfig, additions: Additions) -> Result<Dish, Refusal> {
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        let name = || object.metadata.name.clone().unwrap_or_default();
        let raw = object.spec.config.take().filter(|config| !config.is_null());
        let mut config = match &raw {
            None => Node::empty_config(Version::INTERNAL.as_str()),
            Some(raw) => {
                let node = Node::from_json(raw);
                if let Some(remote) = remote::find(&node) {
                    return Err(Refusal::Remote { name: name(), remote });
                }
                let parsed = parse(&node).map_err(|problems| Refusal::Invalid { name: name(), problems })?;
                parsed.config.into_owned()
            }
        };
        put_authority(&mut config, KUBELET_AUTHORITY, &additions.authorities.kubelet);
        put_authority(&mut config, CLOUD_AUTHORITY, &additions.authorities.cloud);
        if let Some(image) = annotation::PRE_BUILT_IMAGE.of(&object.metadata).filter(|image| !image.is_empty()) {
            object.spec.os_image_url = Some(image.to_owned());
        }
        Ok(Dish { object, config, additions })
    }

    /// The name of the MachineConfig.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// The config in a version, as it is served.
    pub fn serve(&self, version: Version) -> Result<Vec<u8>, Refusal> {
        let mut config = self.config.borrowed();
        let mut object = self.object.clone();
        if version < Version::V3_3 {
            // Ignition's own arguments are newer: first boot sets them, from the encapsulated file.
            let taken = take_kernel_arguments(&mut config);
            if !taken.is_empty() {
                object.spec.kernel_arguments.get_or_insert_default().extend(taken.into_iter().map(Cow::into_owned));
            }
        }
        // Differs: this is what is served, because whoever looks at it wants to know that; upstream writes down what it had
        // before it changed anything.
        object.spec.config = Some(config.to_json());
        let whole = indented(&object).map_err(|error| self.encoding(error))?;
        put(&mut config, NODE_ANNOTATIONS, self.annotations().as_bytes());
        put(&mut config, KUBECONFIG, self.additions.kubeconfig.as_bytes());
        put(&mut config, MACHINE_CONFIG, &whole);
        for (registry, authority) in &self.additions.registries {
            put(&mut config, &format!("/etc/docker/certs.d/{registry}/ca.crt"), authority);
        }
        encapsulate(&mut config, object, Some(version)).map_err(|error| self.encoding(error))?;
        let name = || self.name().to_owned();
        let refused = |problems| Refusal::Version { name: name(), version, problems };
        let translated = translate_down(&config, version).map_err(refused)?;
        serde_json::to_vec(&translated.to_json()).map_err(|error| self.encoding(error))
    }

    fn encoding(&self, error: serde_json::Error) -> Refusal {
        Refusal::Encoding { name: self.name().to_owned(), error: error.to_string() }
    }

    /// What the node daemon finds out about itself at first.
    fn annotations(&self) -> String {
        let name = self.name();
        let mut annotations = json!({
            node::CURRENT_CONFIG.as_str(): name,
            node::DESIRED_CONFIG.as_str(): name,
            node::FIRST_PIVOT_CONFIG.as_str(): name,
            node::STATE.as_str(): State::Done.as_str(),
        });
        if let Some(image) = annotation::PRE_BUILT_IMAGE.of(&self.object.metadata).filter(|image| !image.is_empty()) {
            annotations[node::CURRENT_IMAGE.as_str()] = image.into();
            annotations[node::DESIRED_IMAGE.as_str()] = image.into();
        }
        annotations.to_string()
    }
}

/// Adds the MachineConfig itself, with an empty Ignition config of the version, so that what Ignition does not do reaches
/// the first boot. Without a version it is the internal one.
pub fn encapsulate(
    config: &mut Node<'_>,
    mut object: MachineConfig,
    version: Option<Version>,
) -> Result<(), serde_json::Error> {
    let version = version.unwrap_or(Version::INTERNAL);
    object.spec.config = Some(Node::empty_config(version.as_str()).to_json());
    put(config, ENCAPSULATED, &serde_json::to_vec(&object)?);
    Ok(())
}

fn indented(object: &MachineConfig) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, format))?;
    Ok(bytes)
}

/// Gives a file of the config these bytes, and leaves the rest of it as it is; adds the file if there is none.
///
/// Differs: the way in which the old bytes were packed and their hash go with them, because they would not fit the new
/// ones; upstream leaves them. Without any bytes the file stays as it is.
fn put_authority(config: &mut Node<'static>, path: &str, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    match files(config).iter_mut().find(|file| file.text_of("path") == path) {
        Some(file) => {
            file.take("append");
            file.set("contents", contents(bytes));
        }
        None => put(config, path, bytes),
    }
}

/// Adds a file behind all others.
///
/// Differs: an older one at the same path goes, because a config with both would not be valid; upstream serves both.
fn put(config: &mut Node<'_>, path: &str, bytes: &[u8]) {
    let file = object([
        ("path", Value::Str(path.to_owned().into())),
        ("mode", Value::Int(MODE)),
        ("overwrite", Value::Bool(true)),
        ("contents", contents(bytes).value),
    ]);
    let files = files(config);
    files.retain(|file| file.text_of("path") != path);
    files.push(file);
}

fn contents<'a>(bytes: &[u8]) -> Node<'a> {
    // Differs: a body is base64 where that is shorter, because most are JSON, which escaped is twice as long; upstream
    // escapes all of them.
    object([("source", Value::Str(data_url::encode(bytes).into()))])
}

fn object<'a, const N: usize>(entries: [(&'static str, Value<'a>); N]) -> Node<'a> {
    let entries = entries.into_iter().map(|(key, value)| (Cow::Borrowed(key), Node::made(value)));
    Node::map_at(entries.collect(), Origin::NONE)
}

/// The files of a config, which has such a list afterwards if it had none.
fn files<'n, 'a>(config: &'n mut Node<'a>) -> &'n mut Vec<Node<'a>> {
    let storage = entry(config, "storage", Value::Map(Map::default()), |value| matches!(value, Value::Map(_)));
    let files = entry(storage, "files", Value::List(Vec::new()), |value| matches!(value, Value::List(_)));
    match &mut files.value {
        Value::List(list) => list,
        _ => unreachable!("it was made a list above if it was none"),
    }
}

/// The value under a key of an object; `otherwise` if there is none that fits.
fn entry<'n, 'a>(
    node: &'n mut Node<'a>,
    key: &'static str,
    otherwise: Value<'a>,
    fits: fn(&Value<'a>) -> bool,
) -> &'n mut Node<'a> {
    if !matches!(node.value, Value::Map(_)) {
        node.value = Value::Map(Map::default());
    }
    let Value::Map(map) = &mut node.value else { unreachable!("it was made an object above if it was none") };
    let at = match map.0.iter().position(|(name, _)| name == key) {
        Some(at) => at,
        None => {
            map.0.push((key.into(), Node::made(Value::Null)));
            map.0.len() - 1
        }
    };
    let found = &mut map.0[at].1;
    if !fits(&found.value) {
        found.value = otherwise;
    }
    found
}
