//! Parse errors: what is wrong with a text, on which line, and what to do about it. Parsers name the rule of their grammar;
//! authors of manifests need to know what to change.

use std::borrow::Cow;

use seaworthy_values::text::counted;

/// What is wrong with a text, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1; 0 where there is none.
    pub line: usize,
    /// The character in that line, counted from 1.
    pub column: usize,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// For a template that was not rendered.
const TEMPLATE: &str = "this looks like a template; render it first (for example with `helm template`) and pass the \
                        output";

/// What is wrong with a YAML text, from its parser's message.
pub fn explain_yaml(text: &str, line: usize, column: usize, parser_message: &str) -> ParseError {
    let lines: Vec<&str> = text.lines().take(line.saturating_add(1)).collect();
    if let Some(at) = conflict_marker(text) {
        let message = "unresolved merge conflict; resolve it and remove the conflict markers".to_owned();
        return ParseError { line: at + 1, column: 1, message };
    }
    let here = LineContext { lines: &lines, at: line.saturating_sub(1), column };
    if here.line().contains("{{") {
        return ParseError { line, column, message: TEMPLATE.to_owned() };
    }
    let (line, column, message) = match parser_message {
        "mapping values are not allowed in this context" => here.second_colon(),
        "simple key expected ':'" | "simple key expect ':'" => (line, column, here.missing_colon().into()),
        "while parsing a block mapping, did not find expected key" => (line, column, here.misplaced_line()),
        "while parsing a block collection, did not find expected '-' indicator" => {
            let message = "a key among the items of a list; put \"- \" before it, or indent it like the key of the \
                           list";
            (line, column, message.into())
        }
        "while parsing a flow mapping, did not find expected ',' or '}'" => {
            let message = "missing comma or } before this; a string with a comma or a colon inside { } needs quotes, \
                           such as \"data:,x\"";
            (line, column, message.into())
        }
        "illegal placement of ':' indicator" => {
            (line, column, "a bracket that was opened above is not closed before this line".into())
        }
        "misplaced bracket" => (line, column, "the bracket closes nothing; quote it if it is part of a string".into()),
        "invalid indentation in multiline quoted scalar" => {
            (line, column, "a quoted string is not closed, or continues without indentation".into())
        }
        "while parsing a quoted scalar, found unknown escape character" => {
            let message = "unknown escape sequence in double quotes; write \\\\ for a \
                           backslash, or use single quotes";
            (line, column, message.into())
        }
        "invalid trailing content after single-quoted scalar" => {
            let message = "unexpected text after the closing quote; a quote inside single quotes is written twice ('')";
            (line, column, message.into())
        }
        "invalid trailing content after double-quoted scalar" => {
            let message = "unexpected text after the closing quote; a quote inside double quotes is written as \\\"";
            (line, column, message.into())
        }
        parser_message if parser_message.starts_with("tabs disallowed") => {
            (line, column, "a tab is used for indentation; YAML is indented with spaces".into())
        }
        parser_message if parser_message.starts_with("unclosed bracket") => {
            (line, column, "the bracket is never closed; quote it if it is part of a string".into())
        }
        parser_message if parser_message.starts_with("unexpected character: ") => {
            let found = here.line().chars().nth(column.saturating_sub(1)).unwrap_or_default();
            (line, column, format!("a string that starts with {found:?} needs quotes").into())
        }
        parser_message => (line, column, Cow::Owned(parser_message.to_owned())),
    };
    ParseError { line, column, message: message.into_owned() }
}

/// What is wrong with a JSON text, from its parser's message.
pub fn explain_json(text: &str, line: usize, column: usize, parser_message: &str) -> ParseError {
    // What is wrong at the end of a line is reported at the start of the next one, where no one looks for it.
    let (line, column, is_at_end) = match line {
        2.. if column == 0 => (line - 1, text.lines().nth(line - 2).unwrap_or_default().chars().count() + 1, true),
        _ => (line, column, false),
    };
    let message = if text.trim_start().starts_with("{{") {
        TEMPLATE.to_owned()
    } else if is_at_end && parser_message.starts_with("control character") {
        "a double-quoted string is not closed on its line; write a line break inside it as \\n".to_owned()
    } else {
        json_message(parser_message)
    };
    ParseError { line, column, message }
}

