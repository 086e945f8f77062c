//! Regular expressions in RE2's syntax, translated into that of the `regex` crate.

use regex::{Regex, RegexBuilder};

use super::{Native, overload_mismatch};
use crate::error::EvalError;
use crate::value::{Outcome, Val};

/// The largest compiled pattern, in bytes.
///
/// Differs: upstream has no such bound, but patterns may come from data, and nothing is charged for compiling them.
const MAX_PATTERN_BYTES: usize = 10 << 20;
/// The highest repetition count RE2 accepts.
const MAX_REPEAT: u64 = 1000;

pub(super) fn find_function(function: &str) -> Option<Native> {
    let native: Native = match function {
        "matches" => |args| with(args, "", matches),
        "find" => |args| with(args, "Illegal regex: ", find),
        "findAll" => |args| with(args, "Illegal regex: ", find_all),
        _ => return None,
    };
    Some(native)
}

fn with<'a>(args: &[Val<'a>], prefix: &str, apply: fn(&[Val<'a>], &Regex) -> Outcome<'a>) -> Outcome<'a> {
    match args.get(1) {
        Some(Val::String(text)) => {
            let regex = compile(text).map_err(|error| EvalError::new(format!("{prefix}{error}")))?;
            apply(args, &regex)
        }
        _ => overload_mismatch(),
    }
}

/// `matches` with a compiled pattern.
pub(crate) fn matches<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    match args {
        [Val::String(text), _] => Ok(Val::Bool(regex.is_match(text))),
        _ => overload_mismatch(),
    }
}

/// `find` with a compiled pattern.
pub(crate) fn find<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    match args {
        [Val::String(text), _] => Ok(Val::string(regex.find(text).map_or("", |found| found.as_str()))),
        _ => overload_mismatch(),
    }
}

/// `findAll` with a compiled pattern.
pub(crate) fn find_all<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    let (text, limit) = match args {
        [Val::String(text), _] => (text, usize::MAX),
        [Val::String(text), _, Val::Int(limit)] => (text, usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return overload_mismatch(),
    };
    Ok(Val::list(regex.find_iter(text).take(limit).map(|found| Val::string(found.as_str())).collect()))
}

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern).map_err(|problem| format!("error parsing regexp: {problem}"))?;
    RegexBuilder::new(&translated).size_limit(MAX_PATTERN_BYTES).build().map_err(|_| {
        // The engine's own words would name another syntax.
        format!("error parsing regexp: invalid pattern: `{pattern}`")
    })
}

fn translate(pattern: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut depth = 0usize;
    // What a repetition would repeat: nothing, something, or what already is repeated.
    let mut before = Preceding::Nothing;
    let mut repeated = 0;
    while at < chars.len() {
        let start = at;
        let shown = |end: usize| chars[start..end.min(chars.len())].iter().collect::<String>();
        let mut next = Preceding::Something;
        match chars[at] {
            '\\' => at = escape(&chars, at, &mut out, false)?,
            '[' => at = class(&chars, at, &mut out)?,
            '(' => {
                depth += 1;
                at = group(&chars, at, &mut out, &mut depth)?;
                next = Preceding::Nothing;
            }
            ')' => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("unexpected ): `{pattern}`"))?;
                out.push(')');
                at += 1;
            }
            '|' | '^' => {
                out.push(chars[at]);
                at += 1;
                next = if chars[start] == '|' { Preceding::Nothing } else { Preceding::Something };
            }
            '*' | '+' | '?' | '{' => {
                let end = match chars[at] {
                    '{' => match repeat(&chars, at) {
                        Some((end, counts)) => {
                            let falling = counts.len() == 2 && counts[1] < counts[0];
                            if falling || counts.iter().any(|count| *count > MAX_REPEAT) {
                                return Err(format!("invalid repeat count: `{}`", shown(end)));
                            }
                            end
                        }
                        // A brace that starts no repetition is itself.
                        None => {
                            out.push_str("\\{");
                            at += 1;
                            before = Preceding::Something;
                            continue;
                        }
                    },
                    _ => at + 1,
                };
                // A question mark behind it makes it lazy.
                let end = end + usize::from(chars.get(end) == Some(&'?'));
                next = match before {
                    Preceding::Nothing => {
                        return Err(format!("missing argument to repetition operator: `{}`", shown(end)));
                    }
                    Preceding::Something => {
                        repeated = at;
                        Preceding::Repeated
                    }
                    Preceding::Repeated => {
                        let both: String = chars[repeated..end].iter().collect();
                        return Err(format!("invalid nested repetition operator: `{both}`"));
                    }
                };
                out.extend(&chars[at..end]);
                at = end;
            }
            '}' => {
                out.push_str("\\}");
                at += 1;
            }
            c => {
                out.push(c);
                at += 1;
            }
        }
        before = next;
    }
    if depth > 0 {
        return Err(format!("missing closing ): `{pattern}`"));
    }
    Ok(out)
}

