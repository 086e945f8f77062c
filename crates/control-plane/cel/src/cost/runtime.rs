//! Actual cost of a call, from its arguments and its result.

use super::{CHECK_COST, LIST_COST, PATTERN_FACTOR, STRING_FACTOR, STRUCT_COST};
use crate::library::lists::MAX_RANGE;
use crate::value::{Opaque, Outcome, Val};

/// The cost rule of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A fixed cost.
    Fixed(u64),
    /// Reading the text of an argument once or twice.
    Scan(usize, u8),
    /// Reading the result twice.
    ScanResult,
    /// Visiting everything in the first argument.
    Traverse,
    /// The number of items of an argument.
    Size(usize),
    /// Comparing two texts: the shorter decides.
    Shorter,
    /// Joining two texts.
    Sum,
    /// Adding lists; apart from `Fixed(1)` so that the planner knows it.
    AddList,
    /// Adding entries.
    MapInsert,
    /// Searching a text in a text.
    Search,
    /// Matching a pattern.
    Pattern,
    /// A named format's pattern.
    Format,
    /// Making a list as large as the result.
    Produce,
    /// Making a list of the given length.
    Range,
    Flatten,
    /// Comparing each item of an argument with each other.
    Pairs(usize),
    /// Comparing each item of one list with each of another, once or twice.
    Sets(u8),
    /// Comparing addresses with a network; the flags: a network, and text that must be parsed.
    Network(bool, bool),
    Selector,
}

impl Rule {
    pub(crate) fn of(function: &str, overload: &str) -> Rule {
        if let Some(rule) = Rule::of_extension(overload) {
            return rule;
        }
        match function {
            "check" => Rule::Fixed(CHECK_COST),
            "fieldSelector" | "labelSelector" => Rule::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => Rule::Traverse,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => Rule::Scan(0, 1),
            "replace" | "split" => Rule::Scan(0, 2),
            "join" => Rule::ScanResult,
            "find" | "findAll" => Rule::Pattern,
            "ip" if overload == "cidr_ip" => Rule::Fixed(1),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => Rule::Scan(0, 1),
            "ip.isCanonical" => Rule::Scan(0, 2),
            "containsIP" => Rule::Network(false, overload == "cidr_contains_ip_string"),
            "containsCIDR" => Rule::Network(true, overload == "cidr_contains_cidr_string"),
            "validate" => Rule::Format,
            "cel.@mapInsert" => Rule::MapInsert,
            _ => Rule::of_standard(overload),
        }
    }

