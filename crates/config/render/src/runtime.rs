//! Container runtime check: CRI-O's drop-ins are TOML, and the default runtime exists in the OS image stream of the pool.

use seaworthy_ignition::Severity;
use seaworthy_ignition::body_of;
use seaworthy_ignition::node::Node;
use toml_edit::DocumentMut;

use crate::fields::{Fields, stream_of};
use crate::finding::Finding;
use crate::locator::Locator;
use crate::pool::Pool;
use crate::render::Context;

/// Where CRI-O looks for its settings, in the order of the file names.
const DROPINS: &str = "/etc/crio/crio.conf.d/";

/// Streams whose OS has no `runc`.
const WITHOUT_RUNC: [&str; 2] = ["rhel-10", "centos-10"];

/// Larger drop-ins of CRI-O are not read.
const MAX_DROPIN_BYTES: u64 = 1 << 20;

/// A config whose effective default runtime is one that the pool's OS does not have.
pub(crate) fn unsupported_runtime(
    pool: &Pool,
    config: &Node<'_>,
    fields: &Fields<'_>,
    context: &Context,
    locator: &Locator<'_, '_>,
) -> Option<Finding> {
    // Of an image that a user chose nothing is known here.
    if fields.image_overridden {
        return None;
    }
    let stream = stream_of(pool, context, context.streams.as_ref()?);
    if !WITHOUT_RUNC.contains(&stream) {
        return None;
    }
    let (runtime, file) = default_runtime(config)?;
    (runtime == "runc").then(|| Finding {
        severity: Severity::Error,
        code: "runtime-not-in-stream",
        pool: Some(pool.name.clone()),
        subject: format!("file {}", file.text_of("path")),
        places: file.dig(&["contents", "source"]).and_then(|source| locator.place(source.origin)).into_iter().collect(),
        message: format!("sets the default runtime runc, which the OS image stream {stream} does not have; use crun"),
    })
}

/// CRI-O's drop-ins in the order in which it reads them.
fn dropins<'n, 'a>(config: &'n Node<'a>) -> Vec<&'n Node<'a>> {
    let files = config.dig(&["storage", "files"]).and_then(Node::as_list).unwrap_or_default();
    let is_dropin =
        |file: &&Node<'_>| file.text_of("path").strip_prefix(DROPINS).is_some_and(|name| !name.contains('/'));
    let mut dropins: Vec<&'n Node<'a>> = files.iter().filter(is_dropin).collect();
    dropins.sort_by_key(|file| file.text_of("path"));
    dropins
}

/// CRI-O's drop-ins that are not TOML, and why: CRI-O does not start with one. TOML is that of version 1.1, which allows a little more
/// than older releases of CRI-O. A file that Ignition completes with `append` is not checked: its contents are only a part of it.
pub(crate) fn invalid_dropins<'n, 'a>(config: &'n Node<'a>) -> Vec<(&'n Node<'a>, String)> {
    let invalid = |file: &'n Node<'a>| {
        if !file.list_of("append").is_empty() {
            return None;
        }
        let body = body_of(file, MAX_DROPIN_BYTES).ok()?;
        let why = match std::str::from_utf8(&body) {
            Ok(text) => toml_error(text)?,
            Err(error) => format!("byte {} is not UTF-8", error.valid_up_to() + 1),
        };
        Some((file, why))
    };
    dropins(config).into_iter().filter_map(invalid).collect()
}

/// Why a text is not TOML, with the line, on one line.
fn toml_error(text: &str) -> Option<String> {
    let error = text.parse::<DocumentMut>().err()?;
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let lines: Vec<&str> = error.message().lines().map(str::trim).collect();
    Some(format!("line {}: {}", before.matches('\n').count() + 1, lines.join(", ")))
}

/// The last `default_runtime` of CRI-O's drop-ins, and the file that sets it.
fn default_runtime<'n, 'a>(config: &'n Node<'a>) -> Option<(String, &'n Node<'a>)> {
    dropins(config).into_iter().rev().find_map(|file| {
        let body = body_of(file, MAX_DROPIN_BYTES).ok()?;
        Some((default_runtime_of(std::str::from_utf8(&body).ok()?)?, file))
    })
}

/// `default_runtime` in the table `crio.runtime` of a TOML text, however the table is written. Of a text that is not TOML, which
/// CRI-O does not start with, it is what the lines plainly set: once the mistake is corrected, that takes effect.
fn default_runtime_of(toml: &str) -> Option<String> {
    let Ok(document) = toml.parse::<DocumentMut>() else { return plain_default_runtime(toml) };
    let runtime = document.get("crio")?.get("runtime")?.get("default_runtime")?;
    runtime.as_str().map(str::to_owned)
}

/// The same from the lines of a text that need not be TOML: the header of a table, `key = "value"`, comments.
fn plain_default_runtime(text: &str) -> Option<String> {
    let mut is_in_table = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_in_table = line.split('#').next().unwrap_or_default().replace([' ', '\t'], "") == "[crio.runtime]";
        } else if is_in_table
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "default_runtime"
            && let Some(quote) = value.trim().chars().next().filter(|quote| matches!(quote, '"' | '\''))
        {
            found = value.trim().split(quote).nth(1).map(str::to_owned);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{default_runtime_of, toml_error};

    #[test]
    fn the_runtime_is_read_from_its_table_only() {
        let text = "[crio]\ndefault_runtime = \"a\"\n[crio.runtime] # x\n# default_runtime = \"b\"\ndefault_runtime= 'runc' # y\n";
        assert_eq!(default_runtime_of(text).as_deref(), Some("runc"));
        assert_eq!(default_runtime_of("default_runtime = \"runc\"\n"), None);
    }

    #[test]
    fn the_table_may_be_written_in_any_form() {
        for text in [
            "crio.runtime.default_runtime = \"runc\"\n",
            "[crio]\nruntime.default_runtime = \"runc\"\n",
            "[crio]\nruntime = { default_runtime = \"runc\" }\n",
            "crio = { runtime = { default_runtime = 'runc' } }\n",
            "[crio.runtime]\ndefault_runtime = \"\"\"runc\"\"\"\n",
            "[\"crio\".\"runtime\"]\n\"default_runtime\" = \"runc\"\n",
        ] {
            assert_eq!(default_runtime_of(text).as_deref(), Some("runc"), "{text}");
        }
    }

    #[test]
    fn what_is_no_text_or_has_no_such_table_names_no_runtime() {
        for text in
            ["[crio.runtime]\ndefault_runtime = 1\n", "[crio.runtime\ndefault_runtime = \"runc\"\n", "crio = 1\n"]
        {
            assert_eq!(default_runtime_of(text), None, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_toml_names_the_runtime_that_it_plainly_sets() {
        let text = "[crio.runtime]\nlog_level = info\ndefault_runtime = \"runc\"\n";
        assert_eq!(default_runtime_of(text).as_deref(), Some("runc"));
        let error = toml_error(text).unwrap();
        assert!(error.starts_with("line 2: ") && !error.contains('\n'), "{error}");
        assert_eq!(toml_error("[crio.runtime]\ndefault_runtime = \"runc\"\n"), None);
        assert_eq!(default_runtime_of("[crio.runtime]\nlog_level = info\ndefault_runtime = runc\n"), None);
    }
}
