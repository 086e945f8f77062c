//! Compares this crate with answers recorded from the Kubernetes API server's own environment (1.37, the functions new
//! expressions may use): problems, types, values, errors, costs and estimates.
use std::collections::BTreeMap;
use std::path::Path;

use seaworthy_cel::{Bindings, CostBudget, Decl, Env, List, Map, Opaque, Sizes, Type, Val};
use serde_json::Value;

/// What a set of cases is about: a schema with data, or variables without one.
struct Fixture {
    decl: Option<Decl>,
    data: Value,
    old: Value,
    optional_old: bool,
    variables: BTreeMap<String, Value>,
    env: Env,
}

impl Fixture {
    fn load(raw: &Value) -> Fixture {
        let root = raw["root"].as_bool().unwrap_or(false);
        let decl = raw.get("schema").map(|schema| Decl::from_schema(schema, "selfType1", root).unwrap());
        let optional_old = raw["optionalOldSelf"].as_bool().unwrap_or(false);
        let mut env = Env::new();
        if raw["stored"].as_bool().unwrap_or(false) {
            env = env.stored();
        }
        if let Some(decl) = &decl {
            let old = if optional_old { Type::optional(decl.ty()) } else { decl.ty() };
            env = env.with("self", decl.ty()).with("oldSelf", old);
        }
        let variables: BTreeMap<String, Value> =
            raw["dyn"].as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
        for name in variables.keys() {
            env = env.with(name, Type::Dyn);
        }
        Fixture { decl, data: raw["data"].clone(), old: raw["old"].clone(), optional_old, variables, env }
    }

    fn bindings(&self) -> Bindings<'_> {
        let mut bindings = Bindings::new();
        if let Some(decl) = &self.decl {
            let old = Val::bind(&self.old, decl);
            let old = if self.optional_old { old.map(Val::some) } else { old };
            bindings = bindings.with("self", Val::bind(&self.data, decl)).with("oldSelf", old);
        }
        for (name, value) in &self.variables {
            bindings = bindings.with(name, Val::dynamic(value));
        }
        bindings
    }
}

/// The text recordings use for a value.
fn render(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => format!("int:{value}"),
        Val::Uint(value) => format!("uint:{value}"),
        // One bit pattern represents every NaN.
        Val::Double(value) if value.is_nan() => "double:7ff8000000000001".to_owned(),
        Val::Double(value) => format!("double:{:016x}", value.to_bits()),
        Val::String(text) => serde_json::to_string(&**text).unwrap(),
        Val::Bytes(bytes) => format!("bytes:{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        Val::Timestamp(time) => format!("timestamp:{time}"),
        Val::Duration(nanos) => format!("duration:{nanos}"),
        Val::Type(name) => format!("type:{name}"),
        Val::Optional(None) => "none".to_owned(),
        Val::Optional(Some(value)) => format!("optional({})", render(value)),
        Val::List(list) => render_list(list),
        Val::Map(map) => render_map(map),
        Val::Opaque(opaque) => match opaque {
            Opaque::Quantity(quantity) => format!("quantity:{}", quantity.to_billionths()),
            Opaque::Url(url) => format!("url:{url}"),
            Opaque::Ip(ip) => format!("ip:{ip}"),
            Opaque::Cidr(cidr) => format!("cidr:{cidr}"),
            Opaque::Semver(version) => format!("semver:{version}"),
            Opaque::Format(format) => format!("format:{}", format.name),
            Opaque::Authz(_) => "authz".to_owned(),
        },
    }
}

fn render_list(list: &List<'_>) -> String {
    let items: Vec<String> =
        list.iter().map(|item| item.map_or_else(|e| e.to_string(), |item| render(&item))).collect();
    format!("[{}]", items.join(", "))
}

fn render_map(map: &Map<'_>) -> String {
    let mut pairs = Vec::new();
    for key in map.keys() {
        let value = match map.get(&key) {
            Ok(Some(value)) => render(&value),
            // Keys of absent values are listed with the error of looking them up.
            Ok(None) => "?*types.Err:error".to_owned(),
            Err(error) => error.to_string(),
        };
        pairs.push(format!("{}: {value}", render(&key)));
    }
    pairs.sort();
    format!("{{{}}}", pairs.join(", "))
}

/// What we answer, in the form of a recording.
fn answer(fixture: &Fixture, expression: &str) -> BTreeMap<&'static str, String> {
    let mut out = BTreeMap::new();
    let program = match fixture.env.compile(expression) {
        Ok(program) => program,
        Err(errors) => {
            let prefix = if errors.is_instantiation() { "program: " } else { "" };
            out.insert("err", format!("{prefix}{errors}"));
            return out;
        }
    };
    out.insert("t", program.result_type().runtime_name());
    let sizes = fixture.decl.as_ref().map_or_else(Sizes::unknown, Sizes::of);
    let estimate = program.estimate(&sizes);
    out.insert("min", estimate.min.to_string());
    out.insert("max", estimate.max.to_string());
    let mut budget = CostBudget::for_object();
    let bindings = fixture.bindings();
    match program.evaluate(&bindings, &mut budget) {
        Ok(value) => out.insert("v", render(&value)),
        Err(error) => out.insert("x", error.to_string()),
    };
    out.insert("c", budget.last().to_string());
    out
}

fn recorded(case: &Value) -> BTreeMap<&'static str, String> {
    let mut out = BTreeMap::new();
    for key in ["err", "t", "v", "x", "c", "min", "max"] {
        if let Some(value) = case.get(key) {
            out.insert(key, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    out
}

/// Cases in which we answer otherwise on purpose, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("in", "after a syntax error reading stops; upstream goes on and reports what follows from it"),
    ("{[1]: 2}", "a list is no key: upstream accepts it but cannot find it again"),
    ("self.spec.ts.getHours('America/New_York')", "no time zone database is built in"),
    (
        "quantity('12345678901234567890').asApproximateFloat()",
        "beyond 64 bits the approximation is rounded once, upstream's twice",
    ),
];

fn load() -> (BTreeMap<String, Fixture>, Vec<Value>) {
    let folder = std::env::var("CEL_RECORDED")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded"), Into::into);
    let fixtures: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("fixtures.json")).unwrap()).unwrap();
    let fixtures = fixtures.as_object().unwrap().iter().map(|(name, raw)| (name.clone(), Fixture::load(raw))).collect();
    let cases = std::fs::read_to_string(folder.join("cases.jsonl")).unwrap();
    (fixtures, cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn answers_are_those_of_the_api_server() {
    let (fixtures, cases) = load();
    let mut differences = Vec::new();
    for case in &cases {
        let expression = case["e"].as_str().unwrap();
        let ours = answer(&fixtures[case["f"].as_str().unwrap()], expression);
        let theirs = recorded(case);
        if let Some((_, reason)) = EXCEPTIONS.iter().find(|(exception, _)| *exception == expression) {
            assert_ne!(ours, theirs, "{expression} is no exception any more ({reason})");
            continue;
        }
        if ours != theirs {
            differences.push((expression, ours, theirs));
        }
    }
    for (expression, ours, theirs) in &differences {
        println!("=== {expression}");
        for key in ["err", "t", "v", "x", "c", "min", "max"] {
            if ours.get(key) != theirs.get(key) {
                println!("  {key}: ours   {}", ours.get(key).map_or("-", |s| s));
                println!("  {key}: theirs {}", theirs.get(key).map_or("-", |s| s));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {} cases differ", differences.len(), cases.len());
}
