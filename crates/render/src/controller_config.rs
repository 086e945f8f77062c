//! What rendering takes from the ControllerConfig and from the controller itself.

use std::collections::BTreeMap;

use seaworthy_ignition::node::Node;

use crate::keys;

/// The ControllerConfig, as far as rendering looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerConfig {
    /// The OS image of pools that choose none.
    pub os_image: String,
    /// The image with the extensions for that OS.
    pub extensions_image: String,
    /// The release, for the annotation of rendered configs.
    pub release_version: String,
    /// The operator that wrote it.
    pub generated_by_version: Option<String>,
}

impl ControllerConfig {
    /// Takes a manifest.
    pub fn read(object: &Node<'_>) -> Self {
        let text = |keys: &[&str]| object.dig(keys).and_then(Node::as_str).unwrap_or_default().to_owned();
        ControllerConfig {
            os_image: text(&["spec", "baseOSContainerImage"]),
            extensions_image: text(&["spec", "baseOSExtensionsContainerImage"]),
            release_version: text(&["metadata", "annotations", keys::RELEASE_VERSION]),
            generated_by_version: object
                .dig(&["metadata", "annotations", keys::GENERATED_BY_VERSION])
                .and_then(Node::as_str)
                .map(str::to_owned),
        }
    }
}

/// Who renders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controller {
    /// The build, written on everything that is generated.
    pub build: String,
    /// Whether inputs of another build and a ControllerConfig of another version are refused. A cluster refuses them,
    /// because they are about to be written anew; whoever looks at a dump wants to see what it gives.
    pub refuses_skew: bool,
    /// The version that the ControllerConfig must have been written by.
    pub version: String,
}

/// The OS images that a cluster offers by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsImageStreams {
    /// The name of the one for pools that ask for none.
    pub default: String,
    /// The images by name.
    pub streams: BTreeMap<String, OsImages>,
    /// The build of the controller that offers them.
    pub build: Option<String>,
}

/// An OS image and its extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsImages {
    /// The OS.
    pub os: String,
    /// Its extensions.
    pub extensions: String,
}

impl OsImageStreams {
    /// Takes a manifest of the kind OSImageStream.
    pub fn read(object: &Node<'_>) -> Self {
        let status = object.get("status");
        let streams = status.map(|status| status.list_of("availableStreams")).unwrap_or_default();
        OsImageStreams {
            default: status.map(|status| status.text_of("defaultStream").to_owned()).unwrap_or_default(),
            streams: streams
                .iter()
                .map(|stream| {
                    let images = OsImages {
                        os: stream.text_of("osImage").to_owned(),
                        extensions: stream.text_of("osExtensionsImage").to_owned(),
                    };
                    (stream.text_of("name").to_owned(), images)
                })
                .collect(),
            build: object
                .dig(&["metadata", "annotations", keys::RELEASE_VERSION])
                .and_then(Node::as_str)
                .map(str::to_owned),
        }
    }
}
