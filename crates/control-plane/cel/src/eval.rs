//! Evaluator: runs a plan and counts its cost.
//!
//! `&&`, `||` and folds absorb errors; the end of the budget is no such error and ends the evaluation from anywhere.

mod fold;

use std::sync::Arc;

use crate::collection::{Entries, Key, Map};
use crate::compare::equal;
use crate::cost::runtime::equality;
use crate::cost::{LIST_COST, MAP_COST};
use crate::error::EvalError;
use crate::library;
use crate::plan::{Attr, Base, Call, Node, Op, Qual, Step};
use crate::program::Bindings;
use crate::value::{Outcome, Val};

pub(crate) struct Evaluation<'a, 'b> {
    bindings: &'b Bindings<'a>,
    slots: Vec<Slot<'a>>,
    cost: u64,
    limit: u64,
}

/// A local variable; accumulators are computed when they are first read.
#[derive(Clone)]
enum Slot<'a> {
    Lazy(Option<&'a Node>),
    Ready(Outcome<'a>),
}

impl<'a, 'b> Evaluation<'a, 'b> {
    pub(crate) fn new(bindings: &'b Bindings<'a>, slots: usize, limit: u64) -> Self {
        Evaluation { bindings, slots: vec![Slot::Lazy(None); slots], cost: 0, limit }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The value of the whole program.
    pub(crate) fn run(&mut self, node: &'a Node) -> Outcome<'a> {
        self.eval(node)
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::over_budget()) } else { Ok(()) }
    }

    fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Const(value) => Ok(value.reborrow()),
            Node::Attr(attr) => self.selection(attr),
            Node::Test(attr) => self.test(attr),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equal { one, two, negate } => self.equality(one, two, *negate),
            Node::InSet(value, set) => self.in_set(value, set),
            Node::Call(call) => self.call(call),
            Node::List { items, optional } => self.list(items, optional),
            Node::Map { entries } => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
            Node::Append { slot, items } => self.append(*slot, items),
            Node::Insert { slot, args } => self.insert(*slot, args),
            Node::OrElse { one, two, unwrap } => self.or_else(one, two, *unwrap),
        }
    }

    fn selection(&mut self, attr: &'a Attr) -> Outcome<'a> {
        let value = self.attr(attr);
        if !matches!(attr.base, Base::Choice(_)) {
            self.charge_beside(&value)?;
        }
        value
    }

    fn test(&mut self, attr: &'a Attr) -> Outcome<'a> {
        let value = stopping(self.attr(attr))?;
        if matches!(attr.base, Base::Choice(_)) {
            // Compat: upstream takes back a charge that a choice never got.
            self.cost = self.cost.saturating_sub(1);
        }
        match value? {
            Val::Optional(value) => Ok(Val::Bool(value.is_some())),
            value => Ok(value),
        }
    }

    fn in_set(&mut self, value: &'a Node, set: &'a [Val<'static>]) -> Outcome<'a> {
        let value = self.eval(value)?;
        Ok(Val::Bool(set.iter().any(|item| matches!(equal(item, &value), Ok(true)))))
    }

    fn or_else(&mut self, one: &'a Node, two: &'a Node, unwrap: bool) -> Outcome<'a> {
        match self.eval(one)? {
            Val::Optional(Some(value)) if unwrap => Ok((*value).clone()),
            Val::Optional(Some(value)) => Ok(Val::Optional(Some(value))),
            Val::Optional(None) => self.eval(two),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Charges one for a part whose outcome is already known. The end of the budget found there stays the outcome.
    fn charge_beside(&mut self, outcome: &Outcome<'a>) -> Result<(), EvalError> {
        match outcome {
            Err(error) if error.is_over_budget() => Err(error.clone()),
            _ => self.charge(1),
        }
    }

    fn logic(&mut self, terms: &'a [Node], decisive: bool) -> Outcome<'a> {
        let mut problem = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => problem = problem.or_else(|| Some(EvalError::no_such_overload())),
                Err(error) if error.is_over_budget() => return Err(error),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        problem.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn equality(&mut self, one: &'a Node, two: &'a Node, negate: bool) -> Outcome<'a> {
        let one = stopping(self.eval(one))?;
        let two = stopping(self.eval(two))?;
        let null = Val::Null;
        let (first, second) = (one.as_ref().unwrap_or(&null), two.as_ref().unwrap_or(&null));
        self.charge(equality(first, second, negate))?;
        let (one, two) = (one?, two?);
        match equal(&one, &two) {
            Ok(same) => Ok(Val::Bool(same != negate)),
            // What cannot be compared is not equal, but only `!=` says so.
            Err(_) if negate => Ok(Val::Bool(true)),
            Err(error) => Err(error),
        }
    }

    // === selections ===

    fn attr(&mut self, attr: &'a Attr) -> Outcome<'a> {
        let value = match &attr.base {
            Base::Var(name) => self.bindings.get(name)?,
            Base::Local(slot) => self.local(*slot)?,
            Base::Value(node) => self.eval(node)?,
            Base::Choice(choice) => match self.eval(&choice.0)? {
                Val::Bool(true) => self.attr(&choice.1)?,
                Val::Bool(false) => self.attr(&choice.2)?,
                _ => return Err(EvalError::no_such_overload()),
            },
        };
        if attr.quals.is_empty() { Ok(value) } else { self.steps(value, &attr.quals) }
    }

    fn local(&mut self, slot: usize) -> Outcome<'a> {
        match &self.slots[slot] {
            Slot::Ready(value) => value.clone(),
            Slot::Lazy(init) => {
                let value = match *init {
                    Some(node) => self.eval(node),
                    None => Err(EvalError::new("no such attribute(s)")),
                };
                self.slots[slot] = Slot::Ready(value.clone());
                value
            }
        }
    }

    fn steps(&mut self, value: Val<'a>, quals: &'a [Qual]) -> Outcome<'a> {
        let mut optional = false;
        let mut value = match value {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => {
                optional = true;
                (*inner).clone()
            }
            value => value,
        };
        for qual in quals {
            optional |= qual.optional;
            let found = stopping(self.step(&value, qual))?;
            // A step that is not there costs nothing where it may be absent.
            if matches!(found, Ok(Some(_))) || !optional || qual.test {
                self.charge(1)?;
            }
            match found? {
                Some(_) if qual.test => value = Val::Bool(true),
                None if qual.test && !optional => value = Val::Bool(false),
                Some(next) => value = next,
                None if optional => return Ok(Val::Optional(None)),
                None => return Err(self.missing(&value, qual)),
            }
        }
        Ok(if optional { Val::some(value) } else { value })
    }

    /// The value a step leads to, if it is there.
    fn step(&mut self, value: &Val<'a>, qual: &'a Qual) -> Result<Option<Val<'a>>, EvalError> {
        let key = match &qual.step {
            Step::Field { ident, name } => {
                return match (value, name) {
                    (Val::Map(map @ Map::Object(..)), Some(name)) => map.named(name).transpose(),
                    (Val::Map(Map::Object(..)), None) => Ok(None),
                    (Val::Map(map), _) => map.get(ident),
                    (value, _) => index(value, ident, qual.test || qual.optional),
                };
            }
            Step::Const(key) => return index(value, key, qual.optional),
            Step::Attr(attr) => self.attr(attr)?,
            Step::Node(node) => self.eval(node)?,
        };
        if !is_key(&key) {
            return Err(EvalError::new(format!("invalid qualifier type: {}", key.go_name())));
        }
        match index(value, &key, qual.optional)? {
            None if !qual.optional => Err(missing_key(value, &key)),
            found => Ok(found),
        }
    }

    fn missing(&self, value: &Val<'a>, qual: &'a Qual) -> EvalError {
        match &qual.step {
            Step::Field { ident, .. } => missing_key(value, ident),
            Step::Const(key) => missing_key(value, key),
            Step::Attr(_) | Step::Node(_) => EvalError::new("no such key"),
        }
    }

    // === calls ===

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        match call.args.as_slice() {
            [one] if call.lenient => self.not_strictly_false(one),
            [one] => self.call_one(call, one),
            [one, two] if !call.stepwise => self.call_two(call, one, two),
            many => self.call_many(call, many),
        }
    }

    /// An error counts as true: it may yet be absorbed.
    fn not_strictly_false(&mut self, one: &'a Node) -> Outcome<'a> {
        let one = stopping(self.eval(one))?;
        self.charge(1)?;
        Ok(one.unwrap_or(Val::Bool(true)))
    }

    fn call_one(&mut self, call: &'a Call, one: &'a Node) -> Outcome<'a> {
        let one = stopping(self.eval(one))?;
        self.finish(call, [one])
    }

    fn call_two(&mut self, call: &'a Call, one: &'a Node, two: &'a Node) -> Outcome<'a> {
        let one = stopping(self.eval(one))?;
        let two = stopping(self.eval(two))?;
        self.finish(call, [one, two])
    }

    /// Calls if all arguments have values; charges in any case.
    fn finish<const N: usize>(&mut self, call: &'a Call, args: [Outcome<'a>; N]) -> Outcome<'a> {
        let mut problem = None;
        let args = args.map(|arg| match arg {
            Ok(value) => value,
            Err(error) => {
                problem.get_or_insert(error);
                Val::Null
            }
        });
        let outcome = match problem {
            None => self.apply(call, &args),
            Some(error) => Err(error),
        };
        self.charge(call.rule.cost(&args, &outcome))?;
        outcome
    }

    fn call_many(&mut self, call: &'a Call, many: &'a [Node]) -> Outcome<'a> {
        let mut args = Vec::with_capacity(many.len());
        for (index, arg) in many.iter().enumerate() {
            match stopping(self.eval(arg))? {
                Ok(value) => args.push(value),
                Err(error) => {
                    // The call itself is charged only once all its arguments were looked at.
                    if index + 1 == many.len() {
                        args.push(Val::Null);
                        self.charge(call.rule.cost(&args, &Err(error.clone())))?;
                    }
                    return Err(error);
                }
            }
        }
        let outcome = self.apply(call, &args);
        self.charge(call.rule.cost(&args, &outcome))?;
        outcome
    }

    fn apply(&mut self, call: &'a Call, args: &[Val<'a>]) -> Outcome<'a> {
        let outcome = match &call.op {
            Op::Native(native) => {
                // What would cost more than is left is not even begun.
                let before = call.rule.cost_before(args);
                if self.cost.saturating_add(before) > self.limit {
                    self.charge(before)?;
                }
                native(args)
            }
            Op::Matches(regex) => library::pattern::matches(args, regex),
            Op::Find(regex) => library::pattern::find(args, regex),
            Op::FindAll(regex) => library::pattern::find_all(args, regex),
        };
        outcome.map_err(|error| match (&call.op, error.is_overload_mismatch()) {
            (Op::Native(_), true) => library::no_overload(&call.function, args),
            (_, true) => EvalError::no_such_overload(),
            _ => error,
        })
    }

    fn list(&mut self, items: &'a [Node], optional: &[bool]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items.iter().zip(optional) {
            let item = self.part(item, LIST_COST)?;
            match (item, optional) {
                (value, false) => values.push(value),
                (Val::Optional(Some(value)), true) => values.push((*value).clone()),
                (Val::Optional(None), true) => {}
                (value, true) => {
                    self.charge(LIST_COST)?;
                    let text = format!("cannot initialize optional list element from non-optional value {value}");
                    return Err(EvalError::new(text));
                }
            }
        }
        self.charge(LIST_COST)?;
        Ok(Val::list(values))
    }

    /// A part of a list or map; if it fails, the list or map is charged as if it had been made.
    fn part(&mut self, node: &'a Node, cost: u64) -> Outcome<'a> {
        let outcome = stopping(self.eval(node))?;
        if outcome.is_err() {
            self.charge(cost)?;
        }
        outcome
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Outcome<'a> {
        let mut map = Entries::new();
        for (key, value, optional) in entries {
            let key = self.part(key, MAP_COST)?;
            let value = self.part(value, MAP_COST)?;
            let value = match (value, optional) {
                (value, false) => value,
                (Val::Optional(Some(value)), true) => (*value).clone(),
                (Val::Optional(None), true) => {
                    if let Some(key) = Key::of(&key) {
                        map.remove(&key);
                    }
                    continue;
                }
                (value, true) => {
                    self.charge(MAP_COST)?;
                    let text = format!("cannot initialize optional entry '{key}' from non-optional value {value}");
                    return Err(EvalError::new(text));
                }
            };
            let slot =
                Key::of(&key).ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
            map.insert(slot, (key, value));
        }
        self.charge(MAP_COST)?;
        Ok(Val::Map(Map::Values(Arc::new(map))))
    }
}

