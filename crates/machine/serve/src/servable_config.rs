//! [`ServableConfig`]: a rendered MachineConfig with the files that new machines need, in every Ignition version.
//!
//! The shared object is never modified: every version is built from a copy, so that all answers are equal.

use std::borrow::Cow;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig};
use seaworthy_api::meta::Base64;
use seaworthy_api::vocabulary::machineconfiguration::{State, annotation, node};
use seaworthy_ignition::node::{Map, Node, Origin, Value};
use seaworthy_ignition::{Problem, Version, data_url, parse, take_kernel_arguments, translate_down};
use seaworthy_values::list;
use serde::Serialize as _;
use serde_json::json;

use crate::remote_reference::{self, RemoteReference};

/// The CA of the API server, for the kubelet.
pub const KUBELET_CA_FILE: &str = "/etc/kubernetes/kubelet-ca.crt";
/// The CA of the cloud's API.
pub const CLOUD_CA_FILE: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
/// The annotations that the node daemon sets on its Node at first.
pub const NODE_ANNOTATIONS_FILE: &str = "/etc/machine-config-daemon/node-annotations.json";
/// The kubelet's bootstrap kubeconfig.
pub const KUBECONFIG_FILE: &str = "/etc/kubernetes/kubeconfig";
/// The MachineConfig that was served.
pub const MACHINE_CONFIG_FILE: &str = "/etc/mcs-machine-config-content.json";
/// The part of the MachineConfig that Ignition does not apply, for the first boot.
pub const ENCAPSULATED_FILE: &str = "/etc/ignition-machine-config-encapsulated.json";

/// The mode of every added file.
const FILE_MODE: i64 = 0o644;

/// The CA certificates of a ControllerConfig, as PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// Of the API server; empty if there is none.
    pub kubelet: Vec<u8>,
    /// Of the cloud; empty if there is none.
    pub cloud: Vec<u8>,
}

impl Authorities {
    /// Those of a ControllerConfig.
    pub fn of(config: &ControllerConfig) -> Result<Authorities, ServeError> {
        let decoded = |field: &'static str, data: Option<&Base64>| match data.map(Base64::decode) {
            None => Ok(Vec::new()),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(ServeError::Authority { field, error: error.to_string() }),
        };
        Ok(Authorities {
            kubelet: decoded("kubeAPIServerServingCAData", config.spec.kube_api_server_serving_ca_data.as_ref())?,
            cloud: decoded("cloudProviderCAData", config.spec.cloud_provider_ca_data.as_ref())?,
        })
    }
}

/// What is added to a MachineConfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    pub authorities: Authorities,
    /// The kubelet's bootstrap kubeconfig.
    pub kubeconfig: String,
    /// Image registries by host, with the CA of each.
    pub registries: Vec<(String, Vec<u8>)>,
}

/// Why a MachineConfig cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServeError {
    /// Its Ignition config is not valid.
    #[error("MachineConfig {name}: spec.config is not valid: {}", first(problems))]
    Invalid { name: String, problems: Vec<Problem> },
    /// It refers to remote content.
    #[error("MachineConfig {name}: spec.config.{remote}")]
    Remote { name: String, remote: RemoteReference },
    /// The version lacks something that it uses.
    #[error("MachineConfig {name}: cannot be expressed in Ignition {version}: {}", first(problems))]
    Version {
        name: String,
        /// The requested version.
        version: Version,
        problems: Vec<Problem>,
    },
    /// A CA of the ControllerConfig cannot be decoded.
    #[error("ControllerConfig: spec.{field} is not base64: {error}")]
    Authority { field: &'static str, error: String },
    /// It cannot be written as JSON.
    #[error("MachineConfig {name}: {error}")]
    Encoding { name: String, error: String },
}

/// The first problem, and how many more there are.
fn first(problems: &[Problem]) -> String {
    let shown = |problem: &Problem| format!("{}: {}", problem.path, problem.message);
    list::clauses(problems.iter().map(shown), 1)
}

/// A MachineConfig that is ready to be served in any version.
#[derive(Debug)]
pub struct ServableConfig {
    object: MachineConfig,
    /// The Ignition config in the internal version, with the files that do not depend on the version.
    config: Node<'static>,
    additions: Additions,
}

impl ServableConfig {
    /// Parses a MachineConfig, and rejects one that cannot be served in any version.
    pub fn new(object: &MachineConfig, additions: Additions) -> Result<ServableConfig, ServeError> {
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        let name = || object.metadata.name.clone().unwrap_or_default();
        let raw = object.spec.config.take().filter(|config| !config.is_null());
        let mut config = match &raw {
            None => Node::empty_config(Version::INTERNAL.as_str()),
            Some(raw) => {
                let node = Node::from_json(raw);
                if let Some(remote) = remote_reference::find(&node) {
                    return Err(ServeError::Remote { name: name(), remote });
                }
                let parsed = parse(&node).map_err(|problems| ServeError::Invalid { name: name(), problems })?;
                parsed.config.into_owned()
            }
        };
        set_ca_file(&mut config, KUBELET_CA_FILE, &additions.authorities.kubelet);
        set_ca_file(&mut config, CLOUD_CA_FILE, &additions.authorities.cloud);
        if let Some(image) = annotation::PRE_BUILT_IMAGE.of(&object.metadata).filter(|image| !image.is_empty()) {
            object.spec.os_image_url = Some(image.to_owned());
        }
        Ok(ServableConfig { object, config, additions })
    }

