//! Functions on lists and sets.

use std::cmp::Ordering;

use super::standard::add;
use super::{Native, overload_mismatch};
use crate::collection::List;
use crate::compare::{contains, equal, order};
use crate::error::EvalError;
use crate::value::{Outcome, Val};

/// The longest list `lists.range` makes.
pub(crate) const MAX_RANGE: i64 = 1_000_000;

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "isSorted" => is_sorted,
        "sum" => |args| sum(args, Val::Int(0)),
        "min" => |args| extreme(args, "min", Ordering::Greater),
        "max" => |args| extreme(args, "max", Ordering::Less),
        "includes" => includes,
        "first" => |args| end_of(args, |_| 0),
        "last" => |args| end_of(args, |length| length - 1),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        "slice" => slice,
        "flatten" => flatten,
        "lists.range" => range,
        "reverse" => reverse,
        "distinct" => distinct,
        "sort" => |args| match args {
            [list] => sort_by(&[list.clone(), list.clone()]),
            _ => overload_mismatch(),
        },
        "@sortByAssociatedKeys" => sort_by,
        "sets.contains" => |args| match args {
            [Val::List(one), Val::List(two)] => Ok(Val::Bool(covers(one, two)?)),
            _ => overload_mismatch(),
        },
        "sets.equivalent" => |args| match args {
            [Val::List(one), Val::List(two)] => Ok(Val::Bool(covers(one, two)? && covers(two, one)?)),
            _ => overload_mismatch(),
        },
        "sets.intersects" => intersects,
        _ => return None,
    };
    Some(native)
}

fn list_of<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v List<'a>, EvalError> {
    match args {
        [Val::List(list), ..] => Ok(list),
        _ => Err(EvalError::overload_mismatch()),
    }
}

fn is_sorted<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let items = list_of(args)?.values()?;
    for pair in items.windows(2) {
        if matches!(order(&pair[0], &pair[1]), Ok(Ordering::Greater)) {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

/// `sum` for lists of a type that is known: it decides what the sum of nothing is.
pub(crate) fn sum_of(overload: &str) -> Native {
    match overload {
        "list_uint_sum_uint" => |args| sum(args, Val::Uint(0)),
        "list_double_sum_double" => |args| sum(args, Val::Double(0.0)),
        "list_duration_sum_duration" => |args| sum(args, Val::Duration(0)),
        _ => |args| sum(args, Val::Int(0)),
    }
}

fn sum<'a>(args: &[Val<'a>], zero: Val<'a>) -> Outcome<'a> {
    let mut items = list_of(args)?.iter();
    let Some(first) = items.next() else { return Ok(zero) };
    let mut total = first?;
    if !matches!(total, Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)) {
        return overload_mismatch();
    }
    for item in items {
        let next = add(&[total, item?]);
        total =
            next.map_err(|error| if error.is_overload_mismatch() { EvalError::no_such_overload() } else { error })?;
    }
    Ok(total)
}

fn extreme<'a>(args: &[Val<'a>], name: &str, worse: Ordering) -> Outcome<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list_of(args)?.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if !matches!(order(&best, &item), Ok(found) if found == worse) => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

/// Where in a list a value is first.
pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::List(list), wanted] = args else { return overload_mismatch() };
    let found = (0..list.len()).find(|index| is_at(list, *index, wanted));
    Ok(Val::Int(found.map_or(-1, |index| index as i64)))
}

/// Where in a list a value is last.
pub(super) fn last_index_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::List(list), wanted] = args else { return overload_mismatch() };
    let found = (0..list.len()).rev().find(|index| is_at(list, *index, wanted));
    Ok(Val::Int(found.map_or(-1, |index| index as i64)))
}

fn is_at(list: &List<'_>, index: usize, wanted: &Val<'_>) -> bool {
    matches!(list.get(index).and_then(|item| equal(&item, wanted)), Ok(true))
}

fn includes<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::List(list), wanted] => Ok(Val::Bool((0..list.len()).any(|index| is_at(list, index, wanted)))),
        [one, two] => Ok(Val::Bool(matches!(equal(one, two), Ok(true)))),
        _ => overload_mismatch(),
    }
}

fn end_of<'a>(args: &[Val<'a>], place: fn(usize) -> usize) -> Outcome<'a> {
    let list = list_of(args)?;
    if list.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::some(list.get(place(list.len()))?))
}

fn unwrap<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let mut values = Vec::new();
    for item in list_of(args)?.iter() {
        match item? {
            Val::Optional(Some(value)) => values.push((*value).clone()),
            Val::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Val::list(values))
}

fn slice<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = args else { return overload_mismatch() };
    let refuse = |why: &str| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refuse("negative indexes not supported");
    };
    if from > to {
        return refuse("start index must be less than or equal to end index");
    }
    if to > list.len() {
        return refuse(&format!("list is length {}", list.len()));
    }
    Ok(Val::list((from..to).map(|index| list.get(index)).collect::<Result<_, _>>()?))
}

fn flatten<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let depth = match args {
        [Val::List(_)] => 1,
        [Val::List(_), Val::Int(depth)] if *depth < 0 => return Err(EvalError::new("level must be non-negative")),
        [Val::List(_), Val::Int(depth)] => *depth,
        _ => return overload_mismatch(),
    };
    let mut out = Vec::new();
    flatten_into(list_of(args)?, depth, &mut out)?;
    Ok(Val::list(out))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Val<'a>>) -> Result<(), EvalError> {
    for item in list.iter() {
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            item => out.push(item),
        }
    }
    Ok(())
}

fn range<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(size)] if *size < 0 => {
            Err(EvalError::new(format!("lists.range: size must be non-negative, got {size}")))
        }
        [Val::Int(size)] if *size > MAX_RANGE => {
            Err(EvalError::new(format!("lists.range: size {size} exceeds maximum allowed ({MAX_RANGE})")))
        }
        // The evaluator has refused sizes that are not affordable.
        [Val::Int(size)] => Ok(Val::list((0..*size).map(Val::Int).collect())),
        _ => overload_mismatch(),
    }
}

fn reverse<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let mut items = list_of(args)?.values()?;
    items.reverse();
    Ok(Val::list(items))
}

fn distinct<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let mut unique: Vec<Val<'a>> = Vec::new();
    for item in list_of(args)?.iter() {
        let item = item?;
        if !unique.iter().any(|seen| matches!(equal(&item, seen), Ok(true))) {
            unique.push(item);
        }
    }
    Ok(Val::list(unique))
}

fn sort_by<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::List(list), Val::List(keys)] = args else { return overload_mismatch() };
    let (items, keys) = (list.values()?, keys.values()?);
    if items.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else { return Ok(args[0].clone()) };
    if order(first, first).is_err() && !matches!(first, Val::Double(_)) {
        return Err(EvalError::new("list elements must be comparable"));
    }
    if keys.len() > 1 && keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    let mut places: Vec<usize> = (0..items.len()).collect();
    places.sort_by(|one, two| order(&keys[*one], &keys[*two]).unwrap_or(Ordering::Equal));
    Ok(Val::list(places.into_iter().map(|place| items[place].clone()).collect()))
}

fn covers(list: &List<'_>, part: &List<'_>) -> Result<bool, EvalError> {
    let items = list.values()?;
    for item in part.iter() {
        if !contains(&items, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let [Val::List(one), Val::List(two)] = args else { return overload_mismatch() };
    let others = two.values()?;
    for item in one.iter() {
        if matches!(contains(&others, &item?), Ok(true)) {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