    fn of_extension(overload: &str) -> Option<Rule> {
        Some(match overload {
            "list_slice" | "list_reverse" => Rule::Produce,
            "lists_range" => Rule::Range,
            "list_flatten" | "list_flatten_int" => Rule::Flatten,
            "list_distinct" => Rule::Pairs(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => Rule::Sets(1),
            "list_sets_equivalent_list" => Rule::Sets(2),
            sort if sort.starts_with("list_") && sort.ends_with("_sort") => Rule::Pairs(0),
            sort if sort.starts_with("list_") && sort.ends_with("_sortByAssociatedKeys") => Rule::Pairs(1),
            _ => return None,
        })
    }

    fn of_standard(overload: &str) -> Rule {
        match overload {
            "starts_with_string" | "ends_with_string" => Rule::Scan(1, 1),
            "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => Rule::Scan(0, 1),
            "in_list" => Rule::Size(1),
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => Rule::Shorter,
            "add_string" | "add_bytes" => Rule::Sum,
            "add_list" => Rule::AddList,
            "matches" | "matches_string" => Rule::Pattern,
            "contains_string" => Rule::Search,
            _ => Rule::Fixed(1),
        }
    }

    /// The cost of a call that takes long for what its arguments weigh, before it is made; nothing for other calls.
    pub(crate) fn cost_before(self, args: &[Val<'_>]) -> u64 {
        match (self, args) {
            (Rule::Range, [Val::Int(size)]) if *size <= MAX_RANGE => u64::try_from(*size).unwrap_or(0),
            (Rule::Pairs(_) | Rule::Sets(_), args) => self.cost(args, &Ok(Val::Null)),
            _ => 0,
        }
    }

    /// The cost of a call. An argument that is an error counts as any scalar.
    pub(crate) fn cost(self, args: &[Val<'_>], result: &Outcome<'_>) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, size);
        match self {
            Rule::Fixed(cost) => cost,
            Rule::AddList | Rule::MapInsert => 1,
            Rule::Scan(index, times) => scan(size(index) as f64 * f64::from(times)),
            Rule::ScanResult => scan(result.as_ref().map_or(1, Val::size) as f64 * 2.0),
            Rule::Traverse => args.first().map_or(0, traverse),
            Rule::Size(index) => size(index),
            Rule::Shorter => scan(size(0).min(size(1)) as f64),
            Rule::Sum => scan((size(0) + size(1)) as f64),
            Rule::Search => scan(size(0) as f64).saturating_mul(scan(size(1) as f64)),
            Rule::Pattern => pattern(size(0), size(1)),
            Rule::Format => match args.first() {
                Some(Val::Opaque(Opaque::Format(format))) => pattern(size(1), format.pattern_size),
                _ => 1,
            },
            Rule::Produce | Rule::Range => made_list(1.0, result.as_ref().map_or(1, Val::size)),
            Rule::Flatten => {
                let depth = match args.get(1) {
                    Some(Val::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                made_list(depth, size(0))
            }
            Rule::Pairs(index) => pairs(args.get(index)),
            Rule::Sets(times) => {
                1u64.saturating_add((size(0).saturating_mul(size(1)) as f64 * f64::from(times)) as u64)
            }
            Rule::Network(network, text) => {
                let own = size(0) as f64;
                let mut cost = scan(own + own);
                if network {
                    cost += scan(own) + 1;
                }
                if text {
                    cost += scan(size(1) as f64);
                }
                cost
            }
            Rule::Selector => {
                let length = size(1) as f64;
                let requirements = (length * 0.5).ceil();
                LIST_COST + scan(length) + (requirements * (LIST_COST + STRUCT_COST) as f64).ceil() as u64
            }
        }
    }
}

/// The cost of `==` and `!=`.
pub(crate) fn equality(one: &Val<'_>, two: &Val<'_>, negate: bool) -> u64 {
    if !negate && matches!(one, Val::Opaque(_)) {
        return 1;
    }
    scan(size(one).min(size(two)) as f64)
}

/// The size of a value, looking into optionals.
fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::Optional(Some(value)) => size(value),
        value => value.size(),
    }
}

fn scan(characters: f64) -> u64 {
    (characters * STRING_FACTOR).ceil() as u64
}

fn pattern(text: u64, pattern: u64) -> u64 {
    // An empty text does not make an expensive pattern free.
    let text = ((1.0 + text as f64) * STRING_FACTOR).ceil() as u64;
    text.saturating_mul((pattern as f64 * PATTERN_FACTOR).ceil() as u64)
}

fn made_list(factor: f64, size: u64) -> u64 {
    let factor = if factor < 0.0 { 1.0 } else { factor };
    ((size as f64 * factor) as u64).saturating_add(1 + LIST_COST)
}

fn pairs(list: Option<&Val<'_>>) -> u64 {
    let Some(Val::List(list)) = list else { return 1 + LIST_COST };
    let size = list.len() as u64;
    let text = matches!(list.get(0), Ok(Val::String(_) | Val::Bytes(_)));
    let factor = if text { 2.0 + STRING_FACTOR } else { 2.0 };
    made_list(factor, size.saturating_mul(size))
}

/// The cost of visiting everything in a value.
fn traverse(value: &Val<'_>) -> u64 {
    match value {
        Val::String(text) => (text.len() as f64 * STRING_FACTOR) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * STRING_FACTOR) as u64,
        Val::List(list) => list.iter().map(|item| item.as_ref().map_or(1, traverse)).sum(),
        Val::Map(map) => {
            map.entries().iter().map(|(key, value)| traverse(key) + value.as_ref().map_or(1, traverse)).sum()
        }
        _ => 1,
    }
}
