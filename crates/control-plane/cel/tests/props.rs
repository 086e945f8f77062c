//! Properties of every input: nothing panics, every evaluation ends within its budget, and what was checked does
//! not meet a type it cannot handle.
use proptest::prelude::*;
use seaworthy_cel::{Bindings, CostBudget, Decl, Env, EvalError, Sizes, Val};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string", "maxLength": 10},
        "b": {"type": "boolean"}, "absent": {"type": "string"},
        "ints": {"type": "array", "items": {"type": "integer"}},
        "words": {"type": "array", "maxItems": 5, "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"}, "span": {"type": "string", "format": "duration"}
    }})
}

fn data() -> Value {
    json!({
        "n": 3, "d": 0.5, "s": "hello", "b": true, "ints": [3, -1, 2], "words": ["a", "bc"], "labels": {"app": "web"},
        "at": "2024-02-29T12:00:00Z", "span": "90s"
    })
}

/// Builds expressions from a row of choices: where the row ends, the simplest choice is taken.
struct Choices<'c> {
    bytes: &'c [u8],
    names: Vec<(String, ValueKind)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum ValueKind {
    Int,
    Double,
    Text,
    Bool,
    Ints,
    Words,
    Labels,
    Maybe,
    Time,
    Span,
}

impl Choices<'_> {
    fn pick(&mut self, count: usize) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first) % count
            }
            None => 0,
        }
    }

    fn one(&mut self, options: &[&str]) -> String {
        let index = self.pick(options.len());
        options[index].to_owned()
    }

    fn leaf(&mut self, kind: ValueKind) -> String {
        let named: Vec<String> =
            self.names.iter().filter(|(_, of)| *of == kind).map(|(name, _)| name.clone()).collect();
        if !named.is_empty() && self.pick(2) == 1 {
            let index = self.pick(named.len());
            return named[index].clone();
        }
        match kind {
            ValueKind::Int => self.one(&["1", "self.n", "0", "-7", "9223372036854775807", "size(self.words)"]),
            ValueKind::Double => self.one(&["1.5", "self.d", "0.0"]),
            ValueKind::Text => self.one(&["'a'", "self.s", "''", "self.absent", "'é'", "self.labels.app"]),
            ValueKind::Bool => self.one(&["true", "self.b", "false", "has(self.absent)", "has(self.labels.app)"]),
            ValueKind::Ints => self.one(&["[1, 2]", "self.ints", "lists.range(4)"]),
            ValueKind::Words => self.one(&["['x']", "self.words", "self.s.split('')"]),
            ValueKind::Labels => self.one(&["{'k': 'v'}", "self.labels"]),
            ValueKind::Maybe => self.one(&["optional.of('o')", "self.?absent", "self.labels[?'app']", "self.?s"]),
            ValueKind::Time => self.one(&["self.at", "timestamp('2020-01-01T00:00:00Z')"]),
            ValueKind::Span => self.one(&["self.span", "duration('1h')"]),
        }
    }

    fn name(&mut self) -> String {
        format!("v{}", self.names.len())
    }

    /// `range.macro(name, body)` with the name usable in the body.
    fn walk(&mut self, range: String, of: ValueKind, call: &str, body: ValueKind, depth: usize) -> String {
        let name = self.name();
        self.names.push((name.clone(), of));
        let body = self.expr(body, depth);
        self.names.pop();
        format!("{range}.{call}({name}, {body})")
    }

    fn expr(&mut self, kind: ValueKind, depth: usize) -> String {
        if depth == 0 || self.bytes.is_empty() {
            return self.leaf(kind);
        }
        let d = depth - 1;
        if self.pick(8) == 7 {
            let (c, a, b) = (self.expr(ValueKind::Bool, d), self.expr(kind, d), self.expr(kind, d));
            return format!("({c} ? {a} : {b})");
        }
        match kind {
            ValueKind::Int => match self.pick(7) {
                0 => self.leaf(kind),
                1 | 2 => {
                    let op = self.one(&["+", "-", "*", "/", "%"]);
                    let (a, b) = (self.expr(kind, d), self.expr(kind, d));
                    format!("({a} {op} {b})")
                }
                3 => {
                    let list = self.expr(ValueKind::Ints, d);
                    let call = self.one(&["sum", "min", "max"]);
                    format!("{list}.{call}()")
                }
                4 => format!("size({})", self.expr(ValueKind::Text, d)),
                5 => {
                    let (list, index) = (self.expr(ValueKind::Ints, d), self.expr(ValueKind::Int, d));
                    format!("{list}[{index}]")
                }
                _ => format!("int({})", self.expr(ValueKind::Double, d)),
            },
            ValueKind::Double => format!("double({})", self.expr(ValueKind::Int, d)),
            ValueKind::Text => match self.pick(8) {
                0 => self.leaf(kind),
                1 => {
                    let (a, b) = (self.expr(kind, d), self.expr(kind, d));
                    format!("({a} + {b})")
                }
                2 => {
                    let call = self.one(&["lowerAscii()", "trim()", "substring(1)", "replace('a', 'bb')"]);
                    format!("{}.{call}", self.expr(kind, d))
                }
                3 => format!("{}.join('-')", self.expr(ValueKind::Words, d)),
                4 => {
                    let (a, b) = (self.expr(ValueKind::Maybe, d), self.expr(kind, d));
                    format!("{a}.orValue({b})")
                }
                5 => {
                    let (map, key) = (self.expr(ValueKind::Labels, d), self.expr(kind, d));
                    format!("{map}[{key}]")
                }
                6 => format!("'%s!'.format([{}])", self.expr(ValueKind::Int, d)),
                _ => format!("string({})", self.expr(ValueKind::Span, d)),
            },
            ValueKind::Bool => self.truth(d),
            ValueKind::Ints => match self.pick(4) {
                0 => self.leaf(kind),
                1 => {
                    let range = self.expr(ValueKind::Ints, d);
                    self.walk(range, ValueKind::Int, "map", ValueKind::Int, d)
                }
                2 => {
                    let range = self.expr(ValueKind::Ints, d);
                    self.walk(range, ValueKind::Int, "filter", ValueKind::Bool, d)
                }
                _ => {
                    let call = self.one(&["sort", "reverse", "distinct"]);
                    format!("{}.{call}()", self.expr(kind, d))
                }
            },
            ValueKind::Words => {
                let range = self.expr(ValueKind::Words, d);
                self.walk(range, ValueKind::Text, "map", ValueKind::Text, d)
            }
            ValueKind::Labels => {
                let (key, value) = (self.expr(ValueKind::Text, d), self.expr(ValueKind::Text, d));
                format!("{{{key}: {value}}}")
            }
            ValueKind::Maybe => {
                let of = self.expr(kind, d);
                self.walk(of, ValueKind::Text, "optMap", ValueKind::Text, d)
            }
            ValueKind::Time => {
                let (a, b) = (self.expr(kind, d), self.expr(ValueKind::Span, d));
                format!("({a} + {b})")
            }
            ValueKind::Span => {
                let (a, b) = (self.expr(ValueKind::Time, d), self.expr(ValueKind::Time, d));
                format!("({a} - {b})")
            }
        }
    }

    fn truth(&mut self, d: usize) -> String {
        match self.pick(9) {
            0 => self.leaf(ValueKind::Bool),
            1 => {
                let op = self.one(&["&&", "||"]);
                let (a, b) = (self.expr(ValueKind::Bool, d), self.expr(ValueKind::Bool, d));
                format!("({a} {op} {b})")
            }
            2 => format!("!{}", self.expr(ValueKind::Bool, d)),
            3 | 4 => {
                let kinds = [
                    ValueKind::Int,
                    ValueKind::Text,
                    ValueKind::Double,
                    ValueKind::Time,
                    ValueKind::Span,
                    ValueKind::Bool,
                ];
                let kind = kinds[self.pick(kinds.len())];
                let op = self.one(&["<", "<=", "==", "!=", ">"]);
                let (a, b) = (self.expr(kind, d), self.expr(kind, d));
                format!("({a} {op} {b})")
            }
            5 => {
                let range = self.expr(ValueKind::Ints, d);
                let call = self.one(&["all", "exists", "exists_one"]);
                self.walk(range, ValueKind::Int, &call, ValueKind::Bool, d)
            }
            6 => {
                let range = self.expr(ValueKind::Labels, d);
                self.walk(range, ValueKind::Text, "all", ValueKind::Bool, d)
            }
            7 => {
                let (a, b) = (self.expr(ValueKind::Text, d), self.expr(ValueKind::Words, d));
                format!("({a} in {b})")
            }
            _ => {
                let call = self.one(&["startsWith('h')", "matches('^[a-z]+$')", "contains('l')"]);
                format!("{}.{call}", self.expr(ValueKind::Text, d))
            }
        }
    }
}

