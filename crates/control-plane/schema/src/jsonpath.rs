//! JSONPath in the dialect of Kubernetes: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Fields, wildcards, indices, slices, unions, filters and descent are known. What is missing in an object is no
//! mistake; it is not found.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// How deep filters and unions may nest.
const MAX_DEPTH: usize = 16;

/// A path that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Descent,
    Slice {
        start: Option<i64>,
        end: End,
        step: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        compare: Option<(Operator, JsonPath)>,
    },
    Literal(Value),
    /// A word that means nothing. The original finds out when the path is followed.
    Word(String),
}

/// Where a slice ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// After the first element: `[2]` is one element.
    Single,
    Open,
    At(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Found out when values are compared, as in the original.
    Unknown,
}

type Matches<'v> = Vec<Cow<'v, Value>>;

impl JsonPath {
    /// Reads a path.
    pub fn parse(source: &str) -> Result<JsonPath, String> {
        Reader { source, rest: source }.path(0)
    }

    /// The values at the path, in order. An error says why the path does not fit the value.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, String> {
        self.follow(vec![Cow::Borrowed(value)])
    }

    fn follow<'v>(&self, values: Matches<'v>) -> Result<Matches<'v>, String> {
        self.steps.iter().try_fold(values, |values, step| step.follow(values))
    }
}

impl Step {
    fn follow<'v>(&self, values: Matches<'v>) -> Result<Matches<'v>, String> {
        let mut found = Vec::new();
        if let Step::Literal(literal) = self {
            // A text is one result; a number or boolean is one for each value.
            let times = if literal.is_string() { 1 } else { values.len() };
            return Ok(vec![Cow::Owned(literal.clone()); times]);
        }
        if let Step::Word(word) = self {
            return Err(format!("unrecognized identifier {word}"));
        }
        if let Step::Union(paths) = self {
            for path in paths {
                found.extend(path.follow(values.clone())?);
            }
            return Ok(found);
        }
        for value in values {
            match self {
                Step::Field(name) => found.extend(field(value, name)),
                Step::Wildcard => found.extend(children(value)),
                Step::Descent => descend(value, &mut found),
                Step::Slice { start, end, step } => found.extend(slice(value, *start, *end, *step)?),
                Step::Filter { left, compare } => filter(value, left, compare.as_ref(), &mut found)?,
                Step::Union(_) | Step::Literal(_) | Step::Word(_) => {}
            }
        }
        Ok(found)
    }
}

fn field<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

/// Elements of a list, values of an object by key.
fn children(value: Cow<'_, Value>) -> Vec<Cow<'_, Value>> {
    fn each(value: &Value) -> Vec<&Value> {
        match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                entries.into_iter().map(|(_, value)| value).collect()
            }
            _ => Vec::new(),
        }
    }
    match value {
        Cow::Borrowed(value) => each(value).into_iter().map(Cow::Borrowed).collect(),
        Cow::Owned(value) => each(&value).into_iter().cloned().map(Cow::Owned).collect(),
    }
}

/// A value with children, then the same of each child.
fn descend<'v>(value: Cow<'v, Value>, found: &mut Matches<'v>) {
    let inside = children(value.clone());
    if !inside.is_empty() {
        found.push(value);
        inside.into_iter().for_each(|child| descend(child, found));
    }
}

fn elements<'v>(value: Cow<'v, Value>, purpose: &str) -> Result<Matches<'v>, String> {
    if value.is_array() { Ok(children(value)) } else { Err(format!("{value} is not array or slice{purpose}")) }
}

fn slice(value: Cow<'_, Value>, start: Option<i64>, end: End, step: Option<i64>) -> Result<Matches<'_>, String> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let items = elements(value, "")?;
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let first = from_end(start.unwrap_or(0));
    let last = match end {
        End::Open => length,
        End::At(end) => from_end(end),
        End::Single => first.saturating_add(1),
    };
    if first == last {
        return Ok(Vec::new());
    }
    for (index, bound) in [(first, length - 1), (last - 1, length - 1)] {
        if index < 0 || index > bound {
            return Err(format!("array index out of bounds: index {index}, length {length}"));
        }
    }
    if first > last {
        return Err(format!("starting index {first} is greater than ending index {last}"));
    }
    let step = usize::try_from(step.unwrap_or(1)).unwrap_or(0);
    if step == 0 {
        return Err("step must be > 0".to_owned());
    }
    let bounds = |index: i64| usize::try_from(index).unwrap_or(0);
    Ok(items.into_iter().take(bounds(last)).skip(bounds(first)).step_by(step).collect())
}

