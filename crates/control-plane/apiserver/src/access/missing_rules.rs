//! Missing rules: the parts of wanted rules that held rules do not allow, for the check against privilege escalation.
//!
//! A rule grants every combination of its verbs, groups, resources and names: a text of a few kilobytes has many
//! millions of them. So the combinations are walked one by one and never collected, a walk skips what one held rule
//! allows as a whole, and it has an end however the rules are written. What the walk did not reach counts as missing.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::rule::PolicyRule;

/// How often an entry of a wanted rule is compared with a held one: less than a second on one core. A role with a
/// hundred thousand combinations needs less against the rules of an administrator, who holds most of them as a whole.
const MAX_COMPARISONS: usize = 10_000_000;

/// The size of the list of missing rules, in bytes. The built-in role `admin` is a few thousand combinations of less
/// than a hundred bytes each, so who tries to grant it gets the whole list; the real server has no limit.
const MAX_LISTED_SIZE: usize = 256 * 1024;

/// The parts of wanted rules that are not held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRules {
    /// One line for each missing combination, in alphabetical order.
    pub listed: BTreeSet<String>,
    /// Whether the comparison ended before the last combination: what is not listed may be missing as well.
    pub is_cut_off: bool,
}

impl MissingRules {
    /// Compares wanted rules with held ones.
    pub fn between<'r>(held: impl IntoIterator<Item = &'r PolicyRule>, wanted: &'r [PolicyRule]) -> MissingRules {
        let mut known = KnownWords::default();
        let wanted: Vec<[Vec<Vec<Word<'_>>>; 2]> =
            wanted.iter().map(|rule| [known.resources(rule), known.paths(rule)]).collect();
        let (mut on_resources, mut on_paths) = (Vec::new(), Vec::new());
        for rule in held {
            let (verbs, groups) = (known.reach(&rule.verbs), known.reach(&rule.groups));
            let resources = known.reach(&rule.resources);
            let names = if rule.names.is_empty() { Reach::ALL } else { known.exactly(&rule.names) };
            on_paths.push(vec![verbs.clone(), known.path_reach(&rule.paths)]);
            on_resources.push(vec![verbs, groups, resources, names]);
        }
        let mut walk = Walk { comparisons: 0, listed_size: 0, listed: BTreeSet::new() };
        let held = [&on_resources, &on_paths].map(|rules| Vec::from_iter(rules.iter().map(Vec::as_slice)));
        let mut parts = wanted.iter().flat_map(|rule| rule.iter().zip(&held));
        let ended = parts.try_for_each(|(columns, held)| walk.step(held, columns, &mut Vec::new()));
        MissingRules { listed: walk.listed, is_cut_off: ended.is_break() }
    }

    /// Whether all wanted rules are held.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && !self.is_cut_off
    }
}

/// An entry of a wanted rule: a verb, a group, a resource, a name or a path.
#[derive(Clone, Copy)]
struct Word<'r> {
    text: &'r str,
    /// None for no name: only a rule without names allows that.
    number: Option<u32>,
    /// For `pods/log`, the number of `*/log`.
    pattern: Option<u32>,
    is_path: bool,
}

/// The words of all wanted rules, each with a number: texts of any length are compared once, and numbers after that.
#[derive(Default)]
struct KnownWords<'r>(HashMap<Cow<'r, str>, u32>);

