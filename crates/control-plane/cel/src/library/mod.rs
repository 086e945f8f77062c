//! Function implementations. Each checks the types of its arguments itself; those no overload fits are an error.

pub(crate) mod authz;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod named_format;
pub(crate) mod net;
pub(crate) mod pattern;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod standard;
pub(crate) mod strings;
pub(crate) mod url;

use crate::error::EvalError;
use crate::value::{Outcome, Val};

/// A function's code.
pub(crate) type Native = for<'a> fn(&[Val<'a>]) -> Outcome<'a>;

/// The longest text a function may make, in bytes.
///
/// Differs: upstream charges for some texts only after making them and has no bound; one expression could take all
/// memory. Nothing this long fits into a request or a message.
const MAX_TEXT: usize = 32 << 20;

/// The code for a function name.
pub(crate) fn find(function: &str) -> Option<Native> {
    standard::find(function)
        .or_else(|| strings::find(function))
        .or_else(|| lists::find(function))
        .or_else(|| pattern::find_function(function))
        .or_else(|| quantity::find(function))
        .or_else(|| net::find(function))
        .or_else(|| url::find(function))
        .or_else(|| named_format::find(function))
        .or_else(|| semver::find(function))
        .or_else(|| authz::find(function))
}

/// No overload fits the arguments.
fn overload_mismatch<'a>() -> Outcome<'a> {
    Err(EvalError::overload_mismatch())
}

/// The error of a function whose arguments fit no overload, in the words of the function.
pub(crate) fn no_overload(function: &str, args: &[Val<'_>]) -> EvalError {
    match function {
        "size" => EvalError::new("no such overload: size"),
        "startsWith" | "endsWith" | "contains" | "@in" | "!_" => EvalError::no_such_overload(),
        // Text knows `matches`, and asks itself for what it does not know.
        "matches" | "sort" => match args.first() {
            Some(Val::String(_) | Val::Timestamp(_) | Val::Duration(_)) => EvalError::no_such_overload(),
            _ => EvalError::new(format!("no such overload: {function}")),
        },
        operator if !operator.starts_with(|c: char| c.is_ascii_alphabetic()) => match args.first() {
            Some(first) if !takes(operator, first) => EvalError::new(format!("no such overload: {operator}")),
            _ => EvalError::no_such_overload(),
        },
        function => {
            let types: Vec<&str> = args.iter().map(Val::type_name).collect();
            EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}

/// Whether a type takes part in an operator at all, with whatever other operand. Types with methods of their own are
/// asked too, and give the short answer.
fn takes(operator: &str, value: &Val<'_>) -> bool {
    use Val::{Bool, Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    match value {
        String(_) | Timestamp(_) | Duration(_) => true,
        Int(_) | Uint(_) => true,
        Double(_) => operator != "_%_",
        Bytes(_) => matches!(operator, "_+_" | "_<_" | "_<=_" | "_>_" | "_>=_"),
        Bool(_) => matches!(operator, "-_" | "!_" | "_<_" | "_<=_" | "_>_" | "_>=_"),
        List(_) => operator == "_+_",
        _ => false,
    }
}

/// Refuses to make a text of this many bytes if that is too long.
fn within(bytes: usize) -> Result<(), EvalError> {
    if bytes > MAX_TEXT { Err(EvalError::over_budget()) } else { Ok(()) }
}
