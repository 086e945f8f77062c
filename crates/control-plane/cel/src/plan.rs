//! Planner: turns a checked expression into the tree that is evaluated: names become slots, constants are folded,
//! patterns are compiled.
//!
//! The shapes here decide what an evaluation costs, and the costs are those of the Kubernetes API server to the unit:
//! a chain of selections is one [`Attr`], which costs one for its start and one for every step, and the branches of a
//! conditional cost nothing for their starts.

use regex::Regex;

use crate::ast::{ACCU, Expr, ExprKind, Fold};
use crate::check::Checked;
use crate::collection::{Entries, Key, Map};
use crate::cost::runtime::Rule;
use crate::escape::unescape;
use crate::eval::is_key;
use crate::library::{self, Native, pattern};
use crate::program::Program;
use crate::value::Val;

#[derive(Debug)]
pub(crate) enum Node {
    Const(Val<'static>),
    Attr(Attr),
    /// `has(…)`: the last step only asks.
    Test(Attr),
    And(Vec<Node>),
    Or(Vec<Node>),
    Equal {
        one: Box<Node>,
        two: Box<Node>,
        negate: bool,
    },
    /// `in` with constants on the right.
    InSet(Box<Node>, Vec<Val<'static>>),
    Call(Box<Call>),
    List {
        items: Vec<Node>,
        optional: Vec<bool>,
    },
    Map {
        entries: Vec<(Node, Node, bool)>,
    },
    Fold(Box<FoldNode>),
    /// The accumulator with a list's items added in place.
    Append {
        slot: usize,
        items: Box<Node>,
    },
    /// The accumulator with entries added in place.
    Insert {
        slot: usize,
        args: Vec<Node>,
    },
    /// `or` and `orValue`: the right side is evaluated only when needed.
    OrElse {
        one: Box<Node>,
        two: Box<Node>,
        unwrap: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Call {
    pub function: Box<str>,
    pub op: Op,
    pub args: Vec<Node>,
    pub rule: Rule,
    /// Whether an argument's error is seen only by the function: it decides itself.
    pub lenient: bool,
    /// Whether evaluation stops at the first argument that fails.
    pub stepwise: bool,
}

#[derive(Debug)]
pub(crate) enum Op {
    Native(Native),
    Matches(Regex),
    Find(Regex),
    FindAll(Regex),
}

#[derive(Debug)]
pub(crate) struct Attr {
    pub base: Base,
    pub quals: Vec<Qual>,
}

#[derive(Debug)]
pub(crate) enum Base {
    Var(String),
    Local(usize),
    Value(Box<Node>),
    Choice(Box<(Node, Attr, Attr)>),
}

/// One step of a selection.
#[derive(Debug)]
pub(crate) struct Qual {
    pub step: Step,
    /// `.?` or `[?]`: absent is none.
    pub optional: bool,
    /// `has(…)`: only whether it is there.
    pub test: bool,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// The name as written and as data writes it, if it can be unescaped.
    Field {
        ident: Val<'static>,
        name: Option<String>,
    },
    Const(Val<'static>),
    Attr(Attr),
    Node(Node),
}

#[derive(Debug)]
pub(crate) struct FoldNode {
    pub range: Node,
    pub accu: usize,
    pub var: usize,
    pub var2: Option<usize>,
    pub init: Node,
    pub condition: Node,
    pub step: Node,
    pub result: Node,
}

/// The program of a checked expression, or why a constant part of it always fails.
pub(crate) fn plan(checked: Checked) -> Result<Program, String> {
    let mut planner = Planner { checked: &checked, locals: Vec::new(), slots: 0 };
    let root = planner.node(&checked.expr)?;
    let slots = planner.slots;
    Ok(Program::new(checked, root, slots))
}

/// Whether the expression refers to a variable of the environment.
pub(crate) fn mentions(expr: &Expr, variable: &str) -> bool {
    let all = |exprs: &[&Expr]| exprs.iter().any(|expr| mentions(expr, variable));
    match &expr.kind {
        ExprKind::Ident(name) => name.trim_start_matches('.') == variable,
        ExprKind::Broken | ExprKind::Literal(_) | ExprKind::Message { .. } => false,
        ExprKind::Select { operand, .. } => mentions(operand, variable),
        ExprKind::Call { target, args, .. } => {
            target.iter().map(|target| &**target).chain(args).any(|expr| mentions(expr, variable))
        }
        ExprKind::List { items, .. } => items.iter().any(|item| mentions(item, variable)),
        ExprKind::Map(entries) => entries.iter().any(|entry| all(&[&entry.key, &entry.value])),
        ExprKind::Fold(fold) => {
            let inner = [&fold.condition, &fold.step];
            // A loop variable of that name hides the variable from what is inside the loop.
            let hidden = fold.var == variable || fold.var2.as_deref() == Some(variable) || fold.accu == variable;
            all(&[&fold.range, &fold.init])
                || !hidden && all(&inner)
                || fold.accu != variable && mentions(&fold.result, variable)
        }
    }
}

struct Planner<'c> {
    checked: &'c Checked,
    locals: Vec<(String, usize)>,
    slots: usize,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, String> {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(Node::Const(value.clone())),
            ExprKind::Ident(name) => self.ident(expr, name),
            ExprKind::Select { operand, field, test } => {
                let mut attr = self.attr(operand)?;
                let name = unescape(field);
                attr.push(&mut || Qual {
                    step: Step::Field { ident: Val::string(field.as_str()), name: name.clone() },
                    optional: false,
                    test: *test,
                });
                Ok(if *test { Node::Test(attr) } else { Node::Attr(attr) })
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { items, optional } => self.list(items, optional),
            ExprKind::Map(entries) => {
                let mut planned = Vec::with_capacity(entries.len());
                for entry in entries {
                    planned.push((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional));
                }
                Ok(constant_map(&planned).unwrap_or(Node::Map { entries: planned }))
            }
            ExprKind::Fold(fold) => self.fold(fold),
            ExprKind::Broken | ExprKind::Message { .. } => Err("unsupported expression".to_owned()),
        }
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Result<Node, String> {
        let base = match name.strip_prefix('.') {
            None => match self.locals.iter().rev().find(|(local, _)| local == name) {
                Some((_, slot)) => Base::Local(*slot),
                None => Base::Var(name.to_owned()),
            },
            Some(name) => Base::Var(name.to_owned()),
        };
        if let (Base::Var(_), Some(ty)) = (&base, self.checked.type_names.get(&expr.id)) {
            return match ty.as_str() {
                "timestamp" | "duration" => Err(format!("reference to undefined type: {ty}")),
                ty => Ok(Node::Const(Val::Type(ty.to_owned().into()))),
            };
        }
        Ok(Node::Attr(Attr { base, quals: Vec::new() }))
    }

    /// The operand of a selection as something steps can be added to.
    fn attr(&mut self, expr: &Expr) -> Result<Attr, String> {
        Ok(into_attr(self.node(expr)?))
    }

    fn list(&mut self, items: &[Expr], optional: &[bool]) -> Result<Node, String> {
        let items = items.iter().map(|item| self.node(item)).collect::<Result<Vec<_>, _>>()?;
        if !optional.contains(&true) && items.iter().all(|item| matches!(item, Node::Const(_))) {
            let values = items.into_iter().filter_map(|item| match item {
                Node::Const(value) => Some(value),
                _ => None,
            });
            return Ok(Node::Const(Val::list(values.collect())));
        }
        Ok(Node::List { items, optional: optional.to_vec() })
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Result<Node, String> {
        match function {
            "_?_:_" => return self.choice(args),
            "_[_]" | "_[?_]" | "_?._" => return self.index(args, function != "_[_]"),
            _ => {}
        }
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            planned.push(self.node(arg)?);
        }
        let overloads = self.checked.overloads(expr);
        let overload = if let [only] = overloads { only } else { "" };
        match (function, planned.len()) {
            ("_&&_", _) => return Ok(Node::And(planned)),
            ("_||_", _) => return Ok(Node::Or(planned)),
            ("_==_" | "_!=_", 2) => {
                let (two, one) = (planned.pop(), planned.pop());
                if let (Some(one), Some(two)) = (one, two) {
                    return Ok(Node::Equal { one: one.into(), two: two.into(), negate: function == "_!=_" });
                }
            }
            ("or" | "orValue", 2) => {
                let (two, one) = (planned.pop(), planned.pop());
                if let (Some(one), Some(two)) = (one, two) {
                    return Ok(Node::OrElse { one: one.into(), two: two.into(), unwrap: function == "orValue" });
                }
            }
            ("@in", 2) if overload == "in_list" => {
                if let Some(values) = set_of(&planned[1]) {
                    if values.is_empty() {
                        return Ok(Node::Const(Val::Bool(false)));
                    }
                    return Ok(Node::InSet(Box::new(planned.swap_remove(0)), values));
                }
            }
            _ => {}
        }
        let native = match function {
            "sum" => library::lists::sum_of(overload),
            _ => library::find(function).ok_or_else(|| format!("no such overload: {function}"))?,
        };
        const CONVERSIONS: [&str; 10] =
            ["int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration", "type", "dyn"];
        if let [Node::Const(value)] = planned.as_slice()
            && CONVERSIONS.contains(&function)
        {
            let args = std::slice::from_ref(value);
            let value = native(args).map_err(|error| match error.is_overload_mismatch() {
                true => library::no_overload(function, args).to_string(),
                false => error.to_string(),
            })?;
            return Ok(Node::Const(value));
        }
        let op = match (function, planned.get(1)) {
            ("matches" | "find" | "findAll", Some(Node::Const(Val::String(text)))) => {
                let regex = pattern::compile(text)?;
                match function {
                    "matches" => Op::Matches(regex),
                    "find" => Op::Find(regex),
                    _ => Op::FindAll(regex),
                }
            }
            _ => Op::Native(native),
        };
        let rule = Rule::of(function, overload);
        let lenient = function == "@not_strictly_false";
        // A call that is dispatched only when evaluated looks at its arguments one by one, as do some others.
        let dispatched = overload.is_empty() && function.starts_with(|c: char| c.is_ascii_alphabetic());
        let stepwise = planned.len() > 2 || dispatched || function == "format" || !matches!(op, Op::Native(_));
        Ok(Node::Call(Box::new(Call { function: function.into(), op, args: planned, rule, lenient, stepwise })))
    }

    fn choice(&mut self, args: &[Expr]) -> Result<Node, String> {
        let [condition, yes, no] = args else { return Err("unsupported expression".to_owned()) };
        let condition = self.node(condition)?;
        let (yes, no) = (self.attr(yes)?, self.attr(no)?);
        Ok(Node::Attr(Attr { base: Base::Choice(Box::new((condition, yes, no))), quals: Vec::new() }))
    }

    fn index(&mut self, args: &[Expr], optional: bool) -> Result<Node, String> {
        let [operand, index] = args else { return Err("unsupported expression".to_owned()) };
        let mut attr = self.attr(operand)?;
        // A choice takes the step on both of its branches, and then plans the index for each.
        let mut problem = None;
        attr.push(&mut || {
            let step = match self.node(index) {
                Ok(Node::Const(value)) => {
                    if !is_key(&value) {
                        problem = Some(format!("invalid qualifier type: {}", value.go_name()));
                    }
                    Step::Const(value)
                }
                Ok(Node::Attr(attr) | Node::Test(attr)) => Step::Attr(attr),
                Ok(node) => Step::Node(node),
                Err(error) => {
                    problem = Some(error);
                    Step::Const(Val::Null)
                }
            };
            Qual { step, optional, test: false }
        });
        problem.map_or(Ok(Node::Attr(attr)), Err)
    }

    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn fold(&mut self, fold: &Fold) -> Result<Node, String> {
        let init = self.node(&fold.init)?;
        let range = self.node(&fold.range)?;
        let outside = self.locals.len();
        let accu = self.slot();
        self.locals.push((fold.accu.clone(), accu));
        let var = self.slot();
        self.locals.push((fold.var.clone(), var));
        let mut second = None;
        if let Some(name) = &fold.var2 {
            let slot = self.slot();
            self.locals.push((name.clone(), slot));
            second = Some(slot);
        }
        let condition = self.node(&fold.condition)?;
        let mut step = self.node(&fold.step)?;
        if fold.accu == ACCU {
            in_place(&mut step, accu);
        }
        self.locals.truncate(outside + 1);
        let result = self.node(&fold.result)?;
        self.locals.truncate(outside);
        Ok(Node::Fold(Box::new(FoldNode { range, accu, var, var2: second, init, condition, step, result })))
    }
}

impl Attr {
    fn push(&mut self, qual: &mut dyn FnMut() -> Qual) {
        match &mut self.base {
            Base::Choice(choice) if self.quals.is_empty() => {
                choice.1.push(qual);
                choice.2.push(qual);
            }
            _ => self.quals.push(qual()),
        }
    }
}

fn into_attr(node: Node) -> Attr {
    match node {
        Node::Attr(attr) | Node::Test(attr) => attr,
        node => Attr { base: Base::Value(Box::new(node)), quals: Vec::new() },
    }
}

/// The constants of a list, when membership in it is a lookup.
fn set_of(list: &Node) -> Option<Vec<Val<'static>>> {
    let Node::Const(Val::List(list)) = list else { return None };
    let values = list.values().ok()?;
    let simple = |value: &Val<'_>| {
        matches!(value, Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_) | Val::Null)
    };
    values.iter().all(simple).then_some(values)
}

fn constant_map(entries: &[(Node, Node, bool)]) -> Option<Node> {
    let mut map = Entries::new();
    for (key, value, optional) in entries {
        let (Node::Const(key), Node::Const(value), false) = (key, value, *optional) else { return None };
        map.insert(Key::of(key)?, (key.clone(), value.clone()));
    }
    Some(Node::Const(Val::Map(Map::Values(map.into()))))
}

/// Lets the step of a gathering fold add to the accumulator where it is instead of to a copy.
fn in_place(step: &mut Node, accu: usize) {
    if let Node::Attr(Attr { base: Base::Choice(choice), .. }) = step {
        if let Base::Value(node) = &mut choice.1.base {
            in_place(node, accu);
        }
        return;
    }
    let Node::Call(call) = step else { return };
    let reads_accu = matches!(
        call.args.first(),
        Some(Node::Attr(Attr { base: Base::Local(slot), quals })) if *slot == accu && quals.is_empty()
    );
    if !reads_accu {
        return;
    }
    match (call.rule, call.args.len()) {
        (Rule::AddList, 2) => {
            if let Some(items) = call.args.pop() {
                *step = Node::Append { slot: accu, items: Box::new(items) };
            }
        }
        (Rule::MapInsert, _) => {
            let args = call.args.drain(1..).collect();
            *step = Node::Insert { slot: accu, args };
        }
        _ => {}
    }
}
