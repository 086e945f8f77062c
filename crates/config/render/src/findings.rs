//! Findings about a valid rendered config: warnings and notes that do not prevent rendering.

use std::collections::{BTreeMap, HashMap};

use seaworthy_ignition::Severity;
use seaworthy_ignition::merge::MergeEventKind;
use seaworthy_ignition::node::{Node, Origin, quote};
use seaworthy_ignition::path::Step;
use seaworthy_ignition::{UNITS, dropin_path, unit_path};

use crate::finding::{FieldLocation, Finding};
use crate::kinds;
use crate::locator::{LocatedValue, Locator};
use crate::object::{LARGE_OBJECT_BYTES, MAX_OBJECT_BYTES};
use crate::prepare::Prepared;
use crate::provenance::{Subject, subject_at};
use crate::render::Rendered;
use crate::runtime;

/// How many findings with one code and severity are listed for a pool.
const MAX_FINDINGS_PER_CODE: usize = 10_000;

/// Arguments that a kernel takes several times: giving another value is an addition, not a contradiction.
const REPEATABLE: [&str; 12] = [
    "console",
    "earlycon",
    "hugepages",
    "hugepagesz",
    "ip",
    "nameserver",
    "module_blacklist",
    "modprobe.blacklist",
    "systemd.setenv",
    "systemd.mask",
    "systemd.wants",
    "rd.driver.blacklist",
];

