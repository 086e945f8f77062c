//! Regular expressions: RE2's syntax, which is translated into that of the engine used here.

use regex::{Regex, RegexBuilder};

use super::{Native, unfit};
use crate::error::EvalError;
use crate::value::{Outcome, Val};

/// The largest compiled pattern, in bytes.
const SIZE_LIMIT: usize = 4 << 20;
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
        _ => unfit(),
    }
}

/// `matches` with a compiled pattern.
pub(crate) fn matches<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    match args {
        [Val::String(text), _] => Ok(Val::Bool(regex.is_match(text))),
        _ => unfit(),
    }
}

/// `find` with a compiled pattern.
pub(crate) fn find<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    match args {
        [Val::String(text), _] => Ok(Val::string(regex.find(text).map_or("", |found| found.as_str()))),
        _ => unfit(),
    }
}

/// `findAll` with a compiled pattern.
pub(crate) fn find_all<'a>(args: &[Val<'a>], regex: &Regex) -> Outcome<'a> {
    let (text, limit) = match args {
        [Val::String(text), _] => (text, usize::MAX),
        [Val::String(text), _, Val::Int(limit)] => (text, usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return unfit(),
    };
    Ok(Val::list(regex.find_iter(text).take(limit).map(|found| Val::string(found.as_str())).collect()))
}

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern).map_err(|problem| format!("error parsing regexp: {problem}"))?;
    RegexBuilder::new(&translated).size_limit(SIZE_LIMIT).build().map_err(|_| {
        // The engine's own words would name another syntax.
        format!("error parsing regexp: invalid pattern: `{pattern}`")
    })
}

fn translate(pattern: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut depth = 0usize;
    // What a repetition would repeat: nothing, something, a repetition, or one that already is lazy.
    let mut before = Before::Nothing;
    let mut repeated = 0;
    while at < chars.len() {
        let start = at;
        let shown = |end: usize| chars[start..end.min(chars.len())].iter().collect::<String>();
        let mut next = Before::Something;
        match chars[at] {
            '\\' => at = escape(&chars, at, &mut out, false)?,
            '[' => at = class(&chars, at, &mut out)?,
            '(' => {
                depth += 1;
                at = group(&chars, at, &mut out, &mut depth)?;
                next = Before::Nothing;
            }
            ')' => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("unexpected ): `{pattern}`"))?;
                out.push(')');
                at += 1;
            }
            '|' | '^' => {
                out.push(chars[at]);
                at += 1;
                next = if chars[start] == '|' { Before::Nothing } else { Before::Something };
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
                            before = Before::Something;
                            continue;
                        }
                    },
                    _ => at + 1,
                };
                next = match (before, chars[at]) {
                    (Before::Nothing, _) => {
                        return Err(format!("missing argument to repetition operator: `{}`", shown(end)));
                    }
                    (Before::Something, _) => {
                        repeated = at;
                        Before::Repeated
                    }
                    (Before::Repeated, '?') => Before::Lazy,
                    _ => {
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
enum Before {
    Nothing,
    Something,
    Repeated,
    Lazy,
}

/// Copies the start of a group: plain, named, or with flags.
fn group(chars: &[char], at: usize, out: &mut String, depth: &mut usize) -> Result<usize, String> {
    if chars.get(at + 1) != Some(&'?') {
        out.push('(');
        return Ok(at + 1);
    }
    let rest: String = chars[at..].iter().collect();
    let named =
        rest.starts_with("(?P<") || rest.starts_with("(?<") && !rest.starts_with("(?<=") && !rest.starts_with("(?<!");
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

/// Translates a bracketed class: characters that would mean something only here are escaped.
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
        match c {
            ']' if next > first => {
                out.push(']');
                return Ok(next + 1);
            }
            '[' if chars.get(next + 1) == Some(&':') => {
                let close = chars[next..].windows(2).position(|pair| pair == [':', ']']);
                match close.filter(|close| *close > 1) {
                    Some(close) => {
                        out.extend(&chars[next..next + close + 2]);
                        next += close + 2;
                    }
                    None => {
                        out.push_str("\\[");
                        next += 1;
                    }
                }
            }
            '\\' => next = escape(chars, next, out, true)?,
            '-' => {
                // At an end it is itself; elsewhere it makes a range.
                let edge = next == first || chars.get(next + 1) == Some(&']');
                out.push_str(if edge { "\\-" } else { "-" });
                next += 1;
            }
            '[' | ']' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(c);
                next += 1;
            }
            c => {
                out.push(c);
                next += 1;
            }
        }
    }
}
