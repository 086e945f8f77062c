//! Provenance as text: a table of all values, or some values in full.

use std::collections::HashSet;
use std::io::{self, Write};

use anstyle::Style;
use seaworthy_ignition::node::{Node, Value};
use seaworthy_ignition::{data_url, gzip};
use seaworthy_render::provenance::{DefaultValue, Entry, Overridden, Subject};
use seaworthy_render::remote::Embedded;
use seaworthy_values::text::{abbreviate, counted};

use crate::display::contents::{self, MAX_UNPACKED_BYTES};
use crate::display::secret;
use crate::display::value::{HIDDEN, is_secret, shown, shown_or_unset};
use crate::failure::Failure;
use crate::table::Table;
use crate::{output, terminal};

/// How many characters of a value a table shows.
const MAX_CELL_CHARS: usize = 36;

const INDENT: &str = "      ";

/// One line per value. The contents of files among `secrets` are not shown.
pub fn print_table(entries: &[&Entry<'_>], secrets: &HashSet<&Subject>) -> Result<(), Failure> {
    let mut table = Table::new(["WHAT", "FIELD", "VALUE", "SET BY", "OVERRODE"]);
    let bodies = Bodies::of(entries, secrets);
    for entry in entries {
        let mut overrode: Vec<&str> = entry.overrode.iter().map(|lost| lost.place.name.as_str()).collect();
        overrode.dedup();
        table.row([
            entry.subject.to_string(),
            entry.field.clone(),
            short(entry, &bodies),
            set_by(entry),
            overrode.join(", "),
        ]);
    }
    let mut out = output::colored();
    for line in table.lines() {
        writeln!(out, "{}", terminal::sanitized(line))?;
    }
    Ok(())
}

fn set_by(entry: &Entry<'_>) -> String {
    let name = match (&entry.set_by, &entry.default) {
        (Some(place), _) => place.name.clone(),
        // In old spec versions an unset field has a default, which overrides others.
        (None, Some(DefaultValue { entry: Some(place), .. })) if !entry.overrode.is_empty() => {
            format!("(default of {})", place.name)
        }
        (None, _) => "(default)".to_owned(),
    };
    match entry.also.len() {
        0 => name,
        more => format!("{name} (+{more})"),
    }
}

/// A value in a few characters.
fn short(entry: &Entry<'_>, bodies: &Bodies<'_>) -> String {
    let text = match &entry.value.value {
        Value::Str(text) if text.starts_with("data:") => summary(entry, bodies),
        Value::Str(text) if text.contains('\n') => format!("{}…", text.lines().next().unwrap_or_default()),
        _ => {
            let text = shown(&entry.field, &entry.value);
            // In a table quotes only take room.
            text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned).unwrap_or(text)
        }
    };
    abbreviate(&text, MAX_CELL_CHARS).into_owned()
}

/// Every value in full. `lacks_images` is whether the input has nothing that sets the images of pools that choose none.
pub fn print_full(entries: &[&Entry<'_>], secrets: &HashSet<&Subject>, lacks_images: bool) -> Result<(), Failure> {
    let mut out = output::colored();
    let bold = Style::new().bold();
    let mut last = None;
    // Fetched content is printed once for each entry, not for each of its fields.
    let mut printed: Vec<&Embedded> = Vec::new();
    let bodies = Bodies::of(entries, secrets);
    for entry in entries {
        if last != Some(&entry.subject) {
            if last.is_some() {
                writeln!(out)?;
            }
            writeln!(out, "{bold}{}{bold:#}", terminal::sanitized(&entry.subject))?;
            last = Some(&entry.subject);
            printed.clear();
        }
        write_entry(&mut out, entry, &bodies, &mut printed)?;
        write_ignored(&mut out, entry, lacks_images)?;
    }
    Ok(())
}

fn write_entry<'r>(
    out: &mut dyn Write,
    entry: &Entry<'r>,
    bodies: &Bodies<'_>,
    printed: &mut Vec<&'r Embedded>,
) -> io::Result<()> {
    let field = if entry.field.is_empty() { "value" } else { &entry.field };
    writeln!(out, "  {}", terminal::sanitized(format!("{field}: {}", summary(entry, bodies))))?;
    if let Some(place) = &entry.set_by {
        writeln!(out, "    set by {}", terminal::sanitized(place))?;
    }
    if let Some(default) = &entry.default {
        let entry = default.entry.as_ref().map(|place| format!(" for {place}")).unwrap_or_default();
        writeln!(out, "    not set; default{}: {}", terminal::sanitized(entry), default.reason)?;
    }
    if let Some(fetched) = entry.fetched.filter(|fetched| !printed.contains(fetched)) {
        write_fetched(out, fetched, bodies.secrets.contains(&entry.subject))?;
        printed.push(fetched);
    }
    for place in &entry.also {
        writeln!(out, "    same value in {}", terminal::sanitized(place))?;
    }
    if entry.overrode.is_empty() {
        return match bytes_behind(&entry.field, &entry.value, bodies.is_packed(entry)) {
            Some(_) if bodies.is_secret(entry) => Ok(()),
            Some(bytes) => contents::write_excerpt(out, &bytes, INDENT),
            None => Ok(()),
        };
    }
    let mut newer = Some((&entry.value, bodies.is_packed(entry)));
    for lost in &entry.overrode {
        write_lost(out, entry, lost, newer, bodies.is_secret(entry))?;
        newer = lost.value.as_ref().filter(|_| !is_reference(lost)).map(|value| (value, looks_packed(value)));
    }
    Ok(())
}