#[derive(Clone, Copy)]
enum Preceding {
    Nothing,
    Something,
    Repeated,
}

/// Copies the start of a group: plain, named, or with flags.
fn group(chars: &[char], at: usize, out: &mut String, depth: &mut usize) -> Result<usize, String> {
    if chars.get(at + 1) != Some(&'?') {
        out.push('(');
        return Ok(at + 1);
    }
    let rest: String = chars[at..].iter().collect();
    let named = rest.starts_with("(?P<") || rest.starts_with("(?<");
    if named && !rest.contains('>') {
        return Err(format!("invalid named capture: `{rest}`"));
    }
    let end = if named {
        rest.find('>').map(|end| end + 1)
    } else {
        let flags = rest[2..].find(|c: char| !"imsU-".contains(c)).map(|end| end + 2);
        flags.filter(|end| matches!(rest.as_bytes()[*end], b':' | b')')).map(|end| end + 1)
    };
    let Some(end) = end else {
        let shown: String = rest.chars().take(3).collect();
        return Err(format!("invalid or unsupported Perl syntax: `{shown}`"));
    };
    if named {
        // The name is of no use here, and two groups may have the same.
        let start = rest.find('<').map_or(0, |open| open + 1);
        let name = &rest[start..end - 1];
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(format!("invalid named capture: `{}`", &rest[..end]));
        }
        out.push('(');
        return Ok(at + rest[..end].chars().count());
    }
    if rest[..end].ends_with(')') {
        *depth -= 1;
    }
    out.push_str(&rest[..end]);
    Ok(at + rest[..end].chars().count())
}

/// The end and the numbers of `{n}`, `{n,}` or `{n,m}` at `at`.
fn repeat(chars: &[char], at: usize) -> Option<(usize, Vec<u64>)> {
    let close = at + chars[at..].iter().position(|c| *c == '}')?;
    let inner: String = chars[at + 1..close].iter().collect();
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let counts = match inner.split_once(',') {
        None => vec![number(&inner)?],
        Some((low, "")) => vec![number(low)?],
        Some((low, high)) => vec![number(low)?, number(high)?],
    };
    Some((close + 1, counts))
}

/// Translates one escape; classes of characters are ASCII as in RE2.
fn escape(chars: &[char], at: usize, out: &mut String, in_class: bool) -> Result<usize, String> {
    let Some(&c) = chars.get(at + 1) else { return Err("trailing backslash at end of expression: ``".to_owned()) };
    let set = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\x0C\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\x0C\\r ",
        _ => "",
    };
    if !set.is_empty() {
        out.push_str(&format!("[{set}]"));
        return Ok(at + 2);
    }
    match c {
        'b' | 'B' if !in_class => out.push_str(if c == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" }),
        'A' | 'z' if !in_class => out.extend(['\\', c]),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => out.extend(['\\', c]),
        'Q' if !in_class => {
            let mut end = at + 2;
            while end < chars.len() && !(chars[end] == '\\' && chars.get(end + 1) == Some(&'E')) {
                out.push_str(&regex::escape(&chars[end].to_string()));
                end += 1;
            }
            return Ok((end + 2).min(chars.len()));
        }
        'p' | 'P' => {
            let end = if chars.get(at + 2) == Some(&'{') {
                chars[at..].iter().position(|c| *c == '}').map_or(chars.len(), |close| at + close + 1)
            } else {
                (at + 3).min(chars.len())
            };
            out.extend(&chars[at..end]);
            return Ok(end);
        }
        'x' => {
            let end = if chars.get(at + 2) == Some(&'{') {
                chars[at..].iter().position(|c| *c == '}').map_or(chars.len(), |close| at + close + 1)
            } else {
                (at + 4).min(chars.len())
            };
            out.extend(&chars[at..end]);
            return Ok(end);
        }
        '0'..='7' if c == '0' || chars.get(at + 2).is_some_and(|c| ('0'..='7').contains(c)) => {
            let digits: String = chars[at + 1..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).collect();
            let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
            out.push_str(&format!("\\x{{{code:x}}}"));
            return Ok(at + 1 + digits.len());
        }
        c if c.is_ascii_punctuation() => out.push_str(&regex::escape(&c.to_string())),
        c if !c.is_ascii_alphanumeric() && c.is_ascii() => out.push(c),
        c => return Err(format!("invalid escape sequence: `\\{c}`")),
    }
    Ok(at + 2)
}