impl<'r, 't: 'r> Rendered<'r, 't> {
    /// All findings, the most severe first: those of each input, and those about how inputs override each other.
    pub fn findings(&'r self) -> Vec<Finding> {
        let locator = Locator::new(&self.inputs);
        let mut findings: Vec<Finding> = self.inputs.iter().flat_map(|input| input.findings.iter().cloned()).collect();
        findings.extend(self.notices());
        findings.extend(self.overrides(&locator));
        findings.extend(self.repeated_arguments(&locator));
        findings.extend(self.ineffective_settings(&locator));
        self.truncate(&mut findings);
        findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| (&a.subject, a.code).cmp(&(&b.subject, b.code))));
        findings
    }

    /// Keeps the first findings of each code and counts the rest, so that the output stays readable.
    fn truncate(&self, findings: &mut Vec<Finding>) {
        let mut counts: BTreeMap<(&'static str, Severity), usize> = BTreeMap::new();
        findings.retain(|finding| {
            let count = counts.entry((finding.code, finding.severity)).or_default();
            *count += 1;
            *count <= MAX_FINDINGS_PER_CODE
        });
        for ((code, severity), count) in counts.into_iter().filter(|(_, count)| *count > MAX_FINDINGS_PER_CODE) {
            let message =
                format!("at least {} more findings of this kind are not listed", count - MAX_FINDINGS_PER_CODE);
            findings.push(self.finding(severity, code, String::new(), Vec::new(), message));
        }
    }

    /// Findings about the result itself.
    pub fn notices(&self) -> Vec<Finding> {
        let locator = Locator::new(&self.inputs);
        let mut findings = Vec::new();
        findings.extend(self.too_large(self.size()));
        findings.extend(self.disabled_smt(&locator));
        findings.extend(self.os_image(&locator));
        findings.extend(self.units_and_files(&locator));
        findings.extend(self.invalid_crio_dropins(&locator));
        findings.extend(self.below_files(&locator));
        findings.extend(self.refused_users(&locator));
        findings.extend(self.builds());
        findings
    }

    fn finding(
        &self,
        severity: Severity,
        code: &'static str,
        subject: String,
        places: Vec<FieldLocation>,
        message: String,
    ) -> Finding {
        Finding { severity, code, pool: Some(self.pool.name.clone()), subject, places, message }
    }

    fn too_large(&self, size: usize) -> Option<Finding> {
        // Offline rendering shows what a controller would refuse (see `Context::refuses_large`), so it only warns.
        let verdict = if size <= LARGE_OBJECT_BYTES {
            return None;
        } else if size <= MAX_OBJECT_BYTES {
            "close to the size limit"
        } else {
            "too large to be stored"
        };
        let message = format!(
            "rendered MachineConfig {} is {verdict} ({size} bytes, max {MAX_OBJECT_BYTES} bytes); compress large files (compression: \
             gzip) or move them into an image",
            self.name
        );
        Some(self.finding(Severity::Warning, "too-large", "size".to_owned(), vec![], message))
    }

    fn invalid_crio_dropins(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        let invalid = self.spec.get("config").map(runtime::invalid_dropins).unwrap_or_default();
        let finding = |(file, why): (&Node<'_>, String)| {
            let path = file.text_of("path");
            let source = file.dig(&["contents", "source"]).unwrap_or(file);
            let message = format!("{path} is not valid TOML, and CRI-O does not start with it: {why}; correct it");
            let places = locator.place(source.origin).into_iter().collect();
            self.finding(Severity::Warning, "invalid-crio-drop-in", format!("file {path}"), places, message)
        };
        invalid.into_iter().map(finding).collect()
    }

    fn disabled_smt(&self, locator: &Locator<'_, '_>) -> Option<Finding> {
        let ignition = self.spec.dig(&["config", "kernelArguments", "shouldExist"]).and_then(Node::as_list);
        let arguments = self.spec.list_of("kernelArguments").iter().chain(ignition.unwrap_or_default());
        let is_meant = |argument: &&Node<'_>| {
            let mut words = argument.as_str().unwrap_or_default().split_whitespace();
            words.any(|word| word == "nosmt" || word.starts_with("nosmt="))
        };
        let mut found = arguments.filter(is_meant).peekable();
        found.peek()?;
        let places = found.filter_map(|argument| locator.place(argument.origin)).collect();
        // Without the pool's name, so that one finding covers all pools that have it.
        let message =
            "turns off simultaneous multithreading on every machine of the pool: only physical cores remain; make \
                       sure that the pods still fit"
                .to_owned();
        Some(self.finding(Severity::Warning, "nosmt", "kernel argument nosmt".to_owned(), places, message))
    }

    fn os_image(&self, locator: &Locator<'_, '_>) -> Option<Finding> {
        let image = self.spec.get("osImageURL").filter(|image| image.origin.is_some())?;
        let text = image.as_str().unwrap_or_default();
        let places = locator.place(image.origin).into_iter().collect();
        let (severity, code, message) = if text.contains("@sha256:") {
            (
                Severity::Info,
                "os-image-overridden",
                format!("the OS image is chosen by a MachineConfig: {}", quote(text)),
            )
        } else {
            let message = format!(
                "{} is a tag, and a tag can move: machines of one pool may end up with different systems; name the image by \
                 digest (…@sha256:…)",
                quote(text)
            );
            (Severity::Warning, "os-image-without-digest", message)
        };
        Some(self.finding(severity, code, "osImageURL".to_owned(), places, message))
    }

    /// Units that write nothing themselves, where a file writes their path. (Where both write it the config is
    /// invalid.)
    fn units_and_files(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        let Some(config) = self.spec.get("config") else { return Vec::new() };
        let units = config.dig(&["systemd", "units"]).and_then(Node::as_list).unwrap_or_default();
        if units.is_empty() {
            return Vec::new();
        }
        // Few files lie where units are written: those are looked at, and the units only if there is one.
        let is_near = |file: &&Node<'_>| file.text_of("path").starts_with(UNITS);
        let lists =
            ["files", "links"].map(|list| config.dig(&["storage", list]).and_then(Node::as_list).unwrap_or_default());
        let near: Vec<&Node<'_>> = lists.into_iter().flatten().filter(is_near).collect();
        if near.is_empty() {
            return Vec::new();
        }
        let mut paths: HashMap<String, (&Node<'_>, bool)> = HashMap::new();
        for unit in units {
            let name = unit.text_of("name");
            paths.insert(unit_path(name), (unit, unit.bool_of("mask") == Some(true)));
            for dropin in unit.list_of("dropins") {
                paths.insert(dropin_path(name, dropin.text_of("name")), (dropin, false));
            }
        }
        let mut findings = Vec::new();
        for file in near {
            let path = file.text_of("path");
            let Some((unit, is_masked)) = paths.get(path) else { continue };
            let (severity, message) = if *is_masked {
                (
                    Severity::Warning,
                    format!(
                        "the unit is masked, which makes {path} a link to /dev/null, and a file is written there too"
                    ),
                )
            } else {
                (Severity::Info, format!("the unit has no contents; {path} is written as a file"))
            };
            let places = [file, unit].iter().filter_map(|node| locator.place(node.origin)).collect();
            findings.push(self.finding(severity, "unit-and-file", format!("file {path}"), places, message));
        }
        findings
    }

    /// Entries below the path of a file, which is no folder.
    fn below_files(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        let entries = |list| self.spec.dig(&["config", "storage", list]).and_then(Node::as_list).unwrap_or_default();
        let mut folders: HashMap<&str, &Node<'_>> = HashMap::new();
        for entry in ["files", "directories", "links"].into_iter().flat_map(entries) {
            let mut path = entry.text_of("path");
            // Where a folder is known, those above it are.
            while let Some((folder, _)) = path.rsplit_once('/')
                && folders.insert(folder, entry).is_none()
            {
                path = folder;
            }
        }
        let finding = |file: &Node<'_>| {
            let path = file.text_of("path");
            let below = folders.get(path)?;
            let places = [file, *below].iter().filter_map(|node| locator.place(node.origin)).collect();
            let message = format!(
                "{path} is a file, and {} lies below it as if it were a folder: machines cannot write both; move one of them",
                below.text_of("path")
            );
            Some(self.finding(Severity::Warning, "path-below-file", format!("file {path}"), places, message))
        };
        entries("files").iter().filter_map(finding).collect()
    }

    /// Users that new machines get and running ones refuse.
    fn refused_users(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        const CHANGEABLE: [&str; 3] = ["name", "passwordHash", "sshAuthorizedKeys"];
        let users = self.spec.dig(&["config", "passwd", "users"]).and_then(Node::as_list).unwrap_or_default();
        let finding = |user: &Node<'_>| {
            let name = user.text_of("name");
            let others = user.as_map().into_iter().flat_map(|map| map.iter()).map(|(key, _)| key);
            let others: Vec<&str> = others.filter(|key| !CHANGEABLE.contains(key)).collect();
            let what = if name != "core" {
                "only the user core can be changed on running machines".to_owned()
            } else if !others.is_empty() {
                format!("only keys and password of core can be changed on running machines, not {}", others.join(", "))
            } else {
                return None;
            };
            let message = format!(
                "{what}: new machines apply it at first boot, but a running cluster refuses every change of users with \
                 it; remove it unless it was there from the start"
            );
            let places = locator.place(user.origin).into_iter().collect();
            Some(self.finding(Severity::Warning, "user-fixed", format!("user {name}"), places, message))
        };
        users.iter().filter_map(finding).collect()
    }

    /// Generated inputs that come from different builds of the platform.
    fn builds(&self) -> Option<Finding> {
        let mut builds: BTreeMap<&str, &Prepared<'_>> = BTreeMap::new();
        for input in &self.inputs {
            if let Some(build) = input.source.generated_by() {
                builds.entry(build).or_insert(input);
            }
        }
        if builds.len() < 2 {
            return None;
        }
        let path = format!("metadata.annotations[{:?}]", crate::keys::GENERATED_BY);
        let places = builds
            .values()
            .map(|input| FieldLocation {
                kind: kinds::MACHINE_CONFIG,
                name: input.source.name().to_owned(),
                path: path.clone(),
                remote: None,
            })
            .collect();
        let names: Vec<&str> = builds.keys().copied().collect();
        let message = format!(
            "generated by different builds ({}): a cluster waits until all are written by the same one",
            names.join(", ")
        );
        Some(self.finding(Severity::Warning, "version-skew", "inputs".to_owned(), places, message))
    }

    /// What inputs do to each other, one finding for each pair of inputs and entry.
    fn overrides(&self, locator: &Locator<'r, 't>) -> Vec<Finding> {
        let mut groups: BTreeMap<(Subject, u8, usize), Group> = BTreeMap::new();
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        for event in &self.events {
            let class = match event.kind {
                MergeEventKind::Replaced => 0,
                MergeEventKind::Kept => 1,
                MergeEventKind::Removed => 2,
                MergeEventKind::Dropped => 3,
                MergeEventKind::Repeated => continue,
            };
            let (Some(winner), Some(loser)) = (locator.find(event.winner), locator.find(event.loser)) else { continue };
            if std::ptr::eq(winner.input, loser.input) {
                continue;
            }
            let about = if class == 0 { &winner } else { &loser };
            let (subject, mut field) = subject_of(about);
            // Of arguments the list is the subject, and each is named in it.
            if let (Subject::Config(_), MergeEventKind::Removed) = (&subject, event.kind) {
                field = locator.value(event.loser).and_then(Node::as_str).unwrap_or_default().to_owned();
            }
            let count = places.len();
            let pair = (winner.input.source.name().to_owned(), loser.input.source.name().to_owned());
            let pair = *places.entry(pair).or_insert(count);
            let group = groups.entry((subject, class, pair)).or_insert_with(|| Group {
                winner: event.winner,
                loser: event.loser,
                platform: loser.input.source.is_platform(),
                fields: Vec::new(),
            });
            if !field.is_empty() && !group.fields.contains(&field) {
                group.fields.push(field);
            }
        }
        groups
            .into_iter()
            .map(|((subject, class, _), group)| self.override_finding(&subject, class, &group, locator))
            .collect()
    }

    fn override_finding(&self, subject: &Subject, class: u8, group: &Group, locator: &Locator<'_, '_>) -> Finding {
        let places: Vec<FieldLocation> =
            [group.winner, group.loser].iter().filter_map(|origin| locator.place(*origin)).collect();
        let name = |nth: usize| places.get(nth).map_or("", |place: &FieldLocation| place.name.as_str()).to_owned();
        let (winner, loser) = (name(0), name(1));
        let fields = if group.fields.is_empty() { String::new() } else { format!(" ({})", group.fields.join(", ")) };
        let (severity, code, message) = match class {
            // Building upon the platform is what MachineConfigs are for; users overriding each other is rarely meant.
            0 => (
                if group.platform { Severity::Info } else { Severity::Warning },
                "conflict",
                format!("{subject}{fields}: {winner} overrides a different value of {loser}"),
            ),
            1 => (
                Severity::Info,
                "partial-override",
                format!("{subject}: {winner} changes part of it; the rest{fields} remains from {loser}"),
            ),
            2 => {
                let what = match subject {
                    Subject::Config(_) => "sets the opposite, so it is removed here",
                    _ if !fields.is_empty() => "removes it",
                    _ => "replaces it with an entry of another kind",
                };
                (Severity::Warning, "replaced-entry", format!("{subject}{fields}: {winner} {what}"))
            }
            _ => (
                Severity::Info,
                "replaced-body",
                format!("{subject}: {winner} sets new contents, so{fields} of {loser} no longer applies"),
            ),
        };
        self.finding(severity, code, subject.to_string(), places, message)
    }

    /// Inputs that set "off" or "default" where another input sets a value that wins whatever the order.
    fn ineffective_settings(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let says = |field: &str, value: &Node<'_>| match field {
            "fips" => value.as_bool() == Some(false),
            _ => value.as_str() == Some("default"),
        };
        for field in ["fips", "kernelType"] {
            let Some(winner) = self.spec.get(field).filter(|winner| winner.origin.is_some()) else { continue };
            for input in &self.inputs {
                let Some(loser) = input.source.field(field).filter(|value| says(field, value)) else { continue };
                let places = [winner.origin, loser.origin].iter().filter_map(|origin| locator.place(*origin)).collect();
                let message = format!(
                    "{} sets {}, which has no effect: another MachineConfig sets {}, and that cannot be unset",
                    input.source.name(),
                    loser.describe(),
                    winner.describe()
                );
                findings.push(self.finding(Severity::Warning, "conflict", field.to_owned(), places, message));
            }
        }
        findings
    }

    /// Kernel arguments that are given twice, or that two inputs give different values.
    fn repeated_arguments(&self, locator: &Locator<'_, '_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut values: HashMap<&str, (&str, Origin)> = HashMap::new();
        for argument in self.spec.list_of("kernelArguments") {
            // One text may hold a million words; past the limit they are not even counted.
            if findings.len() > MAX_FINDINGS_PER_CODE {
                break;
            }
            for word in argument.as_str().unwrap_or_default().split_whitespace() {
                if findings.len() > MAX_FINDINGS_PER_CODE {
                    break;
                }
                let (key, value) = word.split_once('=').unwrap_or((word, ""));
                let Some((old, origin)) = values.insert(key, (value, argument.origin)) else { continue };
                let same_input = locator.input(origin).map(|input| input.source.name())
                    == locator.input(argument.origin).map(|input| input.source.name());
                let places: Vec<_> =
                    [argument.origin, origin].iter().filter_map(|origin| locator.place(*origin)).collect();
                let subject = format!("kernel argument {key}");
                if old == value {
                    let message = format!("{word} is specified twice; both remain on the command line");
                    findings.push(self.finding(Severity::Info, "repeated-argument", subject, places, message));
                } else if !same_input && !REPEATABLE.contains(&key) && !key.starts_with("rd.") {
                    let message = format!(
                        "specified with different values, {} and {}: both remain on the command line, and for most \
                         arguments the last one applies",
                        quote(old),
                        quote(value)
                    );
                    findings.push(self.finding(Severity::Warning, "conflict", subject, places, message));
                }
            }
        }
        findings
    }
}

struct Group {
    winner: Origin,
    loser: Origin,
    platform: bool,
    fields: Vec<String>,
}

/// What a value of an input is about.
fn subject_of(found: &LocatedValue<'_, '_>) -> (Subject, String) {
    if let Some(remote) = found.remote {
        return subject_at(&remote.tree, &found.path);
    }
    match found.path.0.as_slice() {
        [Step::Key(spec), Step::Key(config), rest @ ..] if spec == "spec" && config == "config" => {
            let Some(config) = found.input.source.config() else {
                return (Subject::Config(found.path.to_string()), String::new());
            };
            subject_at(config, &seaworthy_ignition::Path(rest.to_vec()))
        }
        [Step::Key(_), Step::Key(field), ..] => (Subject::Field(field.clone()), String::new()),
        _ => (Subject::Config(found.path.to_string()), String::new()),
    }
}
