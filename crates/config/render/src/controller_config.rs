//! Inputs of rendering from the ControllerConfig and the OSImageStream.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration as api;
use seaworthy_ignition::Path;
use seaworthy_ignition::node::Node;

use crate::finding::Finding;
use crate::inspection::Inspection;
use crate::{keys, kinds};

/// The ControllerConfig, as far as rendering looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerConfig {
    /// The OS image of pools that choose none.
    pub os_image: String,
    /// The image with the extensions for that OS.
    pub extensions_image: String,
    /// The release, for the annotation of rendered configs.
    pub release_version: String,
}

impl ControllerConfig {
    /// Takes a manifest. The error is everything that is wrong with what rendering takes from it.
    pub fn read(object: &Node<'_>) -> Result<Self, Vec<Finding>> {
        let mut inspection = Inspection::new(kinds::CONTROLLER_CONFIG, "wrong-type", object);
        inspection.map(object.get("spec"), &Path::of(&["spec"]));
        let mut text = |keys: &[&str]| inspection.text(object, keys).map(str::to_owned);
        let read = ControllerConfig {
            os_image: text(&["spec", "baseOSContainerImage"]).unwrap_or_default(),
            extensions_image: text(&["spec", "baseOSExtensionsContainerImage"]).unwrap_or_default(),
            release_version: text(&["metadata", "annotations", keys::RELEASE_VERSION]).unwrap_or_default(),
        };
        if inspection.has_errors() { Err(inspection.finish()) } else { Ok(read) }
    }

    /// Takes an object of the API.
    pub fn of(object: &api::ControllerConfig) -> Self {
        let annotation = |key: &str| object.metadata.annotations.as_ref()?.get(key).cloned();
        ControllerConfig {
            os_image: object.spec.base_os_container_image.clone().unwrap_or_default(),
            extensions_image: object.spec.base_os_extensions_container_image.clone().unwrap_or_default(),
            release_version: annotation(keys::RELEASE_VERSION).unwrap_or_default(),
        }
    }
}

/// The OS images that a cluster offers by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsImageStreams {
    /// The name of the one for pools that ask for none.
    pub default: String,
    /// The images by name.
    pub streams: BTreeMap<String, OsImages>,
}

/// An OS image and its extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsImages {
    pub os: String,
    pub extensions: String,
}

impl OsImageStreams {
    /// Takes a manifest of the kind OSImageStream. The error is everything that is wrong with what rendering takes from
    /// it.
    pub fn read(object: &Node<'_>) -> Result<Self, Vec<Finding>> {
        let mut inspection = Inspection::new(kinds::OS_IMAGE_STREAM, "wrong-type", object);
        let path = Path::of(&["status"]);
        let mut read = OsImageStreams {
            default: inspection.text(object, &["status", "defaultStream"]).unwrap_or_default().to_owned(),
            streams: BTreeMap::new(),
        };
        let available = inspection.map(object.get("status"), &path).and_then(|status| status.get("availableStreams"));
        let path = path.key("availableStreams");
        match available.filter(|available| !available.is_null()) {
            Some(node) if node.as_list().is_none() => inspection.wrong(path, node, "a list of streams"),
            Some(node) => {
                for (index, stream) in node.as_list().unwrap_or_default().iter().enumerate() {
                    let path = path.clone().index(index);
                    if stream.as_map().is_none() {
                        inspection.wrong(path, stream, "an object with name, osImage and osExtensionsImage");
                        continue;
                    }
                    let mut text = |key: &str| {
                        let node = stream.get(key).filter(|node| !node.is_null());
                        if let Some(node) = node.filter(|node| node.as_str().is_none()) {
                            inspection.no_string(path.clone().key(key), node);
                        }
                        stream.text_of(key).to_owned()
                    };
                    let images = OsImages { os: text("osImage"), extensions: text("osExtensionsImage") };
                    read.streams.insert(text("name"), images);
                }
            }
            None => {}
        }
        if inspection.has_errors() { Err(inspection.finish()) } else { Ok(read) }
    }
}