fn filter<'v>(
    value: Cow<'v, Value>,
    left: &JsonPath,
    compare: Option<&(Operator, JsonPath)>,
    found: &mut Matches<'v>,
) -> Result<(), String> {
    for item in elements(value, " and cannot be filtered")? {
        let lefts = left.follow(vec![item.clone()]);
        let Some((operator, right)) = compare else {
            if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                found.push(item);
            }
            continue;
        };
        let (lefts, rights) = (lefts?, right.follow(vec![item.clone()])?);
        let passes = match (lefts.as_slice(), rights.as_slice()) {
            ([], _) | (_, []) => false,
            ([left], [right]) => operator.holds(left, right)?,
            _ => return Err("can only compare one element at a time".to_owned()),
        };
        if passes {
            found.push(item);
        }
    }
    Ok(())
}

impl Operator {
    fn parse(text: &str) -> Operator {
        match text {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            _ => Operator::Unknown,
        }
    }

    /// Only values of the same type can be compared, and only numbers and texts are larger or smaller.
    fn holds(self, left: &Value, right: &Value) -> Result<bool, String> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Operator::Equal | Operator::NotEqual) => {
                left.cmp(right)
            }
            (Value::Number(left), Value::Number(right)) if left.is_i64() == right.is_i64() => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
                }
            }
            _ => return Err("incompatible types for comparison".to_owned()),
        };
        Ok(match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Unknown => return Err("unrecognized filter operator".to_owned()),
        })
    }
}

