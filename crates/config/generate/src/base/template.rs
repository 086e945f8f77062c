//! Templates: files with a few variables in them.
//!
//! `{{name}}` is replaced by a variable. So is `{{?name}}`, and its whole line is removed when the variable is empty. There is
//! nothing else: what depends on a condition is a variable, or a file of its own for a role.

use std::collections::BTreeMap;

/// Why a template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It names a variable that does not exist.
    #[error("template {template}, line {line}: there is no variable {variable:?}; expected one of {accepted}")]
    Unknown {
        template: String,
        /// The line, counted from 1.
        line: usize,
        /// The name.
        variable: String,
        /// The names that exist.
        accepted: String,
    },
    /// A variable has no end.
    #[error("template {template}, line {line}: \"{{{{\" without \"}}}}\" on the same line; close it")]
    Unclosed {
        template: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// It is not text.
    #[error("template {template} is not text in UTF-8; only text can be a template")]
    NotText { template: String },
    /// It lies where no template belongs.
    #[error(
        "template {template} is misplaced; expected {{common,master,worker}}/{{00,01-kubelet,\
         01-container-runtime}}/{{files,programs}}/PATH or …/units/NAME"
    )]
    Misplaced { template: String },
    /// A variable would break the file that it is used in.
    #[error("ControllerConfig {field}: {why}; correct it")]
    Value {
        /// The field that the variable comes from.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// The variables and their values.
pub(super) type Variables = BTreeMap<&'static str, String>;

/// Fills a template in. All mistakes are reported, not the first.
pub(super) fn filled(template: &str, text: &str, variables: &Variables) -> Result<String, Vec<TemplateError>> {
    let mut out = String::with_capacity(text.len());
    let mut errors = Vec::new();
    for (nth, line) in text.split_inclusive('\n').enumerate() {
        match filled_line(template, nth + 1, line, variables) {
            Ok(Some(line)) => out.push_str(&line),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

/// Fills a line in; `None` when it goes.
fn filled_line(
    template: &str,
    number: usize,
    line: &str,
    variables: &Variables,
) -> Result<Option<String>, TemplateError> {
    let mut out = String::new();
    let mut rest = line;
    let mut goes = false;
    while let Some((before, behind)) = rest.split_once("{{") {
        let unclosed = || TemplateError::Unclosed { template: template.to_owned(), line: number };
        let (name, after) = behind.split_once("}}").ok_or_else(unclosed)?;
        let (is_optional, name) = match name.strip_prefix('?') {
            Some(name) => (true, name),
            None => (false, name),
        };
        let value = variables.get(name).ok_or_else(|| TemplateError::Unknown {
            template: template.to_owned(),
            line: number,
            variable: name.to_owned(),
            accepted: variables.keys().copied().collect::<Vec<_>>().join(", "),
        })?;
        goes |= is_optional && value.is_empty();
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    Ok((!goes).then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str) -> Result<String, Vec<TemplateError>> {
        let variables = Variables::from([("a", "1".to_owned()), ("none", String::new())]);
        filled("worker/x", text, &variables)
    }

    #[test]
    fn variables_are_filled_in() {
        assert_eq!(fill("x={{a}}{{a}}\ny={{none}}\nz").unwrap(), "x=11\ny=\nz");
    }

    #[test]
    fn a_line_goes_with_its_empty_variable() {
        assert_eq!(fill("k: {{?none}}\nl: {{?a}}\nm: {{?none}}").unwrap(), "l: 1\n");
    }

    #[test]
    fn a_mistake_names_template_line_variable_and_what_is_accepted() {
        let errors = fill("ok\n{{b}}\n{{?c}}\n{{a\n").unwrap_err();
        let reported: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "template worker/x, line 2: there is no variable \"b\"; expected one of a, none",
                "template worker/x, line 3: there is no variable \"c\"; expected one of a, none",
                "template worker/x, line 4: \"{{\" without \"}}\" on the same line; close it",
            ]
        );
    }
}
