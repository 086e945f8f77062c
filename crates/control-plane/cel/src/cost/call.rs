//! Cost estimates of calls: the most a call can cost, from the sizes of its arguments.

use super::estimate::Sizes;
use super::range::{CostRange, SizeRange};
use super::{CHECK_COST, LIST_COST, PATTERN_FACTOR, STRING_FACTOR, STRUCT_COST};
use crate::types::Type;

/// An argument.
#[derive(Debug)]
pub(super) struct Argument {
    /// Where in the data it comes from; empty if from nowhere.
    pub path: Vec<String>,
    pub ty: Type,
    /// Its value, if it is a whole number written out.
    pub literal: Option<i64>,
    pub size: Option<SizeRange>,
}

impl Argument {
    pub(super) fn size_or_unknown(&self) -> SizeRange {
        self.size.unwrap_or(SizeRange::UNKNOWN)
    }

    fn literal_or(&self, otherwise: u64) -> u64 {
        self.literal.map_or(otherwise, |value| u64::try_from(value).unwrap_or(0))
    }
}

/// A cost and, where it is known, the size of the result.
type Estimate = (CostRange, Option<SizeRange>);

/// The longest name of a format and the longest pattern behind one.
const MAX_FORMAT: u64 = 64;
const MAX_FORMAT_PATTERN: f64 = 128.0;

pub(super) fn estimate_call(
    sizes: &Sizes<'_>,
    function: &str,
    overload: &str,
    target: Option<&Argument>,
    args: &[Argument],
) -> Estimate {
    of_extension(sizes, overload, target, args)
        .or_else(|| of_kubernetes(sizes, function, overload, target, args))
        .or_else(|| of_standard(overload, target, args))
        .unwrap_or((CostRange::ONE, None))
}

fn scan(size: SizeRange) -> CostRange {
    size.scaled(STRING_FACTOR)
}

/// The size of an argument as the data bounds it.
fn size_of(sizes: &Sizes<'_>, part: &Argument) -> SizeRange {
    part.size.or_else(|| sizes.at(&part.path)).unwrap_or(SizeRange::UNKNOWN)
}

fn of_extension(sizes: &Sizes<'_>, overload: &str, target: Option<&Argument>, args: &[Argument]) -> Option<Estimate> {
    let made =
        |factor: f64, size: SizeRange| Some((size.scaled(factor).add(CostRange::fixed(1 + LIST_COST)), Some(size)));
    let pairs = |part: &Argument, text: bool| {
        let size = size_of(sizes, part);
        made(if text { 2.0 + STRING_FACTOR } else { 2.0 }, size.times(size))
    };
    match (overload, target, args) {
        ("list_slice", Some(target), [start, end]) => {
            let most = size_of(sizes, target).max;
            let length = end.literal_or(most).wrapping_sub(start.literal_or(0));
            made(1.0, SizeRange::fixed(length))
        }
        ("lists_range", None, [size]) => made(1.0, SizeRange::fixed(size.literal_or(u64::MAX))),
        ("list_reverse", Some(target), []) => made(1.0, size_of(sizes, target)),
        ("list_flatten", Some(target), []) => made(1.0, size_of(sizes, target)),
        ("list_flatten_int", Some(target), [depth]) => made(depth.literal_or(u64::MAX) as f64, size_of(sizes, target)),
        ("list_distinct", Some(target), []) => pairs(target, false),
        (sort, Some(target), []) if sort.starts_with("list_") && sort.ends_with("_sort") => {
            pairs(target, matches!(sort, "list_string_sort" | "list_bytes_sort"))
        }
        (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => {
            pairs(keys, matches!(sort, "list_string_sortByAssociatedKeys" | "list_bytes_sortByAssociatedKeys"))
        }
        ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", _, [one, two]) => {
            let times = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            let product = size_of(sizes, one).times(size_of(sizes, two));
            Some((product.scaled(times).add(CostRange::ONE), None))
        }
        _ => None,
    }
}

