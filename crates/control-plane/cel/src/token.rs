//! Tokenizer: what is no token becomes a problem and is skipped.

use crate::error::Report;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Sign(&'static str),
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Ident,
    /// A field name between backticks.
    Quoted,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub kind: TokenKind,
    /// First code point.
    pub start: u32,
    /// One past the last code point.
    pub end: u32,
}

const SIGNS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%", "=",
];
const WORDS: [&str; 4] = ["in", "true", "false", "null"];

pub(crate) fn tokens(text: &[char], report: &mut Report<'_>) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, report };
    let mut out = Vec::new();
    loop {
        let token = lexer.next();
        out.push(token);
        if token.kind == TokenKind::End {
            return out;
        }
    }
}

struct Lexer<'t, 'r, 's> {
    text: &'t [char],
    at: usize,
    report: &'r mut Report<'s>,
}

impl Lexer<'_, '_, '_> {
    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn rest(&self) -> &[char] {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Token {
        loop {
            self.skip_blank();
            let start = self.at;
            if start >= self.text.len() {
                return self.token(TokenKind::End, start);
            }
            if let Some(kind) = self.scan() {
                return self.token(kind, start);
            }
            // Nothing matches: the text read so far is no token.
            let bad: String = self.text[start..self.at].iter().collect();
            self.report.at(start as u32, format!("Syntax error: token recognition error at: '{bad}'"));
        }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, start: start as u32, end: self.at as u32 }
    }

    fn skip_blank(&mut self) {
        loop {
            match self.peek(0) {
                '\t' | ' ' | '\r' | '\n' | '\u{c}' if self.at < self.text.len() => self.at += 1,
                '/' if self.peek(1) == '/' => {
                    while self.at < self.text.len() && self.peek(0) != '\n' {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Moves past one token. On `None` the position is past the characters that are no token.
    fn scan(&mut self) -> Option<TokenKind> {
        let first = self.peek(0);
        if let Some(kind) = self.literal_text() {
            return kind;
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let start = self.at;
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            let word: String = self.text[start..self.at].iter().collect();
            return Some(WORDS.iter().find(|w| **w == word).map_or(TokenKind::Ident, |w| TokenKind::Sign(w)));
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_ascii_digit()) {
            return Some(self.number());
        }
        if first == '`' {
            return self.quoted();
        }
        let sign = SIGNS.iter().find(|sign| sign.chars().eq(self.rest().iter().take(sign.len()).copied()));
        match sign {
            Some(&"=") | None => {
                self.at += 1;
                // `&` and `|` alone start `&&` and `||`: the reader stops behind the character that broke them.
                if matches!(first, '&' | '|' | '=') && self.at < self.text.len() {
                    self.at += 1;
                }
                None
            }
            Some(sign) => {
                self.at += sign.len();
                Some(TokenKind::Sign(sign))
            }
        }
    }

    fn number(&mut self) -> TokenKind {
        if self.peek(0) == '0' && self.peek(1) == 'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            return self.unsigned_suffix();
        }
        self.digits();
        let mut double = false;
        if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            double = true;
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), 'e' | 'E') {
            let sign = usize::from(matches!(self.peek(1), '+' | '-'));
            if self.peek(1 + sign).is_ascii_digit() {
                double = true;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if double { TokenKind::Double } else { self.unsigned_suffix() }
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn unsigned_suffix(&mut self) -> TokenKind {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            TokenKind::Uint
        } else {
            TokenKind::Int
        }
    }

    fn quoted(&mut self) -> Option<TokenKind> {
        self.at += 1;
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || matches!(self.peek(0), '_' | '.' | '-' | '/' | ' ') {
            self.at += 1;
        }
        if self.peek(0) == '`' && self.at > start {
            self.at += 1;
            return Some(TokenKind::Quoted);
        }
        if self.at < self.text.len() {
            self.at += 1;
        }
        None
    }

    /// A string or bytes literal. The outer `None`: this is no literal; the inner: it is a broken one.
    fn literal_text(&mut self) -> Option<Option<TokenKind>> {
        let mut ahead = 0;
        let bytes = matches!(self.peek(0), 'b' | 'B');
        ahead += usize::from(bytes);
        let raw = matches!(self.peek(ahead), 'r' | 'R');
        ahead += usize::from(raw);
        let quote = self.peek(ahead);
        if !matches!(quote, '"' | '\'') {
            return None;
        }
        let kind = if bytes { TokenKind::Bytes } else { TokenKind::String };
        let open = self.at + ahead;
        if self.text.get(open + 1) == Some(&quote) && self.text.get(open + 2) == Some(&quote) {
            if let Some(end) = triple_end(self.text, open + 3, quote, raw) {
                self.at = end;
                return Some(Some(kind));
            }
            // Not closed: the two quotes alone are an empty literal, which is what is left of the longest match.
            self.at = open + 2;
            return Some(Some(kind));
        }
        let mut at = open + 1;
        while let Some(&c) = self.text.get(at) {
            if c == quote {
                self.at = at + 1;
                return Some(Some(kind));
            }
            if matches!(c, '\n' | '\r') {
                at += 1;
                break;
            }
            if c == '\\' && !raw {
                match escape_len(&self.text[at..]) {
                    Ok(len) => at += len,
                    Err(len) => {
                        at += len;
                        break;
                    }
                }
            } else {
                at += 1;
            }
        }
        if ahead > 0 {
            // What looked like the prefix of a literal is a name, and the quote behind it is the problem.
            return None;
        }
        self.at = at.min(self.text.len());
        Some(None)
    }
}

fn triple_end(text: &[char], mut at: usize, quote: char, raw: bool) -> Option<usize> {
    while at < text.len() {
        if text[at..].len() >= 3 && text[at..at + 3].iter().all(|c| *c == quote) {
            return Some(at + 3);
        }
        at += if text[at] == '\\' && !raw { escape_len(&text[at..]).ok()? } else { 1 };
    }
    None
}

/// The length of the escape sequence `text` starts with, or how many characters were read before it broke.
fn escape_len(text: &[char]) -> Result<usize, usize> {
    let run = |from: usize, count: usize, ok: fn(char) -> bool| {
        for index in from..from + count {
            if !text.get(index).copied().is_some_and(ok) {
                return Err((index + 1).min(text.len()));
            }
        }
        Ok(from + count)
    };
    let octal = |c: char| ('0'..='7').contains(&c);
    match text.get(1).copied() {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('x' | 'X') => run(2, 2, |c| c.is_ascii_hexdigit()),
        Some('u') => run(2, 4, |c| c.is_ascii_hexdigit()),
        Some('U') => run(2, 8, |c| c.is_ascii_hexdigit()),
        Some('0'..='3') => run(2, 2, octal),
        Some(_) => Err(2),
        None => Err(1),
    }
}

/// The value of a string literal's text, quotes and prefix included. Escapes in bytes literals are bytes, not
/// characters.
pub(crate) fn unescape(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match literal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, literal.as_str()),
    };
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let body = quoted.get(quotes..quoted.len().saturating_sub(quotes)).ok_or("unable to unescape string")?;
    if raw {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let selector = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let plain = match selector {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => Some(selector as u8),
            _ => None,
        };
        if let Some(byte) = plain {
            out.push(byte);
            continue;
        }
        let (digits, radix, mut value) = match selector {
            'x' | 'X' => (2, 16, 0),
            'u' if !bytes => (4, 16, 0),
            'U' if !bytes => (8, 16, 0),
            '0'..='3' => (2, 8, selector as u32 - '0' as u32),
            _ => return Err("unable to unescape string"),
        };
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
            value = value.wrapping_mul(radix).wrapping_add(digit);
        }
        if bytes {
            out.push(value as u8);
        } else {
            let c = char::from_u32(value).ok_or("invalid unicode code point")?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(out)
}