const KINDS: [ValueKind; 10] = [
    ValueKind::Bool,
    ValueKind::Int,
    ValueKind::Double,
    ValueKind::Text,
    ValueKind::Ints,
    ValueKind::Words,
    ValueKind::Labels,
    ValueKind::Maybe,
    ValueKind::Time,
    ValueKind::Span,
];

fn expression() -> impl Strategy<Value = String> {
    (0..KINDS.len(), prop::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(kind, bytes)| Choices { bytes: &bytes, names: Vec::new() }.expr(KINDS[kind], 5))
}

/// Pieces of expressions in any order: mostly not expressions, but close to them.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "self",
        ".",
        "n",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "!",
        "&&",
        "||",
        "==",
        "<",
        "in",
        "1",
        "0x",
        "1.5",
        "1u",
        "'a'",
        "\"",
        "'''",
        "b'",
        "r'",
        "\\",
        "`",
        "has",
        "all",
        "map",
        "x",
        "size",
        "true",
        "null",
        "//",
        "\n",
        " ",
        "é",
        "#",
        "@",
        "optional.of",
        "format",
        "%s",
        "matches",
        "9999999999999999999999",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn same_type(value: &Val<'_>, program: &seaworthy_cel::Program) -> bool {
    use seaworthy_cel::Type;
    matches!(
        (value, program.result_type()),
        (Val::Bool(_), Type::Bool)
            | (Val::Int(_), Type::Int)
            | (Val::Double(_), Type::Double)
            | (Val::String(_), Type::String)
            | (Val::List(_), Type::List(_))
            | (Val::Map(_), Type::Map(_))
            | (Val::Optional(_), Type::Optional(_))
            | (Val::Timestamp(_), Type::Timestamp)
            | (Val::Duration(_), Type::Duration)
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let env = Env::new().with("self", Decl::from_schema(&schema(), "t", false).unwrap().ty());
        if let Err(errors) = env.compile(&text) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }

    #[test]
    fn pieces_of_expressions_are_read_or_refused(text in soup()) {
        let decl = Decl::from_schema(&schema(), "t", false).unwrap();
        let env = Env::new().with("self", decl.ty());
        match env.compile(&text) {
            Ok(program) => {
                let data = data();
                let bindings = Bindings::new().with("self", Val::bind(&data, &decl));
                let _ = program.estimate(&Sizes::of(&decl));
                let _ = program.evaluate(&bindings, &mut CostBudget::new(1000, 1000));
            }
            Err(errors) => prop_assert!(!errors.to_string().is_empty()),
        }
    }

    #[test]
    fn what_was_checked_fits_when_evaluated(text in expression()) {
        let decl = Decl::from_schema(&schema(), "t", false).unwrap();
        let data = data();
        let program = match Env::new().with("self", decl.ty()).compile(&text) {
            Ok(program) => program,
            Err(errors) => {
                // A constant part that always fails is the only reason to refuse these.
                prop_assert!(errors.is_instantiation(), "{text}: {errors}");
                return Ok(());
            }
        };
        let bindings = Bindings::new().with("self", Val::bind(&data, &decl));
        let mut budget = CostBudget::for_object();
        match program.evaluate(&bindings, &mut budget) {
            Ok(value) => prop_assert!(same_type(&value, &program), "{text} gave {value:?}"),
            Err(error) => prop_assert!(!error.message().starts_with("no such overload"), "{text}: {error}"),
        }
        // The estimate is made for data within the schema's limits, and this data is.
        let estimate = program.estimate(&Sizes::of(&decl));
        prop_assert!(estimate.min <= estimate.max);
    }

    #[test]
    fn no_evaluation_costs_more_than_its_budget_by_more_than_one_step(text in expression(), limit in 0u64..200) {
        let decl = Decl::from_schema(&schema(), "t", false).unwrap();
        let data = data();
        let Ok(program) = Env::new().with("self", decl.ty()).compile(&text) else { return Ok(()) };
        let bindings = Bindings::new().with("self", Val::bind(&data, &decl));
        let mut budget = CostBudget::new(limit, limit);
        let outcome = program.evaluate(&bindings, &mut budget);
        prop_assert_eq!(outcome.as_ref().is_err_and(EvalError::is_over_budget), budget.last() > limit);
    }
}

