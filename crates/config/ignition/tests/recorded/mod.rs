//! Recorded answers of upstream, and the explanation of each difference from them.

use std::collections::BTreeMap;

use seaworthy_ignition::{Node, Problem, Severity, parse};
use serde_json::Value;

/// The rows of a file below `tests`.
pub fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What this crate makes of a row.
pub type Answer = Result<Value, Vec<Problem>>;

/// Why an answer differs from the recorded one, and which answers the reason covers.
pub struct Reason {
    pub why: &'static str,
    pub covers: fn(&Value, &Answer) -> bool,
}

/// Compares answers with the recorded ones. Every difference needs a reason, and every reason a difference.
pub fn compare(
    all: &[Value],
    reasons: &[Reason],
    answer: impl Fn(&Value) -> Answer,
    agrees: impl Fn(&Value, &Answer) -> bool,
) {
    let mut explained: BTreeMap<&str, usize> = reasons.iter().map(|reason| (reason.why, 0)).collect();
    let mut wrong = Vec::new();
    for row in all {
        let ours = answer(row);
        if agrees(row, &ours) {
            continue;
        }
        match reasons.iter().find(|reason| (reason.covers)(row, &ours)) {
            Some(reason) => *explained.entry(reason.why).or_default() += 1,
            None => wrong.push(format!("row  {row}\nours {}", describe(&ours))),
        }
    }
    eprintln!("{} rows", all.len());
    for (why, rows) in &explained {
        eprintln!("{rows:5} differ: {why}");
    }
    let shown = wrong.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {} rows have no reason to differ:\n{shown}", wrong.len(), all.len());
    let idle: Vec<_> = explained.iter().filter(|(_, rows)| **rows == 0).collect();
    assert!(idle.is_empty(), "reasons that explain nothing: {idle:?}");
}

fn describe(answer: &Answer) -> String {
    match answer {
        Ok(config) => config.to_string(),
        Err(problems) => problems
            .iter()
            .map(|problem| format!("{} {} at {}: {}", problem.severity, problem.code, problem.path, problem.message))
            .collect::<Vec<_>>()
            .join("\n     "),
    }
}

/// Whether a translation gives the recorded config, or fails where the recorded one fails.
pub fn same_result(row: &Value, ours: &Answer) -> bool {
    match (ours, row.get("out")) {
        (Ok(ours), Some(theirs)) => ours == theirs,
        (Err(_), None) => true,
        _ => false,
    }
}

/// A config read by this crate, as JSON in spec 3.5.
pub fn parsed(json: &Value) -> Answer {
    let mut node = Node::from_json(json);
    node.number(0);
    parse(&node).map(|parsed| parsed.config.to_json())
}

/// Whether this crate refuses a row for these rules alone, and only at paths that end in one of `places`.
pub fn refused_for(ours: &Answer, codes: &[&str], places: &[&str]) -> bool {
    let Err(problems) = ours else { return false };
    let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error).peekable();
    errors.peek().is_some()
        && errors.all(|error| {
            let path = error.path.to_string();
            codes.contains(&error.code) && places.iter().any(|place| path.ends_with(place))
        })
}

/// The version that a row's config is written in.
pub fn version(row: &Value) -> &str {
    row["in"]["ignition"]["version"].as_str().unwrap_or_default()
}

/// Every value under that key, however deep.
pub fn under<'v>(json: &'v Value, key: &str) -> Vec<&'v Value> {
    match json {
        Value::Object(map) => map
            .iter()
            .flat_map(|(name, value)| {
                let mut found = under(value, key);
                if name == key {
                    found.push(value);
                }
                found
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(|value| under(value, key)).collect(),
        _ => Vec::new(),
    }
}

/// The same value without some of its parts.
pub fn without(json: &Value, goes: &impl Fn(&str, &Value) -> bool) -> Value {
    match json {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without(value, goes)))
                .filter(|(key, value)| !goes(key, value))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(|value| without(value, goes)).collect(),
        other => other.clone(),
    }
}

// Reasons that more than one suite needs.

pub const HEX: Reason = Reason {
    why: "a hash sum must be hexadecimal; Ignition counts its characters only",
    covers: |_, ours| refused_for(ours, &["hash"], &[".hash"]),
};

pub const TARGET: Reason = Reason {
    why: "a link without a target is refused in every version, since the result would be no valid 3.5 config",
    covers: |row, ours| version(row) < "3.3.0" && refused_for(ours, &["link-target"], &[".target"]),
};

pub const SOURCE: Reason = Reason {
    why: "a reference without a source is refused in every version, since the result would be no valid 3.5 config",
    covers: |row, ours| version(row) <= "3.0.0" && refused_for(ours, &["source-required"], &["]"]),
};

pub const HASH_SOURCE: Reason = Reason {
    why: "a hash without a source is refused in every version; 3.0 took it in references",
    covers: |row, ours| version(row) == "3.0.0" && refused_for(ours, &["hash-without-source"], &[".hash"]),
};

pub const MINUS_ZERO: Reason = Reason {
    why: "-0 is read as a number with a fraction",
    covers: |row, ours| {
        let is_zero = |mode: &&Value| mode.as_f64() == Some(0.0) && !mode.is_i64();
        under(&row["in"], "mode").iter().any(is_zero) && refused_for(ours, &["wrong-type"], &[".mode"])
    },
};

pub const LOOKALIKES: Reason = Reason {
    why: "keys that differ by letters which only look alike are not taken for the same",
    covers: |row, ours| ours.is_ok() && ["\u{17f}", "\u{212a}"].iter().any(|c| row["in"].to_string().contains(c)),
};

pub const EMPTY_PIN: Reason = Reason {
    why: "an empty pin of the user's own says nothing, also in 3.2",
    covers: |row, ours| {
        let is_empty =
            |pin: &&Value| ["pin", "config", "needsNetwork"].iter().all(|key| pin.get(key).is_none_or(Value::is_null));
        let customs = under(&row["in"], "custom");
        version(row) == "3.2.0" && ours.is_ok() && customs.iter().all(is_empty) && !customs.is_empty()
    },
};

pub const NAMELESS_PIN: Reason = Reason {
    why: "a pin of the user's own needs a name, also in 3.2; without one 3.3 and later refuse it",
    covers: |row, ours| {
        version(row) == "3.2.0" && refused_for(ours, &["clevis-pin", "clevis-config"], &[".pin", ".config"])
    },
};

pub const NUL: Reason = Reason {
    why: "a path with a NUL character is refused, since no system call takes it",
    covers: |row, ours| {
        row["in"].to_string().contains("\\u0000")
            && refused_for(ours, &["path-nul"], &[".path", ".device", ".target", "]"])
    },
};