fn json_message(parser_message: &str) -> String {
    let message = match parser_message {
        "trailing comma" => "trailing comma after the last entry; remove it",
        "key must be a string" => "keys in JSON need double quotes",
        "invalid number" => "not a JSON number: none starts with 0 or +; write mode 0644 as 420",
        "expected ident" => "not a JSON value; expected true, false, null, a number, or a string in double quotes",
        "expected value" => "expected a value: a string in double quotes, a number, true, false, null, [ or {",
        "expected `,` or `}`" => "missing comma before this, or missing } at the end of the object",
        "expected `,` or `]`" => "missing comma before this, or missing ] at the end of the list",
        "expected `:`" => "missing colon after the key",
        "trailing characters" => "unexpected content after the end of the document",
        "invalid escape" => "unknown escape sequence; write \\\\ for a backslash",
        "recursion limit exceeded" => "recursion limit exceeded; no manifest is nested that deep",
        parser_message if parser_message.starts_with("control character") => {
            "control character in a string; write a tab as \\t, any other as \\u and four hexadecimal digits"
        }
        parser_message => return parser_message.replace("EOF while parsing", "the text ends within"),
    };
    message.to_owned()
}

/// The first conflict marker of version control.
fn conflict_marker(text: &str) -> Option<usize> {
    let is_marker = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    text.lines().position(is_marker)
}

/// A line of a text, and the lines before it.
struct LineContext<'p> {
    lines: &'p [&'p str],
    /// The line, counted from 0.
    at: usize,
    column: usize,
}

