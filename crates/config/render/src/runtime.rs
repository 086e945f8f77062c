//! Container runtime check: the default runtime of a config must exist in the OS image stream of its pool.

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

/// The last `default_runtime` of CRI-O's drop-ins, and the file that sets it.
fn default_runtime<'n, 'a>(config: &'n Node<'a>) -> Option<(String, &'n Node<'a>)> {
    let mut dropins: Vec<&Node<'_>> = config
        .dig(&["storage", "files"])?
        .as_list()?
        .iter()
        .filter(|file| file.text_of("path").strip_prefix(DROPINS).is_some_and(|name| !name.contains('/')))
        .collect();
    dropins.sort_by_key(|file| file.text_of("path"));
    dropins.into_iter().rev().find_map(|file| {
        let body = body_of(file, MAX_DROPIN_BYTES).ok()?;
        Some((default_runtime_of(std::str::from_utf8(&body).ok()?)?, file))
    })
}

/// `default_runtime` in the table `crio.runtime` of a TOML text, however the table is written. Of a text that is no TOML nothing
/// is known: CRI-O does not start with it.
fn default_runtime_of(toml: &str) -> Option<String> {
    let document = toml.parse::<DocumentMut>().ok()?;
    let runtime = document.get("crio")?.get("runtime")?.get("default_runtime")?;
    runtime.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::default_runtime_of;

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
    fn what_is_no_text_or_no_toml_names_no_runtime() {
        for text in
            ["[crio.runtime]\ndefault_runtime = 1\n", "[crio.runtime\ndefault_runtime = \"runc\"\n", "crio = 1\n"]
        {
            assert_eq!(default_runtime_of(text), None, "{text}");
        }
    }
}
