//! Label selectors: `env=prod,tier in (front, back),!canary`.

use seaworthy_values::label_selector::{MatchOperator, Requirement};
use seaworthy_values::names;

use super::SelectorError;

/// Requirements that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads a selector in its text form.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                Token::End => return Ok(LabelSelector { requirements }),
                Token::Word(_) | Token::Not => {
                    let requirement = parser
                        .requirement()
                        .map_err(|SelectorError(why)| SelectorError(format!("unable to parse requirement: {why}")))?;
                    requirements.push(requirement);
                    match parser.next() {
                        Token::End => return Ok(LabelSelector { requirements }),
                        Token::Comma if matches!(parser.peek(), Token::Word(_) | Token::Not) => {}
                        Token::Comma => return Err(found_comma(parser.peek(), "identifier after ','")),
                        other => return Err(found_comma(&other, "',' or 'end of string'")),
                    }
                }
                other => return Err(found_comma(other, "!, identifier, or 'end of string'")),
            }
        }
    }

    /// Reads the form that objects use: `matchLabels` and `matchExpressions`. None when it is malformed.
    pub fn of_object(selector: &serde_json::Value) -> Option<LabelSelector> {
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(serde_json::Value::as_object) {
            for (key, value) in labels {
                let operator = MatchOperator::In(vec![value.as_str()?.to_owned()]);
                requirements.push(Requirement { key: key.clone(), operator });
            }
        }
        if let Some(expressions) = selector.get("matchExpressions").and_then(serde_json::Value::as_array) {
            for expression in expressions {
                let values = expression.get("values").and_then(serde_json::Value::as_array);
                let values = values.map(Vec::as_slice).unwrap_or_default().iter();
                let values: Vec<String> = values.filter_map(|value| value.as_str().map(str::to_owned)).collect();
                let operator = MatchOperator::named(expression.get("operator")?.as_str()?, values)?;
                requirements.push(Requirement { key: expression.get("key")?.as_str()?.to_owned(), operator });
            }
        }
        Some(LabelSelector { requirements })
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels matches.
    pub fn matches<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.is_met_by(value(&requirement.key)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equals => "=",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SPECIAL: &[char] = &['=', '!', '(', ')', ',', '>', '<'];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let pairs = [("==", Token::Equals), ("!=", Token::NotEquals)];
        let singles = [
            ("=", Token::Equals),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
            (">", Token::Greater),
            ("<", Token::Less),
        ];
        let symbol = pairs.into_iter().chain(singles).find(|(symbol, _)| rest.starts_with(symbol));
        let taken = match symbol {
            Some((symbol, token)) => {
                tokens.push(token);
                symbol.len()
            }
            None => {
                let end = rest.find(|c: char| SPECIAL.contains(&c) || c.is_whitespace()).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                end
            }
        };
        rest = rest[taken..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let is_missing = *self.peek() == Token::Not;
        if is_missing {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(found_comma(&other, "identifier")),
        };
        checked(names::qualified_name(&key), "<nil>", &key)?;
        if is_missing || matches!(self.peek(), Token::End | Token::Comma) {
            let operator = if is_missing { MatchOperator::DoesNotExist } else { MatchOperator::Exists };
            return Ok(Requirement { key, operator });
        }
        let operator = match self.next() {
            Token::Equals => MatchOperator::In(vec![self.value()?]),
            Token::NotEquals => MatchOperator::NotIn(vec![self.value()?]),
            Token::Greater => MatchOperator::GreaterThan(self.number()?),
            Token::Less => MatchOperator::LessThan(self.number()?),
            Token::Word(word) if word == "in" => MatchOperator::In(self.values()?),
            Token::Word(word) if word == "notin" => MatchOperator::NotIn(self.values()?),
            other => return Err(found_comma(&other, "in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, operator })
    }

    /// One value; a missing one is empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            _ => match self.next() {
                Token::Word(word) => {
                    checked(names::label_value(&word), "value", &word)?;
                    Ok(word)
                }
                other => Err(found_comma(&other, "identifier")),
            },
        }
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            SelectorError(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Token::Open => {}
            other => return Err(found(&other, "'('")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    checked(names::label_value(&word), "value", &word)?;
                    values.push(word);
                    match self.next() {
                        Token::Comma if *self.peek() == Token::Close => values.push(String::new()),
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        other => return Err(found_comma(&other, "',' or ')'")),
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                other => return Err(found_comma(&other, "',', ')' or identifier")),
            }
        }
    }
}

fn checked(problems: Vec<String>, what: &str, text: &str) -> Result<(), SelectorError> {
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(SelectorError(format!("{what}: Invalid value: {text:?}: {problem}"))),
    }
}

fn found(token: &Token, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}' expected: {expected}", token.text()))
}

fn found_comma(token: &Token, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}', expected: {expected}", token.text()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn labels(key: &str) -> Option<&'static str> {
        match key {
            "env" => Some("prod"),
            "level" => Some("7"),
            "empty" => Some(""),
            _ => None,
        }
    }

    #[rstest]
    #[case("", true)]
    #[case("env", true)]
    #[case("!env", false)]
    #[case("! tier", true)]
    #[case("env=prod", true)]
    #[case("env == prod , level", true)]
    #[case("env!=prod", false)]
    #[case("tier!=front", true)]
    #[case("env in (test, prod)", true)]
    #[case("env notin (test)", true)]
    #[case("tier notin (front)", true)]
    #[case("level>6,level<8", true)]
    #[case("level>7", false)]
    #[case("empty=", true)]
    #[case("env=", false)]
    #[case("empty in ()", true)]
    fn every_requirement_must_hold(#[case] selector: &str, #[case] selected: bool) {
        assert_eq!(LabelSelector::parse(selector).unwrap().matches(labels), selected);
    }

    #[rstest]
    #[case("env in prod", "unable to parse requirement: found 'prod' expected: '('")]
    #[case("env=a b", "found 'b', expected: ',' or 'end of string'")]
    #[case("env,", "found '', expected: identifier after ','")]
    fn what_is_no_selector_is_refused_as_clients_know_it(#[case] selector: &str, #[case] message: &str) {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), message);
    }

    #[test]
    fn object_form_and_text_form_mean_the_same() {
        let object = serde_json::json!({
            "matchLabels": {"env": "prod"},
            "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]
        });
        assert_eq!(LabelSelector::of_object(&object).unwrap(), LabelSelector::parse("env=prod,!tier").unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_a_selector_or_an_error(text in "[a-z!=(),<> in]{0,24}") {
            let _ = LabelSelector::parse(&text);
        }
    }
}
