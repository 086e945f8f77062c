//! Parser of operands: literals, names, lists, maps, messages, and parenthesized expressions.

use crate::ast::{Entry, Expr, ExprKind};
use crate::syntax_error::{self, Enclosing};
use crate::token::{self, Token, TokenKind as T};
use crate::value::Val;

use super::{Parsed, Parser, RESERVED};

impl Parser<'_, '_, '_> {
    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        match token.kind {
            T::Sign("(") => {
                self.next();
                let expr = self.within(Enclosing::Parentheses)?;
                self.close(")", &[")"])?;
                Ok(expr)
            }
            T::Sign("[") => {
                self.next();
                self.list(token)
            }
            T::Sign("{") => {
                self.next();
                self.map(token)
            }
            T::Sign(".") => {
                self.next();
                if self.token().kind != T::Ident {
                    return self.no_field(token, false);
                }
                self.name(Some(token))
            }
            T::Ident => self.name(None),
            T::Sign("-") | T::Int | T::Double => self.number(),
            T::Uint => Ok(self.unsigned()),
            T::String | T::Bytes => {
                self.next();
                Ok(self.quoted(token))
            }
            T::Sign("true") => self.constant(Val::Bool(true)),
            T::Sign("false") => self.constant(Val::Bool(false)),
            T::Sign("null") => self.constant(Val::Null),
            _ => self.no_operand(),
        }
    }

    fn unsigned(&mut self) -> Expr {
        let token = self.next();
        let text = self.text(token);
        let digits = &text[..text.len() - 1];
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        match value {
            Ok(value) => self.node(token.start, ExprKind::Literal(Val::Uint(value))),
            Err(_) => self.broken(token.start, "invalid uint literal"),
        }
    }

    fn constant(&mut self, value: Val<'static>) -> Parsed<Expr> {
        let token = self.next();
        Ok(self.node(token.start, ExprKind::Literal(value)))
    }

    fn number(&mut self) -> Parsed<Expr> {
        let sign = self.eat("-");
        let token = self.next();
        let offset = sign.map_or(token.start, |sign| sign.start);
        let text = self.text(token);
        let minus = if sign.is_some() { "-" } else { "" };
        if token.kind == T::Double {
            let value = format!("{minus}{text}").parse::<f64>().ok().filter(|value| value.is_finite());
            return Ok(match value {
                Some(value) => self.node(offset, ExprKind::Literal(Val::Double(value))),
                None => self.broken(offset, "invalid double literal"),
            });
        }
        let value = match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(&format!("{minus}{hex}"), 16),
            None => format!("{minus}{text}").parse(),
        };
        Ok(match value {
            Ok(value) => self.node(offset, ExprKind::Literal(Val::Int(value))),
            Err(_) => self.broken(offset, "invalid int literal"),
        })
    }

    fn quoted(&mut self, token: Token) -> Expr {
        let text = self.text(token);
        let bytes = token.kind == T::Bytes;
        let literal = if bytes { &text[1..] } else { text.as_str() };
        match token::unescape(literal, bytes) {
            Ok(value) if bytes => self.node(token.start, ExprKind::Literal(Val::bytes(value))),
            Ok(value) => match String::from_utf8(value) {
                Ok(value) => self.node(token.start, ExprKind::Literal(Val::string(value))),
                Err(_) => self.broken(token.start, "unable to unescape string"),
            },
            Err(message) => self.broken(token.start, message),
        }
    }

    fn name(&mut self, dot: Option<Token>) -> Parsed<Expr> {
        if let Some(message) = self.message(dot)? {
            return Ok(message);
        }
        let token = self.next();
        let word = self.text(token);
        let offset = dot.map_or(token.start, |dot| dot.start);
        let reserved = RESERVED.contains(&word.as_str());
        let name = if dot.is_some() { format!(".{word}") } else { word };
        if let Some(open) = self.eat("(") {
            if reserved {
                self.arguments()?;
                return Ok(self.broken(offset, format!("reserved identifier: {}", name.trim_start_matches('.'))));
            }
            let args = self.arguments()?;
            return self.expand(open.start, &name, None, args);
        }
        if reserved {
            return Ok(self.broken(offset, format!("reserved identifier: {}", name.trim_start_matches('.'))));
        }
        Ok(self.node(token.start, ExprKind::Ident(name)))
    }

    /// `a.b.C{field: value}`: read, and refused by the checker, as nothing here can be built that way.
    fn message(&mut self, dot: Option<Token>) -> Parsed<Option<Expr>> {
        let mut ahead = 0;
        loop {
            if self.ahead(ahead).kind != T::Ident {
                return Ok(None);
            }
            match self.ahead(ahead + 1).kind {
                T::Sign(".") => ahead += 2,
                T::Sign("{") => break,
                _ => return Ok(None),
            }
        }
        let mut name = if dot.is_some() { ".".to_owned() } else { String::new() };
        for _ in 0..=ahead {
            let token = self.next();
            name.push_str(&self.text(token));
        }
        let open = self.next();
        let mut fields = Vec::new();
        while !self.is("}") {
            self.eat("?");
            let field = self.token();
            if !matches!(field.kind, T::Ident | T::Quoted) {
                return self.unexpected("mismatched", "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}");
            }
            self.next();
            self.colon()?;
            let field = self.text(field);
            fields.push((field, self.within(Enclosing::Value)?));
            if self.eat(",").is_none() {
                break;
            }
        }
        self.close("}", &["}", ","])?;
        Ok(Some(self.node(open.start, ExprKind::Message { name, fields })))
    }

    fn list(&mut self, open: Token) -> Parsed<Expr> {
        let (mut items, mut optional) = (Vec::new(), Vec::new());
        if !self.is("]") && !self.is("?") && !self.is(",") {
            self.operand_or(&["]", ",", "?"])?;
        }
        let mut comma = self.eat(",").is_some();
        while !comma && !self.is("]") {
            optional.push(self.eat("?").is_some());
            items.push(self.within(Enclosing::Items)?);
            // A comma that nothing follows ends the list.
            comma = self.eat(",").is_some();
            if !comma {
                break;
            }
            comma = !self.is("?") && !syntax_error::starts_operand(self.token().kind);
        }
        self.close("]", if comma { &["]"] } else { &["]", ","] })?;
        Ok(self.node(open.start, ExprKind::List { items, optional }))
    }

    fn map(&mut self, open: Token) -> Parsed<Expr> {
        let mut entries = Vec::new();
        if !self.is("}") && !self.is("?") && !self.is(",") {
            self.operand_or(&["}", ",", "?"])?;
        }
        let mut comma = self.eat(",").is_some();
        while !comma && !self.is("}") {
            let optional = self.eat("?").is_some();
            let key = self.within(Enclosing::Key)?;
            self.colon()?;
            let value = self.within(Enclosing::Value)?;
            entries.push(Entry { key, value, optional });
            comma = self.eat(",").is_some();
            if !comma {
                break;
            }
            comma = !self.is("?") && !syntax_error::starts_operand(self.token().kind);
        }
        self.close("}", if comma { &["}"] } else { &["}", ","] })?;
        Ok(self.node(open.start, ExprKind::Map(entries)))
    }
}
