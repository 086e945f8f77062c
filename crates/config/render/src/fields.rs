//! Spec fields of a MachineConfig other than the Ignition config, merged over all inputs of a pool.

use std::borrow::Cow;

use seaworthy_ignition::Severity;
use seaworthy_ignition::merge::{MergeEvent, MergeEventKind};
use seaworthy_ignition::node::{Map, Node, Origin, Value, quote};

use crate::controller_config::OsImageStreams;
use crate::finding::{FieldLocation, Finding};
use crate::locator::Locator;
use crate::pool::Pool;
use crate::prepare::Prepared;
use crate::render::Context;

/// The fields of the spec beside the Ignition config.
pub(crate) struct Fields<'r> {
    fips: Node<'r>,
    kernel_type: Node<'r>,
    kernel_arguments: Vec<Node<'r>>,
    extensions: Vec<Node<'r>>,
    pub(crate) os_image: Node<'r>,
    extensions_image: Node<'r>,
    pub(crate) image_overridden: bool,
}

impl<'r> Fields<'r> {
    /// Merges the fields of all inputs, in their order.
    pub(crate) fn merge<'t: 'r>(
        pool: &Pool,
        inputs: &[&'r Prepared<'t>],
        context: &Context,
        events: &mut Vec<MergeEvent>,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let default_images = default_images(pool, context).unwrap_or_else(|finding| {
            findings.push(finding);
            Default::default()
        });
        let mut fields = Fields {
            fips: Node::made(Value::Bool(false)),
            kernel_type: Node::str_at("default", Origin::NONE),
            kernel_arguments: Vec::new(),
            extensions: Vec::new(),
            os_image: Node::str_at(default_images.0, Origin::NONE),
            extensions_image: Node::str_at(default_images.1, Origin::NONE),
            image_overridden: false,
        };
        for input in inputs {
            let source: &'r crate::MachineConfig<'r> = input.source;
            // FIPS is on when anyone wants it; a later "off" does not count.
            if let Some(fips) = source.field("fips").filter(|fips| fips.as_bool() == Some(true)) {
                replace(&mut fields.fips, fips.borrowed(), events);
            }
            // A kernel is only ever asked for, never taken back by a later "default".
            let kernel =
                source.field("kernelType").filter(|kernel| matches!(kernel.as_str(), Some("realtime" | "64k-pages")));
            if let Some(kernel) = kernel {
                replace(&mut fields.kernel_type, kernel.borrowed(), events);
            }
            fields.kernel_arguments.extend(source.list("kernelArguments").iter().map(Node::borrowed));
            fields.extensions.extend(source.list("extensions").iter().map(Node::borrowed));
            if source.generated_by().is_none() {
                let image = |key: &str| source.field(key).filter(|image| image.as_str() != Some(""));
                if let Some(image) = image("osImageURL") {
                    fields.image_overridden = true;
                    replace(&mut fields.os_image, image.borrowed(), events);
                }
                if let Some(image) = image("baseOSExtensionsContainerImage") {
                    replace(&mut fields.extensions_image, image.borrowed(), events);
                }
            }
        }
        let locator = Locator::new(inputs);
        let devel = fields.extensions.iter().find(|extension| extension.as_str() == Some("kernel-devel"));
        if let Some(devel) = devel.filter(|_| fields.kernel_type.as_str() != Some("default")) {
            let kernel = fields.kernel_type.as_str().unwrap_or_default();
            findings.push(Finding {
                severity: Severity::Error,
                code: "kernel-devel",
                pool: Some(pool.name.clone()),
                subject: "extensions".to_owned(),
                places: [devel.origin, fields.kernel_type.origin]
                    .iter()
                    .filter_map(|origin| locator.place(*origin))
                    .collect(),
                message: format!(
                    "installing kernel-devel extension is not supported with kernelType: {kernel}; drop one of the two"
                ),
            });
        }
        if let (true, Some(stream)) = (fields.image_overridden, &pool.os_image_stream) {
            let mut places: Vec<FieldLocation> = locator.place(fields.os_image.origin).into_iter().collect();
            places.push(FieldLocation::pool(&pool.name, "spec.osImageStream.name"));
            findings.push(Finding {
                severity: Severity::Error,
                code: "os-image-and-stream",
                pool: Some(pool.name.clone()),
                subject: "osImageURL".to_owned(),
                places,
                message: format!(
                    "cannot override MachineConfig osImageURL and set MachineConfigPool spec.osImageStream.name ({stream}) \
                     simultaneously; drop one of the two"
                ),
            });
        }
        fields
    }

    /// The whole spec.
    pub(crate) fn into_spec(self, config: Node<'r>) -> Node<'r> {
        let list = |items| Node::made(Value::List(items));
        let entry = |key: &'static str, node| (Cow::Borrowed(key), node);
        Node::made(Value::Map(Map(vec![
            entry("baseOSExtensionsContainerImage", self.extensions_image),
            entry("config", config),
            entry("extensions", list(self.extensions)),
            entry("fips", self.fips),
            entry("kernelArguments", list(self.kernel_arguments)),
            entry("kernelType", self.kernel_type),
            entry("osImageURL", self.os_image),
        ])))
    }
}

fn replace<'r>(old: &mut Node<'r>, new: Node<'r>, events: &mut Vec<MergeEvent>) {
    if old.origin.is_some() {
        let kind = if *old == new { MergeEventKind::Repeated } else { MergeEventKind::Replaced };
        events.push(MergeEvent { kind, winner: new.origin, loser: old.origin });
    }
    *old = new;
}

/// The OS and extensions images of a pool that overrides neither.
fn default_images(pool: &Pool, context: &Context) -> Result<(String, String), Finding> {
    let defaults = &context.controller_config;
    let Some(streams) = &context.streams else {
        return Ok((defaults.os_image.clone(), defaults.extensions_image.clone()));
    };
    let stream = stream_of(pool, context, streams);
    match streams.streams.get(stream) {
        Some(images) => Ok((images.os.clone(), images.extensions.clone())),
        None => Err(Finding {
            severity: Severity::Error,
            code: "unknown-stream",
            pool: Some(pool.name.clone()),
            subject: "osImageURL".to_owned(),
            places: vec![FieldLocation::pool(&pool.name, "spec.osImageStream.name")],
            message: format!(
                "there is no OS image stream {}; expected one of {}",
                quote(stream),
                streams.streams.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        }),
    }
}

/// A pool's own stream, else for custom pools the workers', else the cluster's default.
pub(crate) fn stream_of<'s>(pool: &'s Pool, context: &'s Context, streams: &'s OsImageStreams) -> &'s str {
    let inherited = if pool.is_custom() { context.worker_stream.as_deref() } else { None };
    pool.os_image_stream.as_deref().or(inherited).unwrap_or(&streams.default)
}
