//! `cargo xtask protobuf`: generates the table of the built-in kinds' protobuf fields and their JSON names.
//!
//! - The result is `crates/control-plane/apiserver/data/protobuf.txt`, committed, so that a build needs nothing but the repository.
//! - Field numbers and types come from the `generated.proto` files of Kubernetes' modules. Names in JSON, inlining and
//!   what is left out when empty come from the tags of the Go types, because the two differ.
//! - A type that writes its JSON by itself must be one that [`spelling`] knows: a new one is an error here, not a wrong
//!   answer there.

mod golang;
mod proto;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use self::golang::{Declaration, Sources};
use self::proto::{Definitions, Repetition};
use crate::workspace::Workspace;

/// Where the result goes, from the root of the workspace.
const TABLE: &str = "crates/control-plane/apiserver/data/protobuf.txt";
/// What is served, from the root of the workspace: the kinds to start from.
const DISCOVERY: &str = "crates/control-plane/apiserver/data/discovery.json";
/// The release of Kubernetes' modules.
const RELEASE: &str = "v0.37.2";
/// The options that are sent in a body, whatever the group.
const DELETE_OPTIONS: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions";

const HEADER: &str = "\
# The protobuf form of the built-in kinds. Made by `cargo xtask protobuf`; do not edit.
# Facts from k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver @RELEASE@,
# copyright The Kubernetes Authors, Apache License, Version 2.0.
#
# kind VERSION KIND MESSAGE     the message of a kind; * is every version
# message NAME                  a message and, below it, its fields
#  NUMBER NAME TYPE             NAME is that in JSON, or . for a message whose fields lie beside it
#                               []TYPE is a list, {}TYPE a map from text; TYPE? is left out when it is zero
# list NAME TYPE                a message whose JSON is the list in its field 1
# choice NAME                   a message whose JSON is that of its field with the highest number
";

/// What `cargo xtask protobuf` takes.
#[derive(Args)]
pub struct ProtobufArgs {
    /// The module cache of Go, with k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver in it.
    #[arg(long)]
    modules: PathBuf,
}

/// Writes the table again.
pub fn run(workspace: &Workspace, args: &ProtobufArgs) -> Result<bool> {
    let text = table(&args.modules, &workspace.root.join(DISCOVERY))?;
    let path = workspace.root.join(TABLE);
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} bytes in {}", text.len(), path.display());
    Ok(true)
}

/// How a message with a JSON form of its own is called in the table.
fn spelling(message: &str) -> Option<&'static str> {
    Some(match message {
        "k8s.io.apimachinery.pkg.api.resource.Quantity" => "quantity",
        "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1" => "json",
        "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime" => "micro-time",
        "k8s.io.apimachinery.pkg.apis.meta.v1.Time" => "time",
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString" => "int-or-string",
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON" => "json",
        _ => return None,
    })
}

