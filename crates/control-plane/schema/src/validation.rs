//! Validation of a value against its schema.
//!
//! - Every mistake is reported, each in the words of the real API server.
//! - On an update, a part that did not change is not reported again: see [`crate::correlation`].
//! - The order of checks and the way of counting those that passed follow the original, because the count decides
//!   which of several failed alternatives is worth reporting.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::cause::Cause;
use crate::correlation::{OldElements, is_same, is_unchanged, old_field};
use crate::document::Schema;
use crate::format::{TextFormat, is_checked};
use crate::node::{Additional, Limits, Type};
use crate::number::{NumberChecks, NumberMistake};
use crate::path::Path;
use crate::wording;

/// Checks a value against its schema. `old` is the value it takes the place of.
///
/// `base` is the place of the value in its object, empty for the object itself; messages are worded from the value.
pub fn validate(schema: Schema<'_>, value: &Value, old: Option<&Value>, base: &str) -> Vec<Cause> {
    let mut walk = Walk { base, findings: Vec::new(), reported: 0, is_default: false };
    walk.value(schema, value, None, &Path::ROOT);
    // Old values matter only when there is something to excuse, which is rare.
    if let Some(old) = old.filter(|_| !walk.findings.is_empty()) {
        walk.findings.clear();
        walk.ratcheted(schema, value, Some(old), &Path::ROOT);
    }
    walk.causes()
}

/// Checks a default against its schema.
pub(crate) fn validate_default(schema: Schema<'_>, value: &Value, base: &str) -> Vec<Cause> {
    let mut walk = Walk { base, findings: Vec::new(), reported: 0, is_default: true };
    walk.value(schema, value, None, &Path::ROOT);
    walk.causes()
}

/// A mistake and the sentence that identifies it.
struct Mistake {
    text: String,
    cause: Cause,
}

/// The maximum size of reports about one value, in bytes: a short one can have many mistakes behind a long path.
const MAX_REPORTED_BYTES: usize = 1 << 20;

struct Walk<'b> {
    base: &'b str,
    findings: Vec<Mistake>,
    /// The size of their texts, in bytes.
    reported: usize,
    /// In defaults, the original does not look at the type of int-or-string and takes every format for what it says.
    is_default: bool,
}