impl<'r> KnownWords<'r> {
    /// The columns of a rule on resources: verbs, groups, resources, names.
    fn resources(&mut self, rule: &'r PolicyRule) -> Vec<Vec<Word<'r>>> {
        let names = match rule.names.as_slice() {
            [] => vec![Word { text: "", number: None, pattern: None, is_path: false }],
            names => self.words(names),
        };
        let mut resources = self.words(&rule.resources);
        for resource in &mut resources {
            let below = resource.text.split_once('/').map(|(_, below)| format!("*/{below}"));
            resource.pattern = below.map(|pattern| self.number(pattern.into()));
        }
        vec![self.words(&rule.verbs), self.words(&rule.groups), resources, names]
    }

    /// The columns of a rule on non-resource paths: verbs, paths.
    fn paths(&mut self, rule: &'r PolicyRule) -> Vec<Vec<Word<'r>>> {
        let mut paths = self.words(&rule.paths);
        paths.iter_mut().for_each(|path| path.is_path = true);
        vec![self.words(&rule.verbs), paths]
    }

    /// Each word once: a rule that repeats itself has no more combinations.
    fn words(&mut self, texts: &'r [String]) -> Vec<Word<'r>> {
        let once: BTreeSet<&'r str> = texts.iter().map(String::as_str).collect();
        let word = |text: &'r str| Word { text, number: Some(self.number(text.into())), pattern: None, is_path: false };
        once.into_iter().map(word).collect()
    }

    fn number(&mut self, text: Cow<'r, str>) -> u32 {
        // A request has less than 2^32 bytes, and a word has one at least.
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(text).or_insert(next)
    }

    /// What entries of a held rule allow, of the wanted words. A star is any word.
    fn reach(&self, texts: &[String]) -> Reach<'r> {
        if texts.iter().any(|text| text == "*") { Reach::ALL } else { self.exactly(texts) }
    }

    fn exactly(&self, texts: &[String]) -> Reach<'r> {
        let mut numbers: Vec<u32> = texts.iter().filter_map(|text| self.0.get(text.as_str()).copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Reach { is_all: false, numbers, starts: Vec::new() }
    }

    fn path_reach(&self, texts: &'r [String]) -> Reach<'r> {
        let mut starts: Vec<&'r str> = texts.iter().filter_map(|path| path.strip_suffix('*')).collect();
        starts.sort_unstable();
        // After this, none begins with another one, so at most one can be the start of a path: the last before it.
        starts.dedup_by(|next, kept| next.starts_with(*kept));
        Reach { starts, ..self.exactly(texts) }
    }
}

/// The words that one list of a held rule allows.
#[derive(Clone)]
struct Reach<'r> {
    is_all: bool,
    /// In order.
    numbers: Vec<u32>,
    /// Starts of paths, in order.
    starts: Vec<&'r str>,
}

impl Reach<'_> {
    const ALL: Reach<'static> = Reach { is_all: true, numbers: Vec::new(), starts: Vec::new() };

    fn has(&self, word: Word<'_>) -> bool {
        let is_known = |number: u32| self.numbers.binary_search(&number).is_ok();
        let is_below = || {
            let after = self.starts.partition_point(|start| *start <= word.text);
            after.checked_sub(1).is_some_and(|last| word.text.starts_with(self.starts[last]))
        };
        self.is_all
            || word.number.is_some_and(is_known)
            || word.pattern.is_some_and(is_known)
            || (word.is_path && is_below())
    }
}

/// A walk over the combinations of wanted rules.
struct Walk {
    comparisons: usize,
    listed_size: usize,
    listed: BTreeSet<String>,
}

impl Walk {
    /// Walks the combinations that begin with the chosen words. `held` are the rules that allow all of those, and
    /// `columns` has the words to choose from.
    fn step<'r>(
        &mut self,
        held: &[&[Reach<'_>]],
        columns: &[Vec<Word<'r>>],
        chosen: &mut Vec<Word<'r>>,
    ) -> ControlFlow<()> {
        // Nothing to choose: no combination.
        if columns.iter().any(Vec::is_empty) {
            return ControlFlow::Continue(());
        }
        let Some((column, rest)) = columns.split_first() else {
            return if held.is_empty() { self.list(chosen) } else { ControlFlow::Continue(()) };
        };
        for rule in held {
            if self.allows_all(rule, columns)? {
                return ControlFlow::Continue(());
            }
        }
        for word in column {
            self.count(1)?;
            let mut left = Vec::new();
            for rule in held {
                let [reach, others @ ..] = rule else { continue };
                if self.has(reach, *word)? {
                    left.push(others);
                }
            }
            chosen.push(*word);
            let ended = self.step(&left, rest, chosen);
            chosen.pop();
            ended?;
        }
        ControlFlow::Continue(())
    }

    /// Whether one held rule allows every combination.
    fn allows_all(&mut self, rule: &[Reach<'_>], columns: &[Vec<Word<'_>>]) -> ControlFlow<(), bool> {
        for (reach, column) in rule.iter().zip(columns).filter(|(reach, _)| !reach.is_all) {
            for word in column {
                if !self.has(reach, *word)? {
                    return ControlFlow::Continue(false);
                }
            }
        }
        ControlFlow::Continue(true)
    }

    fn has(&mut self, reach: &Reach<'_>, word: Word<'_>) -> ControlFlow<(), bool> {
        // Of paths, the texts are compared: a long one counts more.
        let length = if word.is_path { word.text.len() } else { 0 };
        self.count(1 + length / 64)?;
        ControlFlow::Continue(reach.has(word))
    }

    fn count(&mut self, comparisons: usize) -> ControlFlow<()> {
        self.comparisons += comparisons;
        if self.comparisons > MAX_COMPARISONS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Adds a missing combination to the list.
    fn list(&mut self, chosen: &[Word<'_>]) -> ControlFlow<()> {
        if self.listed_size > MAX_LISTED_SIZE {
            return ControlFlow::Break(());
        }
        let one = |at: usize| chosen.get(at).filter(|word| word.number.is_some()).map(|word| word.text.to_owned());
        let list = |at: usize| Vec::from_iter(one(at));
        let piece = match chosen {
            [_, _] => PolicyRule { verbs: list(0), paths: list(1), ..PolicyRule::default() },
            _ => PolicyRule {
                verbs: list(0),
                groups: list(1),
                resources: list(2),
                names: list(3),
                ..PolicyRule::default()
            },
        };
        let line = piece.to_string();
        self.listed_size += line.len();
        self.listed.insert(line);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: Value) -> Vec<PolicyRule> {
        rules.as_array().unwrap().iter().map(PolicyRule::read).collect()
    }

    fn numbered(word: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{word}{number}")).collect()
    }

    fn pods(verbs: &[&str]) -> Value {
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": verbs})
    }

    #[rstest]
    #[case::same(pods(&["get"]), pods(&["get"]), true)]
    #[case::any_verb(pods(&["*"]), pods(&["get", "x"]), true)]
    #[case::a_star_is_more_than_all_words(pods(&["get"]), pods(&["*"]), false)]
    #[case::subresource_of_any(
        json!({"apiGroups": ["*"], "resources": ["*/log"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}),
        true
    )]
    #[case::subresource_of_one(
        json!({"apiGroups": ["*"], "resources": ["pods/log"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*/log"], "verbs": ["get"]}),
        false
    )]
    #[case::resource_is_not_its_subresource(
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}),
        false
    )]
    #[case::path_below_a_start(
        json!({"nonResourceURLs": ["/logs/*", "/l*", "/log", "/logs/a*"], "verbs": ["get"]}),
        json!({"nonResourceURLs": ["/logs/a/b", "/logs/*", "/l"], "verbs": ["get"]}),
        true
    )]
    #[case::path_beside_a_start(
        json!({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]}),
        json!({"nonResourceURLs": ["/logs"], "verbs": ["get"]}),
        false
    )]
    #[case::path_that_is_no_pattern(
        json!({"nonResourceURLs": ["/logs"], "verbs": ["get"]}),
        json!({"nonResourceURLs": ["/logs/a"], "verbs": ["get"]}),
        false
    )]
    #[case::path_is_no_resource(
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        false
    )]
    #[case::star_as_a_name_is_one_name(
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["*"]}),
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}),
        false
    )]
    #[case::empty_name_is_a_name(
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": [""]}),
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
        false
    )]
    #[case::rule_without_verbs_allows_nothing(pods(&[]), pods(&[]), true)]
    fn held_rule_allows_a_wanted_one(#[case] held: Value, #[case] wanted: Value, #[case] is_allowed: bool) {
        let (held, wanted) = (rules(json!([held])), rules(json!([wanted])));
        assert_eq!(MissingRules::between(&held, &wanted).is_empty(), is_allowed);
    }

    #[test]
    fn rule_is_held_if_several_rules_hold_its_parts() {
        let held = rules(json!([pods(&["get"]), pods(&["list", "watch"])]));
        let wanted = rules(json!([pods(&["get", "list", "watch"])]));
        assert!(MissingRules::between(&held, &wanted).is_empty());
    }

    #[test]
    fn missing_combinations_are_listed_once_and_in_order() {
        let held = rules(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let wanted = rules(json!([
            {"apiGroups": [""], "resources": ["secrets", "pods"], "resourceNames": ["a"], "verbs": ["get", "create"]},
            {"nonResourceURLs": ["/x"], "verbs": ["get", "get"]},
            {"nonResourceURLs": ["/x"], "verbs": ["get"]},
        ]));
        let missing = MissingRules::between(&held, &wanted);
        assert_eq!(
            Vec::from_iter(&missing.listed),
            [
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["create"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["create"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
            ]
        );
        assert!(!missing.is_cut_off);
    }

    /// Four lists with so many entries that their product is beyond all memory and time.
    fn huge(verbs: &[String], names: &[String]) -> Value {
        let (groups, resources) = (numbered("g", 500), numbered("r", 500));
        json!({"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names})
    }

    #[test]
    fn huge_rule_that_one_rule_holds_is_held() {
        let wanted = rules(json!([huge(&numbered("v", 500), &numbered("n", 500))]));
        let everything = rules(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        assert!(MissingRules::between(&everything, &wanted).is_empty());
        assert!(MissingRules::between(&wanted, &wanted).is_empty());
    }

    #[test]
    fn huge_rule_that_is_held_verb_by_verb_is_held() {
        let (verbs, names) = (numbered("v", 500), numbered("n", 500));
        let held = rules(json!([huge(&verbs[..250], &names), huge(&verbs[250..], &names)]));
        assert!(MissingRules::between(&held, &rules(json!([huge(&verbs, &names)]))).is_empty());
    }

    #[test]
    fn huge_rule_that_is_held_name_by_name_counts_as_missing() {
        let (verbs, names) = (numbered("v", 500), numbered("n", 500));
        let held = rules(json!([huge(&verbs, &names[..250]), huge(&verbs, &names[250..])]));
        let missing = MissingRules::between(&held, &rules(json!([huge(&verbs, &names)])));
        assert_eq!((missing.listed.len(), missing.is_cut_off), (0, true));
        assert!(!missing.is_empty());
    }

    #[test]
    fn list_of_what_is_missing_of_a_huge_rule_ends() {
        let missing = MissingRules::between(&[], &rules(json!([huge(&numbered("v", 500), &[])])));
        let size: usize = missing.listed.iter().map(String::len).sum();
        assert!((MAX_LISTED_SIZE..MAX_LISTED_SIZE + 100).contains(&size), "{size}");
        assert!(missing.is_cut_off);
    }

    #[test]
    fn long_words_do_not_multiply() {
        let long = "x".repeat(1_000_000);
        let wanted =
            rules(json!([{"apiGroups": numbered("g", 1000), "resources": numbered("r", 1000), "verbs": [long]}]));
        let missing = MissingRules::between(&[], &wanted);
        assert_eq!((missing.listed.len(), missing.is_cut_off), (1, true));
    }

    #[test]
    fn comparison_with_many_held_rules_ends() {
        let held: Vec<Value> = (0..5000).map(|number| pods(&[&format!("v{number}")])).collect();
        let wanted: Vec<Value> = (0..5000).map(|number| pods(&[&format!("v{}", 4999 - number)])).collect();
        let missing = MissingRules::between(&rules(held.into()), &rules(wanted.into()));
        assert_eq!((missing.listed.len(), missing.is_cut_off), (0, true));
    }

    /// What is missing by definition: each combination is compared with each rule.
    fn missing_by_definition(held: &[PolicyRule], wanted: &[PolicyRule]) -> BTreeSet<String> {
        let one = |text: &String| vec![text.clone()];
        let mut missing = BTreeSet::new();
        for rule in wanted {
            let mut pieces = Vec::new();
            for verbs in rule.verbs.iter().map(one) {
                for paths in rule.paths.iter().map(one) {
                    pieces.push(PolicyRule { verbs: verbs.clone(), paths, ..PolicyRule::default() });
                }
                for groups in rule.groups.iter().map(one) {
                    for resources in rule.resources.iter().map(one) {
                        let names = rule.names.iter().map(one);
                        let names = names.chain(rule.names.is_empty().then(Vec::new));
                        pieces.extend(names.map(|names| PolicyRule {
                            verbs: verbs.clone(),
                            groups: groups.clone(),
                            resources: resources.clone(),
                            names,
                            paths: Vec::new(),
                        }));
                    }
                }
            }
            let is_missing = |piece: &PolicyRule| !held.iter().any(|rule| allows_piece(rule, piece));
            missing.extend(pieces.into_iter().filter(is_missing).map(|piece| piece.to_string()));
        }
        missing
    }

    fn allows_piece(held: &PolicyRule, piece: &PolicyRule) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|own| own == "*" || own == wanted);
        if !has(&held.verbs, &piece.verbs[0]) {
            return false;
        }
        if let [path] = piece.paths.as_slice() {
            let is_below = |own: &String| own.strip_suffix('*').is_some_and(|start| path.starts_with(start));
            return held.paths.iter().any(|own| own == path || is_below(own));
        }
        let resource = &piece.resources[0];
        let below = resource.split_once('/').map(|(_, below)| format!("*/{below}"));
        has(&held.groups, &piece.groups[0])
            && (has(&held.resources, resource) || below.is_some_and(|below| held.resources.contains(&below)))
            && (held.names.is_empty() || piece.names.first().is_some_and(|name| held.names.contains(name)))
    }

    fn some_of(words: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let all = words.len();
        proptest::sample::subsequence(words, least..=all)
    }

    fn some_rules() -> impl Strategy<Value = Vec<PolicyRule>> {
        let rule = (
            some_of(&["get", "list", "watch", "*"], 1),
            some_of(&["", "a", "*"], 0),
            some_of(&["pods", "pods/log", "jobs/log", "*/log", "*/exec", "*"], 0),
            some_of(&["x", "y", "*"], 0),
            some_of(&["/a", "/a/*", "/a/b", "/a/b*", "/b", "*"], 0),
        );
        let rule = rule.prop_map(|(verbs, groups, resources, names, paths)| PolicyRule {
            verbs,
            groups,
            resources,
            names,
            paths,
        });
        proptest::collection::vec(rule, 0..4)
    }

    proptest! {
        #[test]
        fn walk_finds_what_is_missing_by_definition(held in some_rules(), wanted in some_rules()) {
            let missing = MissingRules::between(&held, &wanted);
            prop_assert_eq!(missing.listed, missing_by_definition(&held, &wanted));
            prop_assert!(!missing.is_cut_off);
        }
    }
}
