//! Preparation of one MachineConfig for merging: its Ignition config is converted to spec 3.5 and its fields are
//! checked, once for all pools that select it.

use std::collections::HashSet;

use seaworthy_fetch::Digest;
use seaworthy_ignition::body::{BodyError, bytes_of};
use seaworthy_ignition::gzip::GzipError;
use seaworthy_ignition::merge::MergeEvent;
use seaworthy_ignition::node::{Node, Origin, quote};
use seaworthy_ignition::{Path, Severity, parse, spelling};

use crate::finding::{FieldLocation, Finding};
use crate::machine_config::MachineConfig;
use crate::remote::Embedded;

/// The kernels that can be asked for. The first two mean the one that the OS comes with.
pub const KERNEL_TYPES: [&str; 4] = ["", "default", "realtime", "64k-pages"];

/// The extensions that can be asked for.
pub const EXTENSIONS: [&str; 7] =
    ["two-node-ha", "ipsec", "usbguard", "kerberos", "kernel-devel", "sandboxed-containers", "sysstat"];

/// The highest mode of a file: the daemon on the machine sets no others.
const MAX_FILE_MODE: i64 = 0o777;

/// The highest mode that there is, with the setuid, setgid and sticky bits.
const MAX_MODE: i64 = 0o7777;

/// Embedded bodies are unpacked up to this size to compare their hash.
const MAX_BODY_BYTES: u64 = 64 * 1024 * 1024;

/// A MachineConfig that is ready for merging, or the reasons why it is not.
#[derive(Debug)]
pub struct Prepared<'t> {
    /// The MachineConfig.
    pub source: &'t MachineConfig<'t>,
    /// Its Ignition config in spec 3.5; `None` when it has none.
    pub config: Option<Node<'t>>,
    /// Findings about it, errors included.
    pub findings: Vec<Finding>,
    /// The remote configs that became part of it.
    pub remotes: Vec<RemoteConfig>,
    /// Everything that was fetched for it.
    pub embedded: Vec<Embedded>,
    /// Where its own config and remote ones overrode or repeated each other.
    pub events: Vec<MergeEvent>,
}

/// A config that was fetched and became part of a MachineConfig's.
#[derive(Debug)]
pub struct RemoteConfig {
    /// The number of its document in origins.
    pub doc: u32,
    /// Where it came from, without credentials.
    pub url: String,
    /// The reference to it.
    pub referred_by: Origin,
    /// The config as it was fetched.
    pub tree: Node<'static>,
}

impl<'t> Prepared<'t> {
    /// Whether it can be merged.
    pub fn is_valid(&self) -> bool {
        !self.findings.iter().any(Finding::is_error)
    }
}

/// Makes a MachineConfig ready.
pub fn prepare<'t>(source: &'t MachineConfig<'t>) -> Prepared<'t> {
    let name = source.name();
    let mut findings = source.findings().to_vec();
    let mut config = None;
    if let Some(node) = source.config().filter(|node| node.as_map().is_some()) {
        match parse(node) {
            Err(problems) => {
                findings.extend(problems.iter().map(|problem| Finding::of_problem(name, node, problem)));
                // What is wrong beside that should not have to wait for the next run.
                check_modes(node, &mut |severity, node, code, message| {
                    findings.push(Finding { severity, ..error(source, node, code, message) });
                });
            }
            Ok(parsed) => {
                findings.extend(parsed.warnings.iter().map(|problem| Finding::of_problem(name, node, problem)));
                check_config(&parsed.config, &mut |severity, node, code, message| {
                    findings.push(Finding { severity, ..error(source, node, code, message) });
                });
                config = Some(parsed.config);
            }
        }
    }
    drop_repeated_modes(&mut findings);
    check_fields(source, &mut findings);
    Prepared { source, config, findings, remotes: Vec::new(), embedded: Vec::new(), events: Vec::new() }
}

/// Checks what is asked of a config beyond the rules of Ignition, wherever the config comes from.
pub(crate) fn check_config(config: &Node<'_>, found: &mut dyn FnMut(Severity, &Node<'_>, &'static str, String)) {
    check_modes(config, found);
    check_paths(config, found);
    check_sources(config, found);
    check_keys(config, found);
}

