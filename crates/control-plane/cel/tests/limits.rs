//! Budgets, estimates over their limit, authorization checks, and what a rule refers to.
use std::sync::Mutex;

use seaworthy_cel::{
    AuthorizationDecision, Authorizer, Bindings, CostBudget, Decl, Env, MAX_COST_PER_CALL, MAX_RULE_COST, Question,
    Sizes, Type, Val, cost_problem,
};
use serde_json::json;

#[test]
fn a_rule_over_an_unbounded_list_of_texts_is_over_its_limit() {
    let schema = json!({"type": "object", "properties": {
        "words": {"type": "array", "items": {"type": "string"}},
        "few": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}}
    }});
    let decl = Decl::from_schema(&schema, "t", false).unwrap();
    let env = Env::new().with("self", decl.ty());
    let most = |text: &str| env.compile(text).unwrap().estimate(&Sizes::of(&decl)).max;
    let unbounded = most("self.words.all(a, self.words.all(b, a == b))");
    assert_eq!(
        cost_problem("estimated rule cost", unbounded, MAX_RULE_COST).unwrap(),
        "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    );
    let bounded = most("self.few.all(a, self.few.all(b, a == b))");
    assert_eq!(cost_problem("estimated rule cost", bounded, MAX_RULE_COST), None);
    let factor = |cost: u64| cost_problem("c", cost, 100).unwrap().split(' ').nth(6).unwrap().to_owned();
    assert_eq!(factor(101), "1.010000x");
    assert_eq!(factor(250), "2.5x");
}

#[test]
fn one_evaluation_stops_at_its_limit_and_all_share_the_budget() {
    let program = Env::new().compile("lists.range(1000).all(x, lists.range(1000).all(y, true))").unwrap();
    let mut budget = CostBudget::for_object();
    let error = program.evaluate(&Bindings::new(), &mut budget).unwrap_err();
    assert!(error.is_over_budget());
    assert_eq!(error.message(), "operation cancelled: actual cost limit exceeded");
    assert!(budget.last() > MAX_COST_PER_CALL && !budget.is_exhausted());
    for _ in 0..10 {
        program.evaluate(&Bindings::new(), &mut budget).unwrap_err();
    }
    assert!(budget.is_exhausted());
    assert_eq!(budget.remaining(), 0);
}

#[test]
fn nothing_absorbs_the_end_of_the_budget() {
    let program = Env::new().compile("lists.range(100).all(x, x >= 0) || true").unwrap();
    let error = program.evaluate(&Bindings::new(), &mut CostBudget::new(50, 1000)).unwrap_err();
    assert!(error.is_over_budget());
}

#[test]
fn what_cannot_be_afforded_is_not_begun() {
    for text in [
        "lists.range(900000).distinct()",
        "sets.contains(lists.range(400000), lists.range(400000))",
        "lists.range(900000) + lists.range(900000)",
    ] {
        let program = Env::new().compile(text).unwrap();
        let error = program.evaluate(&Bindings::new(), &mut CostBudget::for_object()).unwrap_err();
        assert!(error.is_over_budget(), "{text}: {error}");
    }
    let program = Env::new().with("s", Type::String).compile("s.replace('', s).size()").unwrap();
    let long = "x".repeat(1 << 20);
    let bindings = Bindings::new().with("s", Val::string(long));
    assert!(program.evaluate(&bindings, &mut CostBudget::for_object()).unwrap_err().is_over_budget());
}

/// Allows reading pods, and remembers what it was asked.
#[derive(Default)]
struct Recorder {
    asked: Mutex<Vec<Question>>,
}

impl Authorizer for Recorder {
    fn check(&self, question: &Question) -> AuthorizationDecision {
        self.asked.lock().unwrap().push(question.clone());
        let allowed = question.resource == "pods" && question.verb == "get";
        AuthorizationDecision { allowed, reason: if allowed { "may read" } else { "" }.to_owned(), error: None }
    }
}

#[test]
fn authorization_checks_reach_the_caller() {
    let authorizer = Recorder::default();
    let env = Env::new().with("authorizer", Type::Library("kubernetes.authorization.Authorizer"));
    let evaluate = |text: &str| {
        let program = env.compile(text).unwrap();
        let bindings = Bindings::new().with("authorizer", Val::authorizer(&authorizer));
        let mut budget = CostBudget::for_object();
        let value = program.evaluate(&bindings, &mut budget).map(|value| format!("{value:?}"));
        (value, budget.last())
    };
    let asking = "authorizer.group('').resource('pods').namespace('shop').name('db').check('get').allowed()";
    assert_eq!(evaluate(asking), (Ok("Bool(true)".to_owned()), 350_006));
    let account = "authorizer.serviceAccount('shop', 'web').path('/healthz').check('get').reason()";
    assert_eq!(evaluate(account).0, Ok("String(\"\")".to_owned()));
    let (third, _) = evaluate(&format!("{asking} && {asking} && {asking}"));
    assert!(third.unwrap_err().is_over_budget(), "an expression can afford two checks");
    let asked = authorizer.asked.lock().unwrap();
    assert_eq!((asked[0].namespace.as_str(), asked[0].name.as_str()), ("shop", "db"));
    assert_eq!(asked[1].service_account, Some(("shop".to_owned(), "web".to_owned())));
    assert_eq!(asked[1].path.as_deref(), Some("/healthz"));
}

#[test]
fn a_rule_knows_whether_it_looks_at_the_old_object() {
    let env = Env::new().with("self", Type::Int).with("oldSelf", Type::Int);
    assert!(env.compile("self >= oldSelf").unwrap().uses("oldSelf"));
    assert!(env.compile("[1].all(x, x < oldSelf)").unwrap().uses("oldSelf"));
    assert!(!env.compile("self >= 0").unwrap().uses("oldSelf"));
    assert!(!env.compile("[1].all(oldSelf, oldSelf > 0)").unwrap().uses("oldSelf"));
}

#[test]
fn names_with_dots_can_be_variables() {
    let env = Env::new().with("variables.limit", Type::Int).with("object", Type::Dyn);
    let program = env.compile("object.n < variables.limit").unwrap();
    let object = json!({"n": 3});
    let bindings = Bindings::new().with("object", Val::dynamic(&object)).with("variables.limit", Val::Int(5));
    assert!(matches!(program.evaluate(&bindings, &mut CostBudget::for_object()), Ok(Val::Bool(true))));
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Env::new().compile("1 + 1").unwrap());
}