/// The stack of an executor's worker; unoptimized frames are three times as large as those that ship.
const STACK: usize = if cfg!(debug_assertions) { 6 << 20 } else { 2 << 20 };

/// Runs on a thread with a worker's stack.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_expressions_are_refused_before_the_stack_ends() {
    on_a_small_stack(|| {
        let env = Env::new();
        let nested = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
        assert!(env.compile(&nested(249)).is_ok());
        let refused = env.compile(&nested(250)).unwrap_err().to_string();
        assert_eq!(refused, "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
        assert!(env.compile(&nested(50_000)).is_err());
        let sum = |count: usize| vec!["1"; count].join("+");
        let program = env.compile(&sum(251)).unwrap();
        assert!(matches!(program.evaluate(&Bindings::new(), &mut CostBudget::for_object()), Ok(Val::Int(251))));
        let refused = env.compile(&sum(252)).unwrap_err().to_string();
        assert_eq!(refused, "ERROR: <input>:-1:0: max recursion depth exceeded");
    });
}

#[test]
fn deep_macros_fit_the_stack() {
    on_a_small_stack(|| {
        let env = Env::new();
        let nested = |count: usize| {
            let open: String = (0..count).map(|index| format!("[1].map(v{index}, ")).collect();
            format!("{open}1{}", ")".repeat(count))
        };
        let program = env.compile(&nested(90)).unwrap();
        let _ = program.estimate(&Sizes::unknown());
        assert!(program.evaluate(&Bindings::new(), &mut CostBudget::for_object()).is_ok());
        for count in [150, 249, 5000] {
            assert!(env.compile(&nested(count)).is_err());
        }
    });
}

#[test]
fn long_chains_are_flat() {
    on_a_small_stack(|| {
        let env = Env::new();
        let program = env.compile(&vec!["true"; 15_000].join("&&")).unwrap();
        assert!(matches!(program.evaluate(&Bindings::new(), &mut CostBudget::for_object()), Ok(Val::Bool(true))));
        assert!(env.compile(&"a".repeat(100_001)).is_err());
        assert!(env.compile(&format!("{}true", "!".repeat(50_000))).is_ok());
    });
}