fn check_modes(config: &Node<'_>, found: &mut dyn FnMut(Severity, &Node<'_>, &'static str, String)) {
    for file in config.get("storage").map(|storage| storage.list_of("files")).unwrap_or_default() {
        let Some(mode) = file.get("mode") else {
            continue;
        };
        let number = mode.as_int().unwrap_or_default();
        if number > MAX_FILE_MODE {
            // A mode such as 644 is a decimal number in JSON and YAML alike, which is hardly meant.
            let meant = i64::from_str_radix(&number.to_string(), 8).ok().filter(|meant| *meant <= MAX_FILE_MODE);
            let hint = match meant {
                Some(meant) => format!("{number} is a decimal number; write 0{number} in YAML or {meant} in JSON"),
                None if number > MAX_MODE => "write an octal number such as 0644 in YAML or 420 in JSON".to_owned(),
                None => "drop the setuid, setgid and sticky bits".to_owned(),
            };
            let message = format!(
                "invalid mode 0{number:o} for {}, cannot exceed 0{MAX_FILE_MODE:o}: {hint}",
                file.text_of("path")
            );
            found(Severity::Error, mode, "file-mode", message);
        }
    }
}

/// Places that a machine cannot write. Warned of, not refused: where `/usr` is no image, it can be written.
fn check_paths(config: &Node<'_>, found: &mut dyn FnMut(Severity, &Node<'_>, &'static str, String)) {
    let Some(storage) = config.get("storage") else { return };
    for list in ["files", "directories", "links"] {
        for entry in storage.list_of(list) {
            let Some(path) = entry.get("path") else { continue };
            let Some(top) = path.as_str().and_then(read_only_parent) else { continue };
            let message = format!(
                "{} is below {top}, which is read-only on image-based machines, so the node would be degraded; write \
                 below /etc, /var or /usr/local",
                quote(entry.text_of("path"))
            );
            found(Severity::Warning, path, "read-only-path", message);
        }
    }
}

/// The folder above a path that is part of the image, or of the kernel.
fn read_only_parent(path: &str) -> Option<&'static str> {
    let is_below = |top: &&str| path.strip_prefix(*top).is_some_and(|rest| rest.starts_with('/'));
    // Images lead it to /var.
    if path == "/usr/local" || is_below(&"/usr/local") {
        return None;
    }
    ["/usr", "/proc", "/sys"].into_iter().find(is_below)
}

/// Takes out what Ignition says of a mode that is refused here, where less is accepted.
fn drop_repeated_modes(findings: &mut Vec<Finding>) {
    let refused = findings.iter().filter(|finding| finding.code == "file-mode");
    let refused: HashSet<FieldLocation> = refused.flat_map(|finding| finding.places.iter().cloned()).collect();
    if !refused.is_empty() {
        let is_repeated = |finding: &Finding| {
            matches!(finding.code, "mode" | "mode-decimal" | "mode-special-bits")
                && finding.places.iter().all(|place| refused.contains(place))
        };
        findings.retain(|finding| !is_repeated(finding));
    }
}

/// Bodies that a machine would not take, or should not trust: fetched unencrypted without a hash to verify them,
/// or embedded with a hash that is not theirs.
fn check_sources(config: &Node<'_>, found: &mut dyn FnMut(Severity, &Node<'_>, &'static str, String)) {
    crate::remote::resources(config, &mut |resource| {
        let url = resource.text_of("source");
        let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let hash = resource.dig(&["verification", "hash"]);
        match (scheme.as_str(), hash) {
            // tftp is refused elsewhere.
            ("http", None) => {
                let message = format!(
                    "{} is fetched unencrypted and without verification.hash, so it can be modified in transit; use https \
                     or add the hash",
                    quote(&seaworthy_fetch::redact(url))
                );
                let place = resource.get("source").unwrap_or(resource);
                found(Severity::Warning, place, "plain-http-without-hash", message);
            }
            // Warned of, not refused: the daemon on a running machine never looks, so a cluster may live with it. The
            // next machine does not boot.
            ("data", Some(hash)) => {
                let expected = hash.as_str().and_then(|hash| hash.parse::<Digest>().ok());
                if let (Some(expected), Ok(bytes)) = (expected, bytes_of(resource, MAX_BODY_BYTES))
                    && expected.of_same_kind(&bytes) != expected
                {
                    let message = format!(
                        "the content is {}, but verification.hash says {expected}: new machines refuse it at first boot; \
                         correct the hash",
                        expected.of_same_kind(&bytes)
                    );
                    found(Severity::Warning, hash, "hash-mismatch", message);
                }
            }
            _ => {}
        }
        // Warned of, not refused, for the same reason.
        if let Some(compression) =
            resource.get("compression").filter(|compression| compression.as_str() == Some("gzip"))
            && let Err(BodyError::Gzip(GzipError::Malformed(why))) = bytes_of(resource, MAX_BODY_BYTES)
        {
            let message = format!(
                "compression is gzip, but the embedded content cannot be decompressed ({why}), so no machine can write it; drop \
                 compression if the content is plain, or compress it with gzip"
            );
            found(Severity::Warning, compression, "not-gzip", message);
        }
    });
}