impl Walk<'_> {
    fn causes(self) -> Vec<Cause> {
        let mut seen = HashSet::with_capacity(self.findings.len());
        let findings = self.findings.into_iter();
        findings.filter(|finding| seen.insert(finding.text.clone())).map(|finding| finding.cause).collect()
    }

    fn types(&self, schema: Schema<'_>) -> &'static [&'static str] {
        if self.is_default && schema.is_int_or_string { &[] } else { schema.types() }
    }

    fn format<'s>(&self, schema: Schema<'s>) -> Option<&'s str> {
        let format = schema.node().format.as_deref()?;
        let is_taken = self.is_default || is_checked(schema.kind, schema.is_int_or_string, format);
        (is_taken && !format.is_empty()).then_some(format)
    }

    fn field(&self, name: &str) -> String {
        let name = name.strip_prefix('.').unwrap_or(name);
        match (self.base, name) {
            ("", "") => "<nil>".to_owned(),
            ("", name) => name.to_owned(),
            (base, "") => base.to_owned(),
            (base, name) => format!("{base}.{name}"),
        }
    }

    /// A mistake with a place. The sentence begins with the place and where it was found.
    fn report(&mut self, path: &str, sentence: String, cause: impl FnOnce(String, &str) -> Cause) {
        if self.reported > MAX_REPORTED_BYTES {
            // It still counts, and all of them are reported as one.
            return self.report_plain("there are more mistakes than can be listed".to_owned());
        }
        let text = format!("{path} in body {sentence}");
        self.reported += text.len();
        let cause = cause(self.field(path), &text);
        self.findings.push(Mistake { text, cause });
    }

    /// A mistake of the value as a whole.
    fn report_plain(&mut self, text: String) {
        let cause = Cause::invalid(self.field(""), "", &text);
        self.findings.push(Mistake { text, cause });
    }

    fn report_type(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let sentence = format!("must be of type {wanted}: {}", wording::quoted(found));
        self.report(&path.dotted(), sentence, |field, text| Cause::type_invalid(field, found, text));
    }

    /// Checks a value and forgets what is wrong when it was so before. The number counts the checks that passed.
    fn ratcheted<'v>(&mut self, schema: Schema<'v>, value: &Value, old: Option<&'v Value>, path: &Path<'_>) -> u64 {
        let before = self.findings.len();
        let count = self.value(schema, value, old, path);
        if self.findings.len() > before && old.is_some_and(|old| is_unchanged(schema, value, old)) {
            self.findings.truncate(before);
        }
        count
    }

    fn value<'v>(&mut self, schema: Schema<'v>, value: &Value, old: Option<&'v Value>, path: &Path<'_>) -> u64 {
        let format = self.format(schema);
        if value.is_null() {
            let types = self.types(schema);
            let is_fine = types.is_empty() || schema.nullable;
            if !is_fine {
                self.report_type(path, &types.join(","), "null");
            }
            self.allowed(schema, value, path);
            return u64::from(is_fine);
        }
        // One for the common checks, one for the combinations, one for the value.
        let mut count = 3;
        if !self.types(schema).is_empty() || format.is_some() {
            count += 1 + u64::from(self.kind(schema, value, format, path));
        }
        count += self.logic(schema, value, path);
        match value {
            Value::String(text) => {
                count += 1;
                if let Some(limits) = &schema.limits {
                    self.text(limits, text, path);
                }
                if let Some(name) = format
                    && let Some(format) = TextFormat::named(name)
                {
                    count += 1;
                    if !format.accepts(text) {
                        self.report_type(path, name, text);
                    }
                }
            }
            Value::Number(_) => {
                count += 2;
                self.number(schema, value, format, path);
            }
            Value::Array(items) => count += 2 + self.list(schema, items, old, path),
            _ => {}
        }
        self.allowed(schema, value, path);
        if let Value::Object(map) = value {
            count += 1 + self.object(schema, map, old, path);
        }
        count
    }

    /// Whether the type is right.
    fn kind(&mut self, schema: Schema<'_>, value: &Value, format: Option<&str>, path: &Path<'_>) -> bool {
        let types = self.types(schema);
        let (found, found_format) = match value {
            Value::Null => return true,
            Value::Bool(_) => ("boolean", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let wants_number = types.contains(&"number");
        let wants_integer = types.contains(&"integer");
        let is_whole = || found == "number" && value.as_f64().is_some_and(crate::number::is_whole);
        let fits = types.contains(&found) || (found == "integer" && wants_number) || (wants_integer && is_whole());
        let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        if let Some(format) = format {
            if !is_text_or_list && !fits && found_format != format {
                self.report_type(path, format, found_format);
                return false;
            }
            // Text with a format is judged by the format alone.
            if is_text_or_list && !wants_number && !wants_integer {
                return true;
            }
        }
        if !fits {
            self.report_type(path, &types.join(","), found);
        }
        fits
    }

    fn text(&mut self, limits: &Limits, text: &str, path: &Path<'_>) {
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(limit) = limits.max_length.filter(|limit| length() > *limit) {
            let sentence = format!("should be at most {limit} chars long");
            self.report(&path.dotted(), sentence, |field, _| Cause::too_long(field, limit));
        } else if let Some(limit) = limits.min_length.filter(|limit| length() < *limit) {
            let sentence = format!("should be at least {limit} chars long");
            self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, text, detail));
        } else if let Some(pattern) = &limits.pattern {
            let shown = match pattern.is_match(text) {
                Ok(true) => return,
                Ok(false) => pattern.as_str().to_owned(),
                Err(error) => format!("{}, but pattern is invalid: {error}", pattern.as_str()),
            };
            let sentence = format!("should match '{shown}'");
            self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, text, detail));
        }
    }

    fn number(&mut self, schema: Schema<'_>, value: &Value, format: Option<&str>, path: &Path<'_>) {
        let kind = if schema.is_int_or_string { None } else { schema.kind };
        let kind = kind.filter(|kind| matches!(kind, Type::Integer | Type::Number));
        if kind.is_none() && schema.limits.is_none() {
            return;
        }
        let checks = NumberChecks {
            kind,
            format: format.filter(|format| is_checked(kind, false, format) && kind.is_some()),
            limits: schema.limits.as_deref(),
        };
        for found in checks.run(value) {
            match found {
                NumberMistake::OutOfRange { what } => {
                    let kind = if kind == Some(Type::Integer) { "integer" } else { "number" };
                    let form =
                        checks.format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
                    self.report_plain(format!("{what} value must be of type {kind} {form} in {}", path.dotted()));
                }
                NumberMistake::FactorNotPositive { factor } => {
                    let text = format!("factor MultipleOf declared for {} must be positive: {factor}", path.dotted());
                    let shown = crate::cause::ShownValue::raw(factor);
                    let cause = Cause::invalid(self.field(&path.dotted()), shown, &text);
                    self.findings.push(Mistake { text, cause });
                }
                NumberMistake::Broken { sentence, shown } => {
                    let shown = crate::cause::ShownValue::raw(shown);
                    self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, shown, detail));
                }
            }
        }
    }

    /// `enum`.
    fn allowed(&mut self, schema: Schema<'_>, value: &Value, path: &Path<'_>) {
        if schema.allowed.is_empty() || schema.allowed.iter().any(|allowed| is_allowed(value, allowed)) {
            return;
        }
        let supported: Vec<String> = schema
            .allowed
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| wording::json(allowed), str::to_owned))
            .collect();
        let sentence = format!("should be one of [{}]", supported.join(" "));
        self.report(&path.dotted(), sentence, |field, _| Cause::not_supported(field, value, &supported));
    }

    fn list<'v>(&mut self, schema: Schema<'v>, items: &[Value], old: Option<&'v Value>, path: &Path<'_>) -> u64 {
        let mut count = 0;
        if let Some(each) = schema.items() {
            let elements = OldElements::of(schema, old);
            for (index, item) in items.iter().enumerate() {
                let old = elements.as_ref().and_then(|elements| elements.get(item));
                count += self.ratcheted(each, item, old, &path.index(index));
            }
        }
        let Some(limits) = &schema.limits else { return count };
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = limits.min_items.filter(|limit| size < *limit) {
            let sentence = format!("should have at least {limit} items");
            self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, size, detail));
        }
        if let Some(limit) = limits.max_items.filter(|limit| size > *limit) {
            let sentence = format!("should have at most {limit} items");
            self.report(&path.dotted(), sentence, |field, _| Cause::too_many(field, size, limit));
        }
        if limits.unique_items && has_twins(items) {
            let sentence = "shouldn't contain duplicates".to_owned();
            self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, "", detail));
        }
        count
    }

    fn object<'v>(
        &mut self,
        schema: Schema<'v>,
        map: &Map<String, Value>,
        old: Option<&'v Value>,
        path: &Path<'_>,
    ) -> u64 {
        if let Some(limits) = &schema.limits {
            let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
            if let Some(limit) = limits.min_properties.filter(|limit| size < *limit) {
                let sentence = format!("should have at least {limit} properties");
                self.report(&path.dotted(), sentence, |field, detail| Cause::invalid(field, size, detail));
            }
            if let Some(limit) = limits.max_properties.filter(|limit| size > *limit) {
                let sentence = format!("should have at most {limit} properties");
                self.report(&path.dotted(), sentence, |field, _| Cause::too_many(field, size, limit));
            }
        }
        let mut count = 0;
        for (key, value) in map {
            if let Some(property) = schema.property(key) {
                // What an object is cannot be excused by its having been so.
                let is_head = matches!(key.as_str(), "apiVersion" | "kind") && path.is_root();
                let old = if is_head { None } else { old_field(schema, key, old) };
                count += self.ratcheted(property, value, old, &path.name(key));
            } else if let Some(each) = schema.additional() {
                count += self.ratcheted(each, value, old_field(schema, key, old), &path.key(key));
            } else if schema.additional == Additional::Nothing {
                let text = format!("{}.{key} in body is a forbidden property", path.dotted());
                let cause = Cause::invalid(self.field(&path.dotted()), key, &text);
                self.findings.push(Mistake { text, cause });
            }
        }
        for name in &schema.required {
            if !map.contains_key(&**name) {
                let place = format!("{}.{name}", path.dotted());
                self.report(&place, "is required".to_owned(), |field, _| Cause::required(field, ""));
            }
        }
        count
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`.
    fn logic(&mut self, schema: Schema<'_>, value: &Value, path: &Path<'_>) -> u64 {
        if schema.logic.is_none() {
            return 1;
        }
        let quoted = || wording::quoted(&path.dotted());
        let mut count = 1;
        if schema.any_of().len() > 0 {
            match self.attempts(schema.any_of(), value, path, true) {
                (_, Some((passed, _)), _) => count += passed,
                (_, None, best) => {
                    self.report_plain(format!("{} must validate at least one schema (anyOf)", quoted()));
                    count += self.keep(best);
                }
            }
        }
        if schema.one_of().len() > 0 {
            let (valid, first, best) = self.attempts(schema.one_of(), value, path, false);
            match (valid, first) {
                (1, Some((passed, _))) => count += passed,
                (0, _) => {
                    self.report_plain(format!(
                        "{} must validate one and only one schema (oneOf). Found none valid",
                        quoted()
                    ));
                    count += self.keep(best);
                }
                _ => self.report_plain(format!(
                    "{} must validate one and only one schema (oneOf). Found {valid} valid alternatives",
                    quoted()
                )),
            }
        }
        if schema.all_of().len() > 0 {
            let total = schema.all_of().len();
            let mut valid = 0;
            for alternative in schema.all_of() {
                let before = self.findings.len();
                count += self.value(alternative, value, None, path);
                valid += usize::from(self.findings.len() == before);
            }
            if valid != total {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.report_plain(format!("{} must validate all the schemas (allOf){none}", quoted()));
            }
        }
        if let Some(schema) = schema.none_of()
            && self.attempt(schema, value, path).1.is_empty()
        {
            self.report_plain(format!("{} must not validate the schema (not)", quoted()));
        }
        count
    }

    /// Tries alternatives: how many hold, the first that does, and the failed one that got furthest.
    #[allow(clippy::type_complexity)] // Read in two places, each taking it apart at once.
    fn attempts<'v>(
        &mut self,
        alternatives: impl Iterator<Item = Schema<'v>>,
        value: &Value,
        path: &Path<'_>,
        stop_at_first: bool,
    ) -> (usize, Option<(u64, Vec<Mistake>)>, Option<(u64, Vec<Mistake>)>) {
        let (mut valid, mut first, mut best) = (0, None, None::<(u64, Vec<Mistake>)>);
        for alternative in alternatives {
            let (count, findings) = self.attempt(alternative, value, path);
            if findings.is_empty() {
                valid += 1;
                first.get_or_insert((count, findings));
                if stop_at_first {
                    break;
                }
            } else if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, findings));
            }
        }
        (valid, first, best)
    }

    fn attempt(&mut self, schema: Schema<'_>, value: &Value, path: &Path<'_>) -> (u64, Vec<Mistake>) {
        let kept = std::mem::take(&mut self.findings);
        let count = self.value(schema, value, None, path);
        (count, std::mem::replace(&mut self.findings, kept))
    }

    fn keep(&mut self, attempt: Option<(u64, Vec<Mistake>)>) -> u64 {
        let Some((count, findings)) = attempt else { return 0 };
        self.findings.extend(findings);
        count
    }
}

/// Whether a value is one that an `enum` lists. Numbers are compared in the listed one's type, as the original does:
/// where a whole number is listed, the fraction of the value is not looked at.
fn is_allowed(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        // The original lets no null pass an enum, listed or not.
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => value.as_f64().is_some_and(|value| value.trunc() as i64 == allowed),
            (_, None) => value.as_f64() == allowed.as_f64(),
        },
        // There a whole number turns into the character of that number.
        (Value::Number(value), Value::String(allowed)) => {
            let c = value.as_i64().map(|code| u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'));
            c.is_some_and(|c| allowed.chars().eq([c]))
        }
        (value, allowed) => is_same(value, allowed),
    }
}

fn has_twins(items: &[Value]) -> bool {
    let mut seen: std::collections::HashMap<String, Vec<&Value>> = std::collections::HashMap::new();
    items.iter().any(|item| {
        let alike = seen.entry(wording::json(item)).or_default();
        let found = alike.iter().any(|other| is_same(other, item));
        alike.push(item);
        found
    })
}
