//! Translation of regular expressions from RE2 to the `regex` crate.

use regex::Regex;

/// The most that a counted repetition may ask for, nested ones multiplied.
const MAX_REPEATS: u64 = 1000;
/// How deep groups may nest.
const MAX_DEPTH: usize = 250;

/// Parses an expression and rewrites it for the matcher. An error is in the words of the original.
pub(super) fn translate(source: &str) -> Result<String, String> {
    let mut reader = Reader { source, rest: source, out: String::with_capacity(source.len() + 8), depth: 0 };
    reader.alternatives()?;
    if reader.rest.is_empty() {
        return Ok(reader.out);
    }
    Err(error("unexpected )", source))
}

fn error(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

struct Reader<'a> {
    source: &'a str,
    rest: &'a str,
    out: String,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The text between an earlier place and here.
    fn since(&self, earlier: &'a str) -> &'a str {
        &earlier[..earlier.len() - self.rest.len()]
    }

    /// Reads to the end or to a closing parenthesis. The number is by how much the largest repetition multiplies.
    fn alternatives(&mut self) -> Result<u64, String> {
        let mut most = 1;
        loop {
            most = most.max(self.sequence()?);
            if !self.eat("|") {
                return Ok(most);
            }
            self.out.push('|');
        }
    }

    fn sequence(&mut self) -> Result<u64, String> {
        let mut most = 1;
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let start = self.rest;
            if is_repetition(start) {
                let operator = repetition_text(start);
                return Err(error("missing argument to repetition operator", operator));
            }
            match self.atom()? {
                Some(repeats) => most = most.max(self.repetition(repeats)?),
                None if is_repetition(self.rest) => {
                    let operator = repetition_text(self.rest);
                    return Err(error("missing argument to repetition operator", operator));
                }
                None => {}
            }
        }
        Ok(most)
    }

    /// The operator after an atom, of which there may be one.
    fn repetition(&mut self, inner: u64) -> Result<u64, String> {
        if !is_repetition(self.rest) {
            return Ok(inner);
        }
        let start = self.rest;
        let mut factor = 1;
        match self.take() {
            Some('{') => {
                let (low, high) = counts(start).unwrap_or_default();
                let most = high.unwrap_or(low);
                let text = repetition_text(start);
                self.rest = &start[text.len()..];
                if most > MAX_REPEATS || low > MAX_REPEATS || high.is_some_and(|high| low > high) {
                    return Err(error("invalid repeat count", text));
                }
                factor = most.max(1);
                self.out.push_str(text);
            }
            Some(c) => self.out.push(c),
            None => {}
        }
        if self.eat("?") {
            self.out.push('?');
        }
        let operator = self.since(start);
        if is_repetition(self.rest) {
            let next = repetition_text(self.rest);
            return Err(error("invalid nested repetition operator", &format!("{operator}{next}")));
        }
        let product = inner.saturating_mul(factor);
        if factor > 1 && product > MAX_REPEATS {
            return Err(error("invalid repeat count", operator));
        }
        Ok(product)
    }

    /// Something that can be repeated; none for what is empty.
    fn atom(&mut self) -> Result<Option<u64>, String> {
        let start = self.rest;
        match self.take() {
            Some('(') => return self.group(start),
            Some('[') => self.class(start)?,
            Some('\\') if self.rest.starts_with("Q\\E") => {
                self.rest = &self.rest[3..];
                return Ok(None);
            }
            Some('\\') => self.escape(start)?,
            Some(c @ ('^' | '$' | '.')) => self.out.push(c),
            Some(c) => literal(c, &mut self.out),
            None => {}
        }
        Ok(Some(1))
    }

    fn group(&mut self, start: &'a str) -> Result<Option<u64>, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(error("expression nests too deeply", start));
        }
        self.out.push('(');
        if self.eat("?") {
            if self.rest.starts_with("P<") || self.rest.starts_with('<') {
                self.group_name(start)?;
            } else if !self.flags(start)? {
                self.depth -= 1;
                return Ok(None);
            }
        }
        let most = self.alternatives()?;
        if !self.eat(")") {
            return Err(error("missing closing )", self.source));
        }
        self.out.push(')');
        self.depth -= 1;
        Ok(Some(most))
    }

    fn group_name(&mut self, start: &'a str) -> Result<(), String> {
        let after = &self.rest[self.rest.find('<').map_or(0, |at| at + 1)..];
        let Some(end) = after.find('>') else { return Err(error("invalid named capture", start)) };
        let name = &after[..end];
        self.rest = &after[end + 1..];
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(error("invalid named capture", self.since(start)));
        }
        // Captures are never read, so the name may go, and with it what the two dialects think of names.
        Ok(())
    }

    /// Flags and the character after them: true when a group's content follows.
    fn flags(&mut self, start: &'a str) -> Result<bool, String> {
        let (mut on, mut off) = (String::new(), String::new());
        let mut negated = false;
        let mut any = false;
        while let Some(c) = self.take() {
            match c {
                'i' | 'm' | 's' | 'U' => {
                    // The last word on a flag counts.
                    on.retain(|flag| flag != c);
                    off.retain(|flag| flag != c);
                    if negated { &mut off } else { &mut on }.push(c);
                    any = true;
                }
                '-' if !negated => (negated, any) = (true, false),
                ':' | ')' if !negated || any => {
                    let minus = if off.is_empty() { "" } else { "-" };
                    // Without any flag there is only the empty group left to write.
                    let colon = if c == ')' && on.is_empty() && off.is_empty() { ":" } else { "" };
                    self.out.push_str(&format!("?{on}{minus}{off}{colon}{c}"));
                    return Ok(c == ':');
                }
                _ => break,
            }
        }
        Err(error("invalid or unsupported Perl syntax", self.since(start)))
    }

    fn escape(&mut self, start: &'a str) -> Result<(), String> {
        let Some(c) = self.peek() else {
            return Err("error parsing regexp: trailing backslash at end of expression: ``".to_owned());
        };
        match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.take();
                self.out.push('[');
                self.out.push_str(perl_class(c));
                self.out.push(']');
            }
            'b' | 'B' => {
                self.take();
                // Word boundaries are ASCII, and the matcher has them only with Unicode switched off.
                self.out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
            }
            'A' | 'z' => {
                self.take();
                self.out.push('\\');
                self.out.push(c);
            }
            'Q' => {
                self.take();
                let (text, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                text.chars().for_each(|c| literal(c, &mut self.out));
            }
            'p' | 'P' => {
                self.take();
                self.unicode_class(c == 'P', start)?;
            }
            _ => {
                let c = self.escaped_char(start)?;
                literal(c, &mut self.out);
            }
        }
        Ok(())
    }

    /// One character behind a backslash.
    fn escaped_char(&mut self, start: &'a str) -> Result<char, String> {
        let invalid = |reader: &Reader<'a>| error("invalid escape sequence", reader.since(start));
        let Some(c) = self.take() else {
            return Err("error parsing regexp: trailing backslash at end of expression: ``".to_owned());
        };
        let octal = |reader: &mut Reader<'a>, first: u32, more: usize| {
            let mut code = first;
            for _ in 0..more {
                match reader.peek().and_then(|c| c.to_digit(8)) {
                    Some(digit) => code = code * 8 + digit,
                    None => break,
                }
                reader.take();
            }
            char::from_u32(code)
        };
        let found = match c {
            '1'..='7' if self.peek().is_some_and(|c| c.is_digit(8)) => octal(self, c.to_digit(8).unwrap_or(0), 2),
            '0' => octal(self, 0, 2),
            'x' if self.eat("{") => self.braced_code(),
            'x' => {
                let digits = [self.take(), self.take()].map(|c| c.and_then(|c| c.to_digit(16)));
                match digits {
                    [Some(high), Some(low)] => char::from_u32(high * 16 + low),
                    _ => None,
                }
            }
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        found.ok_or_else(|| invalid(self))
    }

    /// The rest of `\x{10FFFF}`.
    fn braced_code(&mut self) -> Option<char> {
        let mut code = 0;
        let mut any = false;
        loop {
            match self.take()? {
                '}' if any => return char::from_u32(code),
                c => code = code * 16 + c.to_digit(16)?,
            }
            any = true;
            if code > u32::from(char::MAX) {
                return None;
            }
        }
    }

    fn unicode_class(&mut self, negated: bool, start: &'a str) -> Result<(), String> {
        let mut negated = negated;
        let name = if self.eat("{") {
            let Some((name, rest)) = self.rest.split_once('}') else {
                return Err(error("invalid character class range", start));
            };
            self.rest = rest;
            name.strip_prefix('^').inspect(|_| negated = !negated).unwrap_or(name)
        } else {
            let from = self.rest;
            self.take();
            self.since(from)
        };
        let class = format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' });
        let known =
            name == "Any" || (name.chars().all(|c| c.is_ascii_alphabetic() || c == '_') && Regex::new(&class).is_ok());
        if !known {
            return Err(error("invalid character class range", self.since(start)));
        }
        self.out.push_str(&class);
        Ok(())
    }

    fn class(&mut self, start: &'a str) -> Result<(), String> {
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.peek() {
                None => return Err(error("missing closing ]", start)),
                Some(']') if !first => {
                    self.take();
                    break;
                }
                _ => {}
            }
            first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest.find(":]")
            {
                self.posix_class(end)?;
                continue;
            }
            if self.class_escape()? {
                continue;
            }
            let from = self.rest;
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.take();
                high = self.class_char(start)?;
                if high < low {
                    return Err(error("invalid character class range", self.since(from)));
                }
            }
            code(low, &mut self.out);
            if high != low {
                self.out.push('-');
                code(high, &mut self.out);
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn posix_class(&mut self, end: usize) -> Result<(), String> {
        let text = &self.rest[..end + 2];
        let name = text.trim_start_matches("[:").trim_end_matches(":]").trim_start_matches('^');
        let known = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        if !known.contains(&name) {
            return Err(error("invalid character class range", text));
        }
        self.out.push_str(text);
        self.rest = &self.rest[text.len()..];
        Ok(())
    }

    /// A class inside a class.
    fn class_escape(&mut self) -> Result<bool, String> {
        let start = self.rest;
        let Some(c) = start.strip_prefix('\\').and_then(|rest| rest.chars().next()) else { return Ok(false) };
        match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.rest = &start[2..];
                self.out.push('[');
                self.out.push_str(perl_class(c));
                self.out.push(']');
            }
            'p' | 'P' => {
                self.rest = &start[2..];
                self.unicode_class(c == 'P', start)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn class_char(&mut self, class: &'a str) -> Result<char, String> {
        let start = self.rest;
        match self.take() {
            Some('\\') => self.escaped_char(start),
            Some(c) => Ok(c),
            None => Err(error("missing closing ]", class)),
        }
    }
}

fn perl_class(c: char) -> &'static str {
    match c {
        'd' => "0-9",
        'D' => "^0-9",
        's' => r"\t\n\f\r ",
        'S' => r"^\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        _ => "^0-9A-Za-z_",
    }
}

/// Whether the text begins with a repetition operator. A brace without counts is a literal brace.
fn is_repetition(text: &str) -> bool {
    match text.chars().next() {
        Some('*' | '+' | '?') => true,
        Some('{') => counts(text).is_some(),
        _ => false,
    }
}

fn repetition_text(text: &str) -> &str {
    if text.starts_with('{') { &text[..text.find('}').map_or(1, |end| end + 1)] } else { &text[..1] }
}

/// The bounds in `{2}`, `{2,}` and `{2,5}`.
fn counts(text: &str) -> Option<(u64, Option<u64>)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| -> Option<u64> {
        let well_formed = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let no_zero_first = digits == "0" || !digits.starts_with('0');
        // A number with more digits than fit is larger than any limit.
        (well_formed && no_zero_first).then(|| digits.parse().unwrap_or(u64::MAX))
    };
    match inside.split_once(',') {
        None => number(inside).map(|count| (count, Some(count))),
        Some((low, "")) => number(low).map(|low| (low, None)),
        Some((low, high)) => Some((number(low)?, Some(number(high)?))),
    }
}

fn literal(c: char, out: &mut String) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() { code(c, out) } else { out.push(c) }
}

/// A character by its number: safe everywhere.
fn code(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
    }
}