/// Separates the end of the budget, which ends everything, from errors of the language.
fn stopping<T>(outcome: Result<T, EvalError>) -> Result<Result<T, EvalError>, EvalError> {
    match outcome {
        Err(error) if error.is_over_budget() => Err(error),
        outcome => Ok(outcome),
    }
}

/// Whether a value can be a key or an index at all.
pub(crate) fn is_key(value: &Val<'_>) -> bool {
    matches!(value, Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_))
}

/// The value under a key or index; absent is no error here.
fn index<'a>(value: &Val<'a>, key: &Val<'_>, lenient: bool) -> Result<Option<Val<'a>>, EvalError> {
    match value {
        Val::Map(map) => map.get(key),
        Val::List(list) => {
            let index = match key {
                Val::Int(index) => Some(*index),
                Val::Uint(index) => i64::try_from(*index).ok(),
                Val::Double(index) if index.fract() == 0.0 && index.abs() < 9e18 => Some(*index as i64),
                Val::Double(_) => None,
                other => {
                    let text = format!("unsupported index type '{}' in list", other.type_name());
                    return Err(EvalError::new(text));
                }
            };
            let Some(index) = index else {
                return Err(EvalError::new(format!("unsupported index value {key} in list")));
            };
            match usize::try_from(index).ok().filter(|index| *index < list.len()) {
                Some(index) => list.get(index).map(Some),
                None => Ok(None),
            }
        }
        _ if lenient => Ok(None),
        _ => Err(EvalError::new(format!("no such key: {key}"))),
    }
}

fn missing_key(value: &Val<'_>, key: &Val<'_>) -> EvalError {
    match value {
        Val::List(_) => EvalError::new(format!("index out of bounds: {key}")),
        _ => EvalError::new(format!("no such key: {key}")),
    }
}