/// Messages whose JSON is that of one of their fields: the one with the highest number that is there.
const CHOICES: [&str; 3] = [
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

fn table(modules: &Path, discovery: &Path) -> Result<String> {
    let kinds = kinds(discovery)?;
    let mut packages = Packages { modules: modules.to_owned(), read: BTreeMap::new() };
    let mut to_see: Vec<String> = kinds.values().cloned().collect();
    let mut blocks: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while let Some(message) = to_see.pop() {
        if seen.insert(message.clone()) {
            blocks.insert(short(&message)?, packages.block(&message, &mut to_see)?);
        }
    }
    let mut text = HEADER.replace("@RELEASE@", RELEASE);
    for ((version, kind), message) in &kinds {
        text.push_str(&format!("kind {version} {kind} {}\n", short(message)?));
    }
    text.extend(blocks.into_values());
    Ok(text)
}

/// Everything that may be the body of a request: the message by version and kind.
fn kinds(discovery: &Path) -> Result<BTreeMap<(String, String), String>> {
    let text = fs::read_to_string(discovery).with_context(|| format!("cannot read {}", discovery.display()))?;
    let groups: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", discovery.display()))?;
    let mut kinds = BTreeMap::from([(("*".to_owned(), "DeleteOptions".to_owned()), DELETE_OPTIONS.to_owned())]);
    for served in &groups {
        let resources = served["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
        for resource in resources {
            let subresources = resource["subresources"].as_array().map(Vec::as_slice).unwrap_or_default();
            for response in std::iter::once(resource).chain(subresources).map(|part| &part["responseKind"]) {
                let is_own = response["version"] == "";
                let place = if is_own { served } else { response };
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (group, version, kind) = (text(&place["group"]), text(&place["version"]), text(&response["kind"]));
                let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                kinds.insert((api_version, kind.clone()), format!("{}.{kind}", package_of(&group, &version)));
            }
        }
    }
    Ok(kinds)
}

/// The proto package of a group and version.
fn package_of(group: &str, version: &str) -> String {
    match group.split('.').next().unwrap_or_default() {
        "" => format!("k8s.io.api.core.{version}"),
        "apiextensions" => format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}"),
        name => format!("k8s.io.api.{name}.{version}"),
    }
}

/// `k8s.io.api.core.v1.Pod` as `core/v1.Pod`: enough to distinguish messages.
fn short(message: &str) -> Result<String> {
    match *message.rsplitn(4, '.').collect::<Vec<_>>() {
        [name, version, group, _] => Ok(format!("{group}/{version}.{name}")),
        _ => bail!("{message} is in no package"),
    }
}

/// The packages that were read so far, by name.
struct Packages {
    modules: PathBuf,
    read: BTreeMap<String, (Definitions, Sources)>,
}

impl Packages {
    fn package(&mut self, name: &str) -> Result<&(Definitions, Sources)> {
        if !self.read.contains_key(name) {
            let path = name.replace("k8s.io.", "").replace('_', "-");
            let (module, below) = path.split_once('.').with_context(|| format!("{name} is no package of a module"))?;
            let folder = self.modules.join(format!("k8s.io/{module}@{RELEASE}")).join(below.replace('.', "/"));
            let read = (Definitions::read(&folder.join("generated.proto"), name)?, Sources::read(&folder)?);
            self.read.insert(name.to_owned(), read);
        }
        self.read.get(name).with_context(|| format!("{name} was not read"))
    }

    /// The lines of one message. What it refers to is added to `to_see`.
    fn block(&mut self, message: &str, to_see: &mut Vec<String>) -> Result<String> {
        let (package, name) = message.rsplit_once('.').with_context(|| format!("{message} is in no package"))?;
        let called = short(message)?;
        let (definitions, sources) = self.package(package)?;
        let fields = definitions.messages.get(name).with_context(|| format!("no message {message}"))?;
        let declaration = sources.types.get(name).with_context(|| format!("no Go type for {message}"))?;
        let is_choice = CHOICES.contains(&message);
        if sources.marshallers.contains(name) != is_choice {
            bail!("{message} writes its JSON by itself: say how in xtask/src/protobuf.rs");
        }
        let mut seen = |kind: &str| -> Result<String> {
            if !kind.contains('.') {
                return Ok(kind.to_owned());
            }
            if let Some(word) = spelling(kind) {
                return Ok(word.to_owned());
            }
            to_see.push(kind.to_owned());
            short(kind)
        };
        let tags = match declaration {
            Declaration::Struct(tags) => tags,
            Declaration::Slice => {
                let [only] = fields.as_slice() else { bail!("{message} is a list with more than one field") };
                return Ok(format!("list {called} {}\n", seen(&only.kind)?));
            }
        };
        let mut text = format!("{} {called}\n", if is_choice { "choice" } else { "message" });
        for field in fields {
            let tag = tags.iter().find(|tag| tag.number == field.number);
            let tag = tag.with_context(|| format!("{message}.{} has no tag in Go", field.name))?;
            if let Some(name) = tag.proto_name.as_ref().filter(|name| **name != field.name) {
                bail!("{message}: field {} is {name} in Go, {} in proto", field.number, field.name);
            }
            let is_message = field.kind.contains('.');
            let kind = seen(&field.kind)?;
            let name = match tag.json_name.as_str() {
                "-" => bail!("{message}.{} is not in JSON: say what becomes of it", field.name),
                "" if is_choice => &field.name,
                "" if tag.is_embedded && is_message => ".",
                "" => bail!("{message}.{} has no name in JSON", field.name),
                name => name,
            };
            let repetition = match field.repetition {
                Repetition::One => "",
                Repetition::List => "[]",
                Repetition::Map => "{}",
            };
            // Go leaves out structures only with `omitzero`, and what a pointer points to never.
            let is_plain = field.repetition == Repetition::One && !tag.is_pointer;
            let leaves_out = tag.omits_zero || tag.omits_empty && !is_message;
            let mark = if is_plain && leaves_out { "?" } else { "" };
            text.push_str(&format!(" {} {name} {repetition}{kind}{mark}\n", field.number));
        }
        Ok(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn table_is_what_the_modules_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let modules = env::var_os("GOMODCACHE").map(PathBuf::from);
        let modules = modules.or_else(|| Some(env::home_dir()?.join("go/pkg/mod"))).unwrap();
        for module in ["api", "apimachinery", "apiextensions-apiserver"] {
            if !modules.join(format!("k8s.io/{module}@{RELEASE}")).is_dir() {
                eprintln!("skipped: k8s.io/{module}@{RELEASE} is not in the module cache");
                return;
            }
        }
        let committed = fs::read_to_string(root.join(TABLE)).unwrap();
        let made = table(&modules, &root.join(DISCOVERY)).unwrap();
        assert!(committed == made, "{TABLE} is not what `cargo xtask protobuf` makes");
    }

    #[test]
    fn message_is_called_by_group_version_and_name() {
        assert_eq!(short("k8s.io.api.core.v1.Pod").unwrap(), "core/v1.Pod");
        assert!(short("Pod").is_err());
    }
}