/// SSH keys that are none. The bytes of every key begin with the length of its kind's name, which gives four letters A;
/// so does the text of one with options before it.
fn check_keys(config: &Node<'_>, found: &mut dyn FnMut(Severity, &Node<'_>, &'static str, String)) {
    for user in config.get("passwd").map(|passwd| passwd.list_of("users")).unwrap_or_default() {
        for key in user.list_of("sshAuthorizedKeys") {
            let Some(text) = key.as_str().filter(|text| !text.split_whitespace().any(|word| word.starts_with("AAAA")))
            else {
                continue;
            };
            // The text itself is not shown: it may be a secret.
            let what = if text.contains("PRIVATE KEY") {
                "this is a private key, exposed to every reader of the manifest; replace the key pair"
            } else {
                "not an SSH public key, so no one can log in with it"
            };
            let message =
                format!("{what}; expected a line of a .pub file: key type, space, key data, such as ssh-ed25519 AAAA…");
            found(Severity::Warning, key, "ssh-key", message);
        }
    }
}

fn check_fields(source: &MachineConfig<'_>, findings: &mut Vec<Finding>) {
    // Values of the wrong type are reported already.
    if let Some(kernel) = source.field("kernelType")
        && let Some(text) = kernel.as_str()
        && !KERNEL_TYPES.contains(&text)
    {
        let near = did_you_mean(text, &KERNEL_TYPES);
        let message = format!("kernelType={text} is invalid; expected one of \"\", default, realtime, 64k-pages{near}");
        findings.push(error(source, kernel, "kernel-type", message));
    }
    let unknown: Vec<&Node<'_>> = source
        .list("extensions")
        .iter()
        .filter(|extension| extension.as_str().is_some_and(|extension| !EXTENSIONS.contains(&extension)))
        .collect();
    if let Some(first) = unknown.first() {
        let names: Vec<&str> = unknown.iter().filter_map(|node| node.as_str()).collect();
        let near = names.iter().map(|name| did_you_mean(name, &EXTENSIONS)).find(|near| !near.is_empty());
        let message = format!(
            "invalid extensions found: [{}]; expected any of {}{}",
            names.join(" "),
            EXTENSIONS.join(", "),
            near.unwrap_or_default()
        );
        let mut finding = error(source, first, "extension", message);
        // Compat: upstream looks at extensions only beside an Ignition config and renders the rest as they are. Its
        // clusters may hold such a MachineConfig, and taking them over must not fail on it; so it is a warning.
        if source.config().is_none() {
            finding.severity = Severity::Warning;
        }
        findings.push(finding);
    }
    for argument in source.list("kernelArguments") {
        let Some(text) = argument.as_str().filter(|text| text.is_empty() || text.trim() != *text) else { continue };
        let message = if text.trim().is_empty() {
            "the kernel argument is empty; remove it, or name the argument that was meant".to_owned()
        } else {
            format!("the kernel argument {} has leading or trailing spaces; remove them", quote(text))
        };
        findings.push(Finding { severity: Severity::Warning, ..error(source, argument, "blank-argument", message) });
    }
}

fn did_you_mean(word: &str, known: &[&str]) -> String {
    spelling::nearest(word, known.iter().copied()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// An error at a value of a MachineConfig.
fn error(source: &MachineConfig<'_>, node: &Node<'_>, code: &'static str, message: String) -> Finding {
    let path = source.object().path_of(node.origin).unwrap_or_else(|| Path::of(&["spec"]));
    Finding {
        severity: Severity::Error,
        code,
        pool: None,
        subject: String::new(),
        places: vec![FieldLocation::machine_config(source.name(), &path)],
        message,
    }
}