fn of_kubernetes(
    sizes: &Sizes<'_>,
    function: &str,
    overload: &str,
    target: Option<&Argument>,
    args: &[Argument],
) -> Option<Estimate> {
    let size = |part: &Argument| size_of(sizes, part);
    match (function, target, args) {
        ("check", ..) => Some((CostRange::fixed(CHECK_COST), None)),
        ("fieldSelector" | "labelSelector", _, [selector]) => {
            let length = size(selector);
            let requirements = length.scaled(0.5).scaled((LIST_COST + STRUCT_COST) as f64);
            Some((CostRange::fixed(LIST_COST).add(scan(length)).add(requirements), None))
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", Some(target), _) => {
            Some((walk(sizes, function, target), None))
        }
        ("url", _, [text]) => Some((scan(size(text)), Some(size(text)))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
            Some((scan(size(target)), Some(size(target))))
        }
        ("replace", Some(target), [old, new, ..]) => {
            let result = replaced(size(target), size(old), size(new));
            Some((size(target).scaled(2.0 * STRING_FACTOR), Some(result)))
        }
        ("split", Some(target), _) => {
            let text = size(target);
            let most = args.get(1).and_then(|limit| limit.literal).map_or(text.max, |limit| limit as u64);
            Some((text.scaled(2.0 * STRING_FACTOR), Some(SizeRange { min: 0, max: most })))
        }
        ("join", Some(target), _) => {
            let size = joined(sizes, target, args.first());
            Some((scan(size), Some(size)))
        }
        ("find" | "findAll", Some(target), [pattern, ..]) => {
            let text = size(target);
            let cost = scan(text.add(SizeRange::ONE)).times(size(pattern).scaled(PATTERN_FACTOR));
            Some((cost, Some(SizeRange { min: 0, max: text.max })))
        }
        ("ip", ..) if overload == "cidr_ip" => Some((CostRange::ONE, None)),
        ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
            Some((scan(size(text)), None))
        }
        ("ip.isCanonical", _, [text]) => Some((size(text).scaled(2.0 * STRING_FACTOR), None)),
        ("containsIP" | "containsCIDR", _, [other]) => {
            // An address has 4 or 16 bytes.
            let bytes = SizeRange { min: 4, max: 16 };
            let mut cost = scan(bytes.add(bytes));
            if function == "containsCIDR" {
                cost = cost.add(scan(bytes)).add(CostRange::ONE);
            }
            if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                cost = cost.add(scan(size(other)));
            }
            Some((cost, None))
        }
        ("validate", _, [text]) => Some((scan(size(text)).scaled(MAX_FORMAT_PATTERN * PATTERN_FACTOR), None)),
        ("_==_", _, [one, two]) if one.ty == two.ty => match &one.ty {
            Type::Library("kubernetes.NamedFormat") => Some((scan(SizeRange { min: 1, max: MAX_FORMAT }), None)),
            Type::Library("kubernetes.URL") => {
                let size = two.size.unwrap_or(SizeRange::ONE);
                Some((scan(SizeRange { min: 1, max: size.max }), None))
            }
            Type::Library(_) | Type::Opaque(_) => Some((CostRange::ONE, None)),
            _ => None,
        },
        _ => None,
    }
}

/// Visiting every item of a list, or every character of a text.
fn walk(sizes: &Sizes<'_>, function: &str, target: &Argument) -> CostRange {
    let items = size_of(sizes, target);
    let Some(item) = first_parameter(&target.ty) else {
        return if function == "includes" { items.times(CostRange::ONE) } else { scan(items) };
    };
    let mut each = CostRange::ONE;
    if matches!(item, Type::String | Type::Bytes) {
        each = each.add(scan(item_size(sizes, target)));
    }
    items.times(each)
}

/// The type of a list's items; for other types with parameters, the first of them.
fn first_parameter(ty: &Type) -> Option<&Type> {
    match ty {
        Type::List(of) | Type::Optional(of) => Some(of),
        Type::Map(entry) => Some(&entry.0),
        Type::Type(of) => of.as_deref(),
        _ => None,
    }
}

fn item_size(sizes: &Sizes<'_>, list: &Argument) -> SizeRange {
    if list.path.is_empty() {
        return SizeRange::UNKNOWN;
    }
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    sizes.at(&path).unwrap_or(SizeRange::UNKNOWN)
}

fn joined(sizes: &Sizes<'_>, list: &Argument, separator: Option<&Argument>) -> SizeRange {
    let items = size_of(sizes, list);
    let mut size = match first_parameter(&list.ty) {
        Some(_) => items.times(item_size(sizes, list)),
        None => SizeRange::ZERO,
    };
    if let Some(separator) = separator {
        let gaps = SizeRange { min: items.min.saturating_sub(1), max: items.max.saturating_sub(1) };
        size = size.add(size_of(sizes, separator).times(gaps));
    }
    size
}

/// How long a text can get when parts of it are replaced.
fn replaced(text: SizeRange, old: SizeRange, new: SizeRange) -> SizeRange {
    let (mut count, mut kept) = (SizeRange::ZERO, SizeRange::ZERO);
    let parts = |text: u64, part: u64| (text as f64 / part as f64).ceil() as u64;
    if old.min == 0 {
        // An empty text is found before and behind every character.
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = parts(text.max, old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = parts(text.min, old.max);
    }
    count.times(new).add(kept)
}

fn of_standard(overload: &str, target: Option<&Argument>, args: &[Argument]) -> Option<Estimate> {
    match (overload, target, args) {
        ("string_format", Some(target), _) => Some((scan(target.size_or_unknown()), None)),
        ("string_to_bytes", _, [text]) => {
            let size = text.size_or_unknown();
            Some((scan(size), Some(SizeRange { min: size.min, max: size.max.wrapping_mul(4) })))
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = bytes.size_or_unknown();
            Some((scan(size), Some(SizeRange { min: size.min / 4, max: size.max })))
        }
        ("strings_quote", _, [text]) => {
            let size = text.size_or_unknown();
            let result = SizeRange { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
            Some((scan(size), Some(result)))
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => Some((scan(part.size_or_unknown()), None)),
        ("in_list", _, [_, list]) => Some((list.size_or_unknown().scaled(1.0), None)),
        ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
            let text = scan(text.size_or_unknown().add(SizeRange::ONE));
            Some((text.times(pattern.size_or_unknown().scaled(PATTERN_FACTOR)), None))
        }
        ("contains_string", Some(text), [part]) => {
            Some((scan(text.size_or_unknown()).times(scan(part.size_or_unknown())), None))
        }
        ("add_string" | "add_bytes" | "add_list", _, [one, two]) => {
            let size = one.size_or_unknown().add(two.size_or_unknown());
            let cost = if overload == "add_list" { CostRange::ONE } else { scan(size) };
            Some((cost, Some(size)))
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [one, two],
        ) => {
            let most = one.size_or_unknown().max.min(two.size_or_unknown().max);
            Some((scan(SizeRange { min: u64::from(most > 0), max: most }), None))
        }
        _ => None,
    }
}
