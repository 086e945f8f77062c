//! Functions on text. Positions count code points.

use super::{Native, overload_mismatch, within};
use crate::error::EvalError;
use crate::library::lists;
use crate::value::{Outcome, Val};

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "lowerAscii" => |args| map_text(args, |text| text.to_ascii_lowercase()),
        "upperAscii" => |args| map_text(args, |text| text.to_ascii_uppercase()),
        "trim" => |args| map_text(args, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "format" => super::format::format,
        "strings.quote" => |args| map_text(args, quote),
        "join" => join,
        _ => return None,
    };
    Some(native)
}

fn map_text<'a>(args: &[Val<'a>], change: fn(&str) -> String) -> Outcome<'a> {
    match args {
        [Val::String(text)] => Ok(Val::string(change(text))),
        _ => overload_mismatch(),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// The byte at which the code point `index` starts; the end counts as one.
fn byte_of(text: &str, index: usize) -> Option<usize> {
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(index)
}

fn char_at<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::String(text), Val::Int(index)] = args else { return overload_mismatch() };
    let start = usize::try_from(*index).ok().and_then(|index| byte_of(text, index));
    let start = start.ok_or_else(|| out_of_range(*index))?;
    Ok(Val::string(text[start..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Val::List(_), _] => return lists::index_of(args),
        [Val::String(text), Val::String(part)] => (text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(offset)] => (text, part, *offset),
        _ => return overload_mismatch(),
    };
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let length = text.chars().count() as i64;
    if part.is_empty() {
        return Ok(Val::Int(offset.min(length)));
    }
    let Some(start) = byte_of(text, offset as usize) else { return Ok(Val::Int(-1)) };
    let found = text[start..].find(&**part).map(|byte| offset + text[start..start + byte].chars().count() as i64);
    Ok(Val::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Val::List(_), _] => return lists::last_index_of(args),
        [Val::String(text), Val::String(part)] => (text, part, None),
        [Val::String(text), Val::String(part), Val::Int(offset)] => (text, part, Some(*offset)),
        _ => return overload_mismatch(),
    };
    let length = text.chars().count() as i64;
    if let Some(offset) = offset.filter(|offset| *offset < 0) {
        return Err(out_of_range(offset));
    }
    if part.is_empty() {
        return Ok(Val::Int(offset.unwrap_or(length).min(length)));
    }
    let Some(offset) = offset else {
        if length == 0 && text.len() >= part.len() {
            return Err(out_of_range(-1));
        }
        let found = text.rfind(&**part).map(|byte| text[..byte].chars().count() as i64);
        return Ok(Val::Int(found.unwrap_or(-1)));
    };
    if offset >= length {
        return Ok(Val::Int(-1));
    }
    // The match may start no later than the offset.
    let part_length = part.chars().count();
    let end = byte_of(text, offset as usize + part_length).unwrap_or(text.len());
    let found = text[..end].rfind(&**part).map(|byte| text[..byte].chars().count() as i64);
    Ok(Val::Int(found.unwrap_or(-1)))
}

fn replace<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (text, old, new, limit) = match args {
        [Val::String(text), Val::String(old), Val::String(new)] => (text, old, new, -1),
        [Val::String(text), Val::String(old), Val::String(new), Val::Int(limit)] => (text, old, new, *limit),
        _ => return overload_mismatch(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = if old.is_empty() { text.chars().count() + 1 } else { text.matches(&**old).count() }.min(limit);
    within(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Val::string(text.replacen(&**old, new, count)))
}

fn split<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(limit)] => (text, separator, *limit),
        _ => return overload_mismatch(),
    };
    let limit = if limit < 0 { usize::MAX } else { limit as usize };
    if limit == 0 {
        return Ok(Val::list(Vec::new()));
    }
    let parts: Vec<Val<'a>> = if separator.is_empty() {
        split_characters(text, limit)
    } else {
        text.splitn(limit, &**separator).map(Val::string).collect()
    };
    Ok(Val::list(parts))
}

fn split_characters<'a>(text: &str, limit: usize) -> Vec<Val<'a>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(Val::string(rest));
            return parts;
        }
        let (head, tail) = rest.split_at(first.len_utf8());
        parts.push(Val::string(head));
        rest = tail;
    }
    parts
}

fn substring<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Val::String(text), Val::Int(start)] => (text, *start, None),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return overload_mismatch(),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let place = |index: i64| {
        usize::try_from(index).ok().and_then(|index| byte_of(text, index)).ok_or_else(|| out_of_range(index))
    };
    let from = place(start)?;
    let to = end.map_or(Ok(text.len()), place)?;
    Ok(Val::string(&text[from..to]))
}

fn join<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::String(separator)] => (list, &**separator),
        _ => return overload_mismatch(),
    };
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let Val::String(text) = &item else { return overload_mismatch() };
        within(out.len() + separator.len() + text.len())?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Val::string(out))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
