//! Syntax errors: what is expected where an expression is invalid, in the wording of the API server: a token too many,
//! a token missing, or a mismatch.

use crate::parse::{Parsed, Parser, Stop};
use crate::token::{Token, TokenKind as T};

/// The enclosing construct of an expression, which decides what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enclosing {
    Parentheses,
    Arguments,
    Items,
    Key,
    Value,
    Index,
    /// Between `?` and `:`.
    Choice,
}

/// Whether an operand can start with this token.
pub(crate) fn starts_operand(kind: T) -> bool {
    match kind {
        T::Sign(sign) => matches!(sign, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"),
        T::Quoted | T::End => false,
        _ => true,
    }
}

/// The start of an operand, or one of these signs, as messages list them.
fn operand_and(more: &[&str]) -> String {
    const SIGNS: [&str; 11] = ["[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?"];
    let listed = SIGNS.iter().filter(|sign| starts_operand(T::Sign(sign)) || more.contains(sign));
    let listed: Vec<String> = listed.map(|sign| format!("'{sign}'")).collect();
    let words = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
    format!("{{{}, {words}}}", listed.join(", "))
}

impl Parser<'_, '_, '_> {
    pub(crate) fn unexpected<R>(&mut self, word: &str, expected: &str) -> Parsed<R> {
        let token = self.token();
        let found = self.text(token);
        self.report.at(token.start, format!("Syntax error: {word} input '{found}' expecting {expected}"));
        Err(Stop)
    }

    fn missing<R>(&mut self, expected: &str) -> Parsed<R> {
        let token = self.token();
        let found = self.text(token);
        self.report.at(token.start, format!("Syntax error: missing {expected} at '{found}'"));
        Err(Stop)
    }

    /// The closing sign of a bracket; `expected` is that sign and the other accepted ones.
    pub(crate) fn close(&mut self, sign: &'static str, expected: &[&'static str]) -> Parsed<()> {
        if self.eat(sign).is_some() {
            return Ok(());
        }
        let listed: Vec<String> = expected.iter().map(|sign| format!("'{sign}'")).collect();
        let text = if let [only] = listed.as_slice() { only.clone() } else { format!("{{{}}}", listed.join(", ")) };
        if matches!(self.ahead(1).kind, T::Sign(next) if expected.contains(&next)) {
            return self.unexpected("extraneous", &text);
        }
        if listed.len() == 1 && self.may_follow(self.token().kind) {
            return self.missing(&text);
        }
        self.unexpected("mismatched", &text)
    }

    /// Whether an operand, complete, may be followed by this token where we are.
    fn may_follow(&self, kind: T) -> bool {
        let T::Sign(sign) = kind else { return kind == T::End && self.around.is_empty() };
        let closes = match self.around.last() {
            None => false,
            Some(Enclosing::Parentheses) => sign == ")",
            Some(Enclosing::Arguments) => matches!(sign, ")" | ","),
            Some(Enclosing::Items) => matches!(sign, "]" | ","),
            Some(Enclosing::Key | Enclosing::Choice) => sign == ":",
            Some(Enclosing::Value) => matches!(sign, "}" | ","),
            Some(Enclosing::Index) => sign == "]",
        };
        let goes_on = !matches!(sign, ")" | "]" | "}" | "{" | "(" | "," | ":" | "!" | "true" | "false" | "null");
        closes || goes_on
    }

    pub(crate) fn colon(&mut self) -> Parsed<()> {
        if self.eat(":").is_some() {
            return Ok(());
        }
        if self.ahead(1).kind == T::Sign(":") {
            return self.unexpected("extraneous", "':'");
        }
        if starts_operand(self.token().kind) {
            return self.missing("':'");
        }
        self.unexpected("mismatched", "':'")
    }

    /// Reports a problem unless the next token is an operand or one of these signs.
    pub(crate) fn operand_or(&mut self, more: &[&'static str]) -> Parsed<()> {
        let fits = |kind: T| starts_operand(kind) || matches!(kind, T::Sign(sign) if more.contains(&sign));
        if fits(self.token().kind) {
            return Ok(());
        }
        let word = if fits(self.ahead(1).kind) { "extraneous" } else { "mismatched" };
        self.unexpected(word, &operand_and(more))
    }

    pub(crate) fn no_operand<R>(&mut self) -> Parsed<R> {
        let word = if starts_operand(self.ahead(1).kind) { "extraneous" } else { "mismatched" };
        self.unexpected(word, &operand_and(&[]))
    }

    /// Reports what follows `!` or `-` and is no operand.
    pub(crate) fn no_operand_after<R>(&mut self, sign: Token) -> Parsed<R> {
        let token = self.token();
        if self.text(sign) == "!" {
            let word = if token.kind == T::End { "extraneous" } else { "mismatched" };
            let word = if starts_operand(self.ahead(1).kind) { "extraneous" } else { word };
            return self.unexpected(word, &operand_and(&[]));
        }
        let shown = self.span(sign, token);
        self.report.at(token.start, format!("Syntax error: no viable alternative at input '{shown}'"));
        if token.kind == T::End {
            return self.unexpected("mismatched", &operand_and(&[]));
        }
        Err(Stop)
    }

    /// Reports what follows a dot and is no name.
    pub(crate) fn no_field<R>(&mut self, dot: Token, optional: bool) -> Parsed<R> {
        let token = self.token();
        if optional {
            let name = matches!(self.ahead(1).kind, T::Ident | T::Quoted);
            return self.unexpected(if name { "extraneous" } else { "mismatched" }, "{IDENTIFIER, ESC_IDENTIFIER}");
        }
        let shown = if token.kind == T::End { ".".to_owned() } else { self.span(dot, token) };
        if matches!(shown.as_str(), ".true" | ".false" | ".null") {
            return self.unexpected("mismatched", "IDENTIFIER");
        }
        self.report.at(token.start, format!("Syntax error: no viable alternative at input '{shown}'"));
        Err(Stop)
    }
}