/// Translates a bracketed class: ranges are checked, and characters that would mean something only here are escaped.
fn class(chars: &[char], at: usize, out: &mut String) -> Result<usize, String> {
    let missing = || format!("missing closing ]: `{}`", chars[at..].iter().collect::<String>());
    let mut next = at + 1;
    out.push('[');
    if chars.get(next) == Some(&'^') {
        out.push('^');
        next += 1;
    }
    let first = next;
    loop {
        let Some(&c) = chars.get(next) else { return Err(missing()) };
        if c == ']' && next > first {
            out.push(']');
            return Ok(next + 1);
        }
        if let Some(end) = posix_class(chars, next) {
            out.extend(&chars[next..end]);
            next = end;
            continue;
        }
        if c == '\\' && matches!(chars.get(next + 1), Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P')) {
            next = escape(chars, next, out, true)?;
            continue;
        }
        let start = next;
        let low = class_char(chars, &mut next).ok_or_else(missing)??;
        let mut high = low;
        if chars.get(next) == Some(&'-') && chars.get(next + 1).is_some_and(|c| *c != ']') {
            next += 1;
            high = class_char(chars, &mut next).ok_or_else(missing)??;
            if high < low {
                let shown: String = chars[start..next].iter().collect();
                return Err(format!("invalid character class range: `{shown}`"));
            }
        }
        out.push_str(&format!("\\x{{{:x}}}", low as u32));
        if high > low {
            out.push_str(&format!("-\\x{{{:x}}}", high as u32));
        }
    }
}

/// The end of `[:name:]` at `at`.
fn posix_class(chars: &[char], at: usize) -> Option<usize> {
    if chars[at] != '[' || chars.get(at + 1) != Some(&':') {
        return None;
    }
    chars[at + 2..].windows(2).position(|pair| pair == [':', ']']).map(|close| at + close + 4)
}

/// One character of a class, written plainly or escaped; nothing at the end of the pattern.
fn class_char(chars: &[char], at: &mut usize) -> Option<Result<char, String>> {
    let c = *chars.get(*at)?;
    if c != '\\' {
        *at += 1;
        return Some(Ok(c));
    }
    let Some(&c) = chars.get(*at + 1) else {
        return Some(Err("trailing backslash at end of expression: ``".to_owned()));
    };
    let plain = match c {
        'a' => Some('\u{7}'),
        'f' => Some('\u{c}'),
        't' => Some('\t'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        'v' => Some('\u{b}'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    };
    if let Some(plain) = plain {
        *at += 2;
        return Some(Ok(plain));
    }
    let rest: String = chars[*at..].iter().take(12).collect();
    let (digits, radix, len) = match c {
        'x' if rest.starts_with("\\x{") => {
            let close = rest.find('}').unwrap_or(rest.len());
            (rest.get(3..close).unwrap_or(""), 16, close + 1)
        }
        'x' => (rest.get(2..4).unwrap_or(""), 16, 4),
        '0'..='7' => {
            let len = rest[1..].chars().take(3).take_while(|c| ('0'..='7').contains(c)).count();
            (&rest[1..1 + len], 8, 1 + len)
        }
        _ => ("", 10, 0),
    };
    match u32::from_str_radix(digits, radix).ok().and_then(char::from_u32) {
        Some(value) if c == '0' || c == 'x' || digits.len() > 1 => {
            *at += len;
            Some(Ok(value))
        }
        _ => Some(Err(format!("invalid escape sequence: `\\{c}`"))),
    }
}