impl<'p> LineContext<'p> {
    fn line(&self) -> &'p str {
        self.lines.get(self.at).copied().unwrap_or_default()
    }

    /// The last line above that is neither empty nor a comment.
    fn above(&self) -> Option<(usize, &'p str)> {
        let above = self.lines.get(..self.at)?;
        above.iter().enumerate().rfind(|(_, line)| is_content(line)).map(|(at, line)| (at, *line))
    }

    /// A colon where the line, or the one above it, has its value already.
    fn second_colon(&self) -> (usize, usize, Cow<'static, str>) {
        let line = self.line();
        let before: String = line.chars().take(self.column.saturating_sub(1)).collect();
        if before.contains(": ") {
            let message = "second colon in the value; quote the value".into();
            return (self.at + 1, self.column, message);
        }
        if let Some((at, above)) = self.above() {
            if let Some(column) = colon_without_space(above) {
                return (at + 1, column, "missing space after the colon".into());
            }
            if indent(line) > indent(above) {
                let message = format!(
                    "the line is indented under line {}, which already has a value; indent both alike, or remove \
                     that value",
                    at + 1
                );
                return (self.at + 1, indent(line) + 1, message.into());
            }
        }
        (self.at + 1, self.column, "unexpected colon; quote the string if the colon is part of it".into())
    }

    /// A line without the colon that makes it a key.
    fn missing_colon(&self) -> &'static str {
        let word = self.line().trim();
        if word.starts_with("---") {
            "documents are separated by a line of exactly three dashes"
        } else if word.starts_with('-') {
            "missing space after the dash of a list item"
        } else if colon_without_space(self.line()).is_some() {
            "missing space after the colon"
        } else {
            "neither a key followed by a colon nor indented as part of the value above"
        }
    }

    /// A line that belongs to no key above it.
    fn misplaced_line(&self) -> Cow<'static, str> {
        let line = self.line();
        if line.trim_start().starts_with("- ") {
            return "a list item among keys; a list needs a key of its own".into();
        }
        // The levels that are open above this line, the innermost first.
        let mut open: Vec<usize> = Vec::new();
        for above in self.lines[..self.at.min(self.lines.len())].iter().rev().filter(|line| is_content(line)) {
            if above.starts_with("---") {
                break;
            }
            if open.last().is_none_or(|last| indent(above) < *last) {
                open.push(indent(above));
            }
        }
        open.reverse();
        let levels: Vec<String> = open.iter().map(usize::to_string).collect();
        format!(
            "the line is indented by {}, but the enclosing levels are indented by {}",
            counted(indent(line), "space"),
            levels.join(" or ")
        )
        .into()
    }
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// The column of a colon that ends a plain key and has its value right behind it: `kind:Pod`, but not `http://host`.
fn colon_without_space(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let key = line[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || "._-/".contains(*c)).count();
    let rest = line.get(start + key..)?.strip_prefix(':')?;
    (key > 0 && !rest.is_empty() && !rest.starts_with([' ', '/'])).then_some(start + key + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManifestText;

    /// The message about a text that cannot be parsed, without the snippet.
    fn message_of(text: &str) -> String {
        let text = ManifestText::new("a", text.as_bytes().to_vec()).unwrap();
        let error = text.documents().unwrap_err();
        error.lines().next().unwrap().to_owned()
    }

    #[test]
    fn syntax_errors_are_explained() {
        let cases = [
            ("a: b\n c: d\n", "a:2:2: the line is indented under line 1, which already has a value"),
            ("a:b\nc: d\n", "a:1:2: missing space after the colon"),
            ("a: b\nc:d\ne: f\n", "a:2:1: missing space after the colon"),
            ("a: b: c\n", "a:1:5: second colon in the value; quote the value"),
            (
                "a:\n    b: 1\n  c: 2\n",
                "a:3:3: the line is indented by 2 spaces, but the enclosing levels are indented by 0 or 4",
            ),
            ("a: |\n    b\n  c\nd: 1\n", "a:3:3: the line is indented by 2 spaces"),
            ("a:\n- b\n-c\n", "a:3:1: missing space after the dash"),
            ("a: b\n----\nc: d\n", "a:2:1: documents are separated by a line of exactly three dashes"),
            ("a: b\nhello\nc: d\n", "a:2:1: neither a key followed by a colon"),
            ("a:\n- b\nc:\n  d: 1\n  - e\n", "a list item among keys"),
            ("a:\n  - b\n  c: d\n", "a:3:3: a key among the items of a list"),
            ("a: [b\nc: d\n", "a bracket that was opened above is not closed"),
            ("a: {b\n", "the bracket is never closed"),
            ("a: {source: data:,x}\n", "a string with a comma or a colon inside { } needs quotes, such as \"data:,x\""),
            ("apiVersion: v1\nkind: A\napiVersion: v1\n", "a:3:1: duplicate key \"apiVersion\"; is a line --- missing"),
            ("a: b\na: c\n", "a:2:1: duplicate key \"a\"; keep one of them"),
            ("{{- if .Values.x }}\na: b\n", "this looks like a template; render it first"),
            ("a: b\n{{- if .Values.x }}\nc: d\n", "a:2:3: this looks like a template; render it first"),
            ("a: ]\n", "a:1:4: the bracket closes nothing"),
            ("a: @b\n", "a:1:4: a string that starts with '@' needs quotes"),
            ("a: \"\\q\"\n", "unknown escape sequence in double quotes"),
            ("a: 'it's'\n", "a quote inside single quotes is written twice ('')"),
            ("a: \"b\" c\n", "unexpected text after the closing quote"),
            ("a:\n\tb: c\n", "a:2:2: a tab is used for indentation"),
            ("a: b\n<<<<<<< HEAD\nc: d\n=======\nc: e\n>>>>>>> other\n", "a:2:1: unresolved merge conflict"),
            ("{\"a\": 1,}", "a:1:9: trailing comma after the last entry"),
            ("{a: 1}", "keys in JSON need double quotes"),
            ("{\"a\": 0644}", "write mode 0644 as 420"),
            ("{\"a\": tru}", "expected true, false, null"),
            ("{\"a\": }", "expected a value"),
            ("{\"a\": 1 \"b\": 2}", "a:1:9: missing comma before this"),
            ("{\"a\" 1}", "missing colon after the key"),
            ("{\"a\": \"b\n}", "a:1:9: a double-quoted string is not closed on its line"),
            ("{\"a\": \"\t\"}", "a:1:8: control character in a string; write a tab as \\t"),
            ("{\"a\": [1", "the text ends within a list"),
            ("{\"a\": [1\n", "a:1:9: the text ends within a list"),
        ];
        for (text, expected) in cases {
            let message = message_of(text);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn colon_without_space_is_found() {
        let cases = [
            ("kind:Pod", Some(5)),
            ("  - name:x", Some(9)),
            ("url: x", None),
            ("http://host", None),
            ("kind:", None),
            (":x", None),
            ("", None),
        ];
        for (line, column) in cases {
            assert_eq!(colon_without_space(line), column);
        }
    }
}