/// Why an image is another than one would think, or none.
fn write_ignored(out: &mut dyn Write, entry: &Entry<'_>, lacks_images: bool) -> io::Result<()> {
    for lost in &entry.ignored {
        let line = format!("    {} names {}", lost.place, shown_or_unset(&entry.field, lost.value.as_ref()));
        writeln!(out, "{}", terminal::sanitized(line))?;
        writeln!(out, "{INDENT}ignored, because it is generated: the ControllerConfig sets the platform's images")?;
    }
    let is_image = |name: &String| matches!(name.as_str(), "osImageURL" | "baseOSExtensionsContainerImage");
    if lacks_images && entry.default.is_some() && matches!(&entry.subject, Subject::Field(name) if is_image(name)) {
        writeln!(out, "    no ControllerConfig in the input, which would set it")?;
    }
    Ok(())
}

fn write_fetched(out: &mut dyn Write, fetched: &Embedded, is_secret: bool) -> io::Result<()> {
    let mut line = format!("fetched from {} at {}", fetched.url, fetched.fetched_at_utc());
    if !is_secret {
        line.push_str(&format!(", {}", fetched.digest));
    }
    writeln!(out, "    {}", terminal::sanitized(line))
}

fn write_lost(
    out: &mut dyn Write,
    entry: &Entry<'_>,
    lost: &Overridden<'_>,
    newer: Option<(&Node<'_>, bool)>,
    is_secret: bool,
) -> io::Result<()> {
    let place = terminal::sanitized(&lost.place);
    let Some(old) = &lost.value else {
        let whole = if entry.field == "path" { "replaces" } else { "overrides the default of" };
        return writeln!(out, "    {whole} {place}");
    };
    writeln!(out, "    overrides {place}")?;
    if let Some(fetched) = lost.fetched.filter(|_| is_reference(lost)) {
        // The content that was fetched for it is not part of the result, and is not kept.
        return write_fetched(out, fetched, is_secret);
    }
    let Some((new, is_packed)) = newer else { return Ok(()) };
    let field = &entry.field;
    match (bytes_behind(field, old, looks_packed(old)), bytes_behind(field, new, is_packed)) {
        (Some(before), Some(after)) if before != after && is_secret => {
            writeln!(out, "{INDENT}{}", secret::difference(&before, &after))
        }
        (Some(before), Some(_)) if is_secret => {
            writeln!(out, "{INDENT}unchanged ({}), encoded differently", secret::summary(&before))
        }
        (Some(before), Some(after)) if before != after => contents::write_difference(out, &before, &after, INDENT),
        (Some(before), Some(_)) => {
            writeln!(out, "{INDENT}unchanged ({}), encoded differently", contents::summary(&before))
        }
        _ if is_secret && field.ends_with("hash") => writeln!(out, "{INDENT}{HIDDEN} became {HIDDEN}"),
        _ => writeln!(out, "{INDENT}{} became {}", shown(field, old), shown(field, new)),
    }
}

/// Whether a value that lost is the URL of something that was fetched.
fn is_reference(lost: &Overridden<'_>) -> bool {
    lost.fetched.is_some() && lost.value.as_ref().and_then(Node::as_str).is_some_and(|text| text.contains("://"))
}

fn summary(entry: &Entry<'_>, bodies: &Bodies<'_>) -> String {
    match bytes_behind(&entry.field, &entry.value, bodies.is_packed(entry)) {
        Some(bytes) if bodies.is_secret(entry) => secret::summary(&bytes),
        None if bodies.is_secret(entry) && entry.field.ends_with("hash") => HIDDEN.to_owned(),
        Some(bytes) if contents::text(&bytes).is_some() && !bytes.is_empty() => {
            let lines = contents::summary(&bytes);
            format!("{}, {lines}", counted(bytes.len(), "byte"))
        }
        Some(bytes) => contents::summary(&bytes),
        None => shown(&entry.field, &entry.value),
    }
}

/// What has to be known of contents before they are shown.
struct Bodies<'e> {
    /// The bodies that are packed.
    packed: HashSet<(&'e Subject, &'e str)>,
    /// The files whose contents are secrets.
    secrets: &'e HashSet<&'e Subject>,
}

impl<'e> Bodies<'e> {
    fn of(entries: &[&'e Entry<'_>], secrets: &'e HashSet<&'e Subject>) -> Self {
        let gzip = entries.iter().filter(|entry| entry.value.as_str() == Some("gzip"));
        let packed =
            gzip.filter_map(|entry| Some((&entry.subject, entry.field.strip_suffix(".compression")?))).collect();
        Bodies { packed, secrets }
    }

    /// Whether the value is the source of a packed one.
    fn is_packed(&self, entry: &Entry<'_>) -> bool {
        entry.field.strip_suffix(".source").is_some_and(|body| self.packed.contains(&(&entry.subject, body)))
    }

    /// Whether the value is not to be shown.
    fn is_secret(&self, entry: &Entry<'_>) -> bool {
        self.secrets.contains(&entry.subject) && secret::holds_contents(&entry.field)
    }
}

/// Whether a body looks compressed: an overridden value comes without its `compression` field.
fn looks_packed(node: &Node<'_>) -> bool {
    node.as_str().and_then(|text| data_url::decode(text).ok()).is_some_and(|bytes| bytes.starts_with(&[0x1f, 0x8b]))
}

/// The contents behind a value: of a file rather than their encoding, of a unit as they are. `None` for values that are
/// no contents, and for secrets.
fn bytes_behind(field: &str, node: &Node<'_>, is_packed: bool) -> Option<Vec<u8>> {
    let text = node.as_str().filter(|_| !is_secret(field))?;
    if !text.starts_with("data:") {
        return text.contains('\n').then(|| text.as_bytes().to_vec());
    }
    let bytes = data_url::decode(text).ok()?.into_owned();
    if is_packed { Some(gzip::unpack(&bytes, MAX_UNPACKED_BYTES).unwrap_or(bytes)) } else { Some(bytes) }
}