    /// The name of the MachineConfig.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// The config in a version, as it is served.
    pub fn serve(&self, version: Version) -> Result<Vec<u8>, ServeError> {
        let mut config = self.config.borrowed();
        let mut object = self.object.clone();
        if version < Version::V3_3 {
            // Ignition's own arguments are newer: first boot sets them, from the encapsulated file.
            let taken = take_kernel_arguments(&mut config);
            if !taken.is_empty() {
                object.spec.kernel_arguments.get_or_insert_default().extend(taken.into_iter().map(Cow::into_owned));
            }
        }
        // Differs: this is what is served, because that is what a reader of the file needs; upstream writes the object as it
        // was before any addition.
        object.spec.config = Some(config.to_json());
        let served = indented(&object).map_err(|error| self.encoding(error))?;
        put_file(&mut config, NODE_ANNOTATIONS_FILE, self.annotations().as_bytes());
        put_file(&mut config, KUBECONFIG_FILE, self.additions.kubeconfig.as_bytes());
        put_file(&mut config, MACHINE_CONFIG_FILE, &served);
        for (registry, authority) in &self.additions.registries {
            put_file(&mut config, &format!("/etc/docker/certs.d/{registry}/ca.crt"), authority);
        }
        encapsulate(&mut config, object, Some(version)).map_err(|error| self.encoding(error))?;
        let name = || self.name().to_owned();
        let refused = |problems| ServeError::Version { name: name(), version, problems };
        let translated = translate_down(&config, version).map_err(refused)?;
        serde_json::to_vec(&translated.to_json()).map_err(|error| self.encoding(error))
    }

    fn encoding(&self, error: serde_json::Error) -> ServeError {
        ServeError::Encoding { name: self.name().to_owned(), error: error.to_string() }
    }

    /// The first annotations of the machine's Node.
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

/// Adds the MachineConfig itself, with an empty Ignition config of the version, so that what Ignition does not apply reaches
/// the first boot. The default is the internal version.
pub fn encapsulate(
    config: &mut Node<'_>,
    mut object: MachineConfig,
    version: Option<Version>,
) -> Result<(), serde_json::Error> {
    let version = version.unwrap_or(Version::INTERNAL);
    object.spec.config = Some(Node::empty_config(version.as_str()).to_json());
    put_file(config, ENCAPSULATED_FILE, &serde_json::to_vec(&object)?);
    Ok(())
}

fn indented(object: &MachineConfig) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, format))?;
    Ok(bytes)
}

/// Sets the contents of a file of the config, and leaves its other fields; adds the file if there is none.
///
/// Differs: compression and hash of the old contents are removed, because they would not fit the new ones; upstream leaves
/// them. Without any bytes the file stays as it is.
fn set_ca_file(config: &mut Node<'static>, path: &str, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    match files(config).iter_mut().find(|file| file.text_of("path") == path) {
        Some(file) => {
            file.take("append");
            file.set("contents", contents(bytes));
        }
        None => put_file(config, path, bytes),
    }
}

/// Adds a file after all others.
///
/// Differs: an existing one at the same path is removed, because a config with both would not be valid; upstream serves
/// both.
fn put_file(config: &mut Node<'_>, path: &str, bytes: &[u8]) {
    let file = object([
        ("path", Value::Str(path.to_owned().into())),
        ("mode", Value::Int(FILE_MODE)),
        ("overwrite", Value::Bool(true)),
        ("contents", contents(bytes).value),
    ]);
    let files = files(config);
    files.retain(|file| file.text_of("path") != path);
    files.push(file);
}

fn contents<'a>(bytes: &[u8]) -> Node<'a> {
    // Differs: contents are base64 where that is shorter, because most are JSON, which percent-encoded is twice as long;
    // upstream percent-encodes all of them.
    object([("source", Value::Str(data_url::encode(bytes).into()))])
}

fn object<'a, const N: usize>(entries: [(&'static str, Value<'a>); N]) -> Node<'a> {
    let entries = entries.into_iter().map(|(key, value)| (Cow::Borrowed(key), Node::made(value)));
    Node::map_at(entries.collect(), Origin::NONE)
}

/// The list of files of a config, which is created if there is none.
fn files<'n, 'a>(config: &'n mut Node<'a>) -> &'n mut Vec<Node<'a>> {
    let storage = entry(config, "storage", Value::Map(Map::default()), |value| matches!(value, Value::Map(_)));
    let files = entry(storage, "files", Value::List(Vec::new()), |value| matches!(value, Value::List(_)));
    match &mut files.value {
        Value::List(list) => list,
        _ => unreachable!("entry() has made it a list"),
    }
}

/// The value of a key of an object, replaced by `otherwise` if there is none that fits.
fn entry<'n, 'a>(
    node: &'n mut Node<'a>,
    key: &'static str,
    otherwise: Value<'a>,
    fits: fn(&Value<'a>) -> bool,
) -> &'n mut Node<'a> {
    if !matches!(node.value, Value::Map(_)) {
        node.value = Value::Map(Map::default());
    }
    let Value::Map(map) = &mut node.value else { unreachable!("it was made an object above") };
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