struct Reader<'a> {
    source: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn path(mut self, depth: usize) -> Result<JsonPath, String> {
        if depth > MAX_DEPTH {
            return Err(format!("path nests too deeply: {}", self.source));
        }
        let mut steps = Vec::new();
        loop {
            if self.eat("[?(") {
                steps.push(self.filter(depth)?);
            } else if self.eat("..") {
                if steps.last() == Some(&Step::Descent) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                steps.push(Step::Descent);
                if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    steps.push(self.field());
                }
            } else {
                let Some(c) = self.rest.chars().next() else { return Ok(JsonPath { steps }) };
                let after = &self.rest[c.len_utf8()..];
                match c {
                    '\n' | '\r' => return Err("unclosed action".to_owned()),
                    ' ' | '@' | '$' => self.rest = after,
                    '[' => {
                        self.rest = after;
                        steps.extend(self.brackets(depth)?);
                    }
                    '.' => {
                        self.rest = after;
                        steps.push(self.field());
                    }
                    '"' | '\'' => steps.push(Step::Literal(self.quoted(c)?.into())),
                    c if c == '+' || c == '-' || c.is_ascii_digit() => steps.push(Step::Literal(self.number()?)),
                    c if c == '_' || c.is_alphanumeric() => steps.push(self.word()),
                    c => return Err(format!("unrecognized character in action: {c:?}")),
                }
            }
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        true
    }

    fn take_while(&mut self, goes_on: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !goes_on(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    /// A name; a backslash takes the special meaning from the character after it.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                name.extend(chars.next().map(|(_, c)| c).filter(|c| *c != '\\'));
            } else if is_terminator(c) {
                end = at;
                break;
            } else {
                name.push(c);
            }
        }
        self.rest = &self.rest[end..];
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn word(&mut self) -> Step {
        match self.take_while(|c| !is_terminator(c)) {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            other => Step::Word(other.to_owned()),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.rest;
        let sign = usize::from(start.starts_with(['+', '-']));
        self.rest = &start[sign..];
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '.');
        let text = &start[..sign + digits.len()];
        let plain = text.strip_prefix('+').unwrap_or(text);
        let whole = plain.parse::<i64>().ok().map(Value::from);
        whole
            .or_else(|| plain.parse::<f64>().ok().map(Value::from))
            .ok_or_else(|| format!("cannot parse number {text}"))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, c)) if c == quote || c == '\\' => text.push(c),
                    _ => return Err(format!("unquote string {} error invalid syntax", self.rest)),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    /// What is in brackets: a union, a key, an index or a slice.
    fn brackets(&mut self, depth: usize) -> Result<Vec<Step>, String> {
        let Some(end) = self.rest.find([']', '\n']).filter(|end| self.rest[*end..].starts_with(']')) else {
            return Err("unterminated array".to_owned());
        };
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let inner = format!("[{}]", part.trim_matches(' '));
                Reader { source: &inner, rest: &inner }.path(depth + 1)
            });
            return Ok(vec![Step::Union(parts.collect::<Result<_, _>>()?)]);
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            let inner = format!(".{key}");
            return Ok(Reader { source: &inner, rest: &inner }.path(depth + 1)?.steps);
        }
        let text = if text == "*" { ":" } else { text };
        let parts: Vec<&str> = text.split(':').collect();
        let number = |part: &str| -> Result<Option<i64>, String> {
            let digits = part.strip_prefix('-').unwrap_or(part);
            if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("invalid array index {text}"));
            }
            if part.is_empty() {
                return Ok(None);
            }
            part.parse().map(Some).map_err(|_| format!("array index {part} is not a number"))
        };
        let start = number(parts[0])?;
        let (end, step) = match parts.as_slice() {
            [_] => (End::Single, None),
            [_, end] => (number(end)?.map_or(End::Open, End::At), None),
            [_, end, step] => (number(end)?.map_or(End::Open, End::At), number(step)?),
            _ => return Err(format!("invalid array index {text}")),
        };
        Ok(vec![Step::Slice { start, end, step }])
    }

    fn filter(&mut self, depth: usize) -> Result<Step, String> {
        let mut quote = None;
        let mut is_done = false;
        let mut end = None;
        let mut before = ' ';
        for (at, c) in self.rest.char_indices() {
            match c {
                '\n' => break,
                '"' | '\'' if quote.is_none() => quote = Some(c),
                '"' | '\'' if before != '\\' && quote == Some(c) => is_done = true,
                ')' if quote.is_some() == is_done => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
            before = c;
        }
        let end = end.ok_or("unterminated filter")?;
        let text = &self.rest[..end];
        let Some(rest) = self.rest[end..].strip_prefix(")]") else {
            return Err("unclosed array expect ]".to_owned());
        };
        self.rest = rest;
        let inner = |text: &str| Reader { source: text, rest: text }.path(depth + 1);
        let is_operator = |c: char| "!<>=".contains(c);
        let Some(at) = text.find(is_operator).filter(|at| *at > 0) else {
            return Ok(Step::Filter { left: inner(text)?, compare: None });
        };
        let length = text[at..].find(|c| !is_operator(c)).unwrap_or(text.len() - at);
        let (operator, right) = text[at..].split_at(length);
        if right.is_empty() {
            return Ok(Step::Filter { left: inner(text)?, compare: None });
        }
        Ok(Step::Filter { left: inner(&text[..at])?, compare: Some((Operator::parse(operator), inner(right)?)) })
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(".spec.size", json!([3]))]
    #[case(".spec['a.b']", json!([]))]
    #[case(r".spec['a\.b']", json!(["dotted"]))]
    #[case(r".spec.a\.b", json!(["dotted"]))]
    #[case(".list[*].n", json!(["x", "y", "z"]))]
    #[case(".list[1].n", json!(["y"]))]
    #[case(".list[-1:].n", json!(["z"]))]
    #[case(".list[0:3:2].n", json!(["x", "z"]))]
    #[case(".list[0,2].n", json!(["x", "z"]))]
    #[case(".list[?(@.n==\"y\")].v", json!([2]))]
    #[case(".list[?(@.v>1)].n", json!(["y", "z"]))]
    #[case(".list[?(@.on)].n", json!(["z"]))]
    #[case(".list[?(@.on==true)].n", json!(["z"]))]
    #[case("..n", json!(["x", "y", "z"]))]
    #[case(".none.at.all", json!([]))]
    fn finds(#[case] path: &str, #[case] expected: Value) {
        let object = json!({"spec": {"size": 3, "a.b": "dotted"},
            "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "z", "v": 3, "on": true}]});
        let found = JsonPath::parse(path).unwrap().find(&object).unwrap();
        assert_eq!(Value::from_iter(found.into_iter().map(Cow::into_owned)), expected);
    }

    #[rstest]
    #[case(".a[", "unterminated array")]
    #[case(".a[x]", "invalid array index x")]
    #[case(".a[?(@.b==1]", "unterminated filter")]
    #[case(".a....b", "invalid multiple recursive descent")]
    fn refuses(#[case] path: &str, #[case] mistake: &str) {
        assert_eq!(JsonPath::parse(path).unwrap_err(), mistake);
    }

    #[test]
    fn path_that_does_not_fit_gives_the_reason() {
        let path = JsonPath::parse(".list[5]").unwrap();
        assert_eq!(path.find(&json!({"list": [1]})).unwrap_err(), "array index out of bounds: index 5, length 1");
    }
}
