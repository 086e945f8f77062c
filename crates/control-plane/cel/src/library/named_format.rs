//! Named formats: the rules for names, labels and a few string formats, each with its error message.

use std::sync::LazyLock;

use regex::Regex;
use seaworthy_values::names;

use super::{Native, overload_mismatch, url};
use crate::time::Timestamp;
use crate::value::{Opaque, Outcome, Val};

/// A format and how to check it.
#[derive(Debug)]
pub struct NamedFormat {
    /// Its name in results.
    pub name: &'static str,
    /// What it is called by.
    ident: &'static str,
    /// How long the pattern behind it is taken to be, for costs.
    pub(crate) pattern_size: u64,
    validate: fn(&str) -> Vec<String>,
}

fn anchored(pattern: &str) -> Regex {
    // The patterns are constants of this file, and every one is used in tests.
    #[allow(clippy::expect_used)]
    Regex::new(&format!("^(?:{pattern})$")).expect("a constant pattern")
}

static UUID_RE: LazyLock<Regex> =
    LazyLock::new(|| anchored("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"));
static BASE64_RE: LazyLock<Regex> =
    LazyLock::new(|| anchored("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"));

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "DNS1123Label", ident: "dns1123Label", pattern_size: 30, validate: names::dns_label },
    NamedFormat {
        name: "DNS1123Subdomain",
        ident: "dns1123Subdomain",
        pattern_size: 60,
        validate: names::dns_subdomain,
    },
    NamedFormat { name: "DNS1035Label", ident: "dns1035Label", pattern_size: 30, validate: names::dns_1035_label },
    NamedFormat { name: "QualifiedName", ident: "qualifiedName", pattern_size: 60, validate: names::qualified_name },
    NamedFormat {
        name: "DNS1123LabelPrefix",
        ident: "dns1123LabelPrefix",
        pattern_size: 30,
        validate: |text| names::dns_label(&without_dash(text)),
    },
    NamedFormat {
        name: "DNS1123SubdomainPrefix",
        ident: "dns1123SubdomainPrefix",
        pattern_size: 60,
        validate: |text| names::dns_subdomain(&without_dash(text)),
    },
    NamedFormat {
        name: "DNS1035LabelPrefix",
        ident: "dns1035LabelPrefix",
        pattern_size: 30,
        validate: |text| names::dns_1035_label(&without_dash(text)),
    },
    NamedFormat { name: "LabelValue", ident: "labelValue", pattern_size: 40, validate: names::label_value },
    NamedFormat {
        name: "URI",
        ident: "uri",
        pattern_size: 1103,
        validate: |text| url::check(text).err().into_iter().collect(),
    },
    NamedFormat {
        name: "uuid",
        ident: "uuid",
        pattern_size: 72,
        validate: |text| refuse(UUID_RE.is_match(text), "does not match the UUID format"),
    },
    NamedFormat {
        name: "byte",
        ident: "byte",
        pattern_size: 84,
        validate: |text| refuse(BASE64_RE.is_match(text), "invalid base64"),
    },
    NamedFormat {
        name: "date",
        ident: "date",
        pattern_size: 70,
        validate: |text| refuse(Timestamp::parse_day(text).is_some(), "invalid date"),
    },
    NamedFormat {
        name: "datetime",
        ident: "datetime",
        pattern_size: 70,
        validate: |text| refuse(Timestamp::parse(text).is_some(), "invalid datetime"),
    },
];

fn refuse(ok: bool, problem: &str) -> Vec<String> {
    if ok { Vec::new() } else { vec![problem.to_owned()] }
}

/// A prefix may end with the dash that the generated rest follows.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "validate" => validate,
        "format.named" => |args| match args {
            [Val::String(name)] => {
                let format = FORMATS.iter().find(|format| format.ident == &**name);
                Ok(format.map_or(Val::Optional(None), |format| Val::some(Val::Opaque(Opaque::Format(format)))))
            }
            _ => overload_mismatch(),
        },
        "format.dns1123Label" => |_| constant(0),
        "format.dns1123Subdomain" => |_| constant(1),
        "format.dns1035Label" => |_| constant(2),
        "format.qualifiedName" => |_| constant(3),
        "format.dns1123LabelPrefix" => |_| constant(4),
        "format.dns1123SubdomainPrefix" => |_| constant(5),
        "format.dns1035LabelPrefix" => |_| constant(6),
        "format.labelValue" => |_| constant(7),
        "format.uri" => |_| constant(8),
        "format.uuid" => |_| constant(9),
        "format.byte" => |_| constant(10),
        "format.date" => |_| constant(11),
        "format.datetime" => |_| constant(12),
        _ => return None,
    };
    Some(native)
}

fn constant<'a>(index: usize) -> Outcome<'a> {
    Ok(Val::Opaque(Opaque::Format(&FORMATS[index])))
}

fn validate<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Format(format)), Val::String(text)] = args else { return overload_mismatch() };
    let problems = (format.validate)(text);
    if problems.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::some(Val::list(problems.into_iter().map(Val::string).collect())))
}
