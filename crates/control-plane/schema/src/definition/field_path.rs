//! Paths to a field as definitions write them: `.spec.size` and `.spec['a.b']`.

use super::props::Props;

/// The place that a path names, and the schema there.
pub(crate) struct FieldPath<'a> {
    /// As causes write it: `spec.map[key]`.
    pub(crate) text: String,
    /// The first step.
    pub(super) root: String,
    pub(super) schema: Props<'a>,
}

/// Follows a path from a schema. An error says what is wrong with it.
pub(crate) fn follow<'a>(source: &str, schema: Props<'a>, with_brackets: bool) -> Result<FieldPath<'a>, String> {
    let mut found = FieldPath { text: String::new(), root: String::new(), schema };
    let mut tokens = tokens(source).into_iter();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" => {
                if !with_brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let quoted = tokens.next().ok_or_else(end)?;
                let Some(inside) = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                let name = unescape(inside)?;
                found.step(&name)?;
                let close = tokens.next().ok_or_else(end)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
            }
            "." => {
                let name = tokens.next().ok_or_else(end)?;
                found.step(name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl FieldPath<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let nowhere = || "does not refer to a valid field".to_owned();
        let is_first = self.text.is_empty();
        if !self.schema.properties().is_empty() {
            self.schema = self.schema.property(name).ok_or_else(nowhere)?;
            if !is_first {
                self.text.push('.');
            }
            self.text.push_str(name);
        } else if self.schema.additional().is_some() {
            self.schema = self.schema.additional_schema().ok_or_else(nowhere)?;
            self.text.push_str(&format!("[{name}]"));
        } else {
            return Err(nowhere());
        }
        if is_first {
            self.root.clone_from(&self.text);
        }
        Ok(())
    }
}

/// Dots, brackets, quoted names and what is between them.
fn tokens(source: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let length = if rest.starts_with('\'') {
            let bytes = rest.as_bytes();
            (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\').map_or(rest.len(), |at| at + 1)
        } else {
            rest.find(['.', '[', ']']).map_or(rest.len(), |at| at.max(1))
        };
        let (token, after) = rest.split_at(length);
        all.push(token);
        rest = after;
    }
    all
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            Some(c) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
            // A backslash at the very end escapes nothing.
            None => '\\',
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(".spec.size", Ok("spec.size"))]
    #[case("['spec']['a.b']", Ok("spec.a.b"))]
    #[case(".spec.map.key", Ok("spec.map[key]"))]
    #[case(".spec.none", Err("does not refer to a valid field"))]
    #[case("spec", Err("expected [ or . but got: spec"))]
    #[case(".", Err("unexpected end of JSON path"))]
    #[case(".spec[0]", Err("expected single quoted string but got 0"))]
    fn paths(#[case] source: &str, #[case] expected: Result<&str, &str>) {
        let schema = json!({"properties": {"spec": {"properties": {
            "size": {}, "a.b": {}, "map": {"additionalProperties": {}}
        }}}});
        let found = follow(source, Props::of(&schema).unwrap(), true).map(|found| found.text);
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
