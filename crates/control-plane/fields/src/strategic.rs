//! Strategic merge patch: a merge patch that knows which lists are merged, and by which key.
//!
//! Directives in the patch say more than values can: `$patch` deletes or replaces, `$retainKeys` drops what it does
//! not name, `$setElementOrder/list` orders, `$deleteFromPrimitiveList/list` deletes scalars.

use std::collections::{HashMap, HashSet};

use seaworthy_schema::Schema;
use serde_json::{Map, Value};

use crate::depth::is_too_deep;
use crate::json_patch::json_kind;
use crate::patch::PatchError;
use crate::typed::{printed, printed_map, type_name};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic_patch(document: Value, patch: Value, schema: Schema<'_>) -> Result<Value, PatchError> {
    if is_too_deep(&document, 0) || is_too_deep(&patch, 0) {
        return Err(PatchError::too_deep());
    }
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => Map::new(),
        other => {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_kind(&other)
            )));
        }
    };
    let Value::Object(document) = document else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    merge_maps(document, patch, Some(schema)).map(Value::Object)
}

/// How a field that is a list is patched.
struct ListRule<'a> {
    merges: bool,
    key: Option<&'a str>,
    items: Option<Schema<'a>>,
}

/// Differs: a field that the schema does not have is merged like a JSON merge patch, because whether unknown fields
/// are wrong is for field validation to say; the real server breaks off if both sides have one.
impl<'a> ListRule<'a> {
    fn of(parent: Option<Schema<'a>>, field: &str) -> ListRule<'a> {
        let list = parent.and_then(|parent| parent.field(field));
        let patching = list.and_then(|list| list.node().patching.as_deref());
        ListRule {
            merges: patching.is_some_and(|patching| patching.merges),
            key: patching.and_then(|patching| patching.merge_key.as_deref()),
            items: list.and_then(Schema::items),
        }
    }
}

fn merge_maps(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Option<Schema<'_>>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                return Ok(patch);
            }
            Some("delete") => return Ok(Map::new()),
            _ => return Err(unknown_directive(&patch)),
        }
    }
    retain_keys(&mut original, &mut patch)?;
    set_order(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        let (key, is_deletion) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => match rest.strip_prefix('/') {
                Some(list) => (list.to_owned(), true),
                None => return Err(bad_request("invalid patch format of primitive list")),
            },
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(before)), Value::Object(value)) => {
                let below = schema.and_then(|schema| schema.field(&key));
                Some(Value::Object(merge_maps(before, value, below)?))
            }
            (Some(Value::Array(before)), Value::Array(value)) => {
                let rule = ListRule::of(schema, &key);
                let merges = rule.merges || is_deletion;
                Some(Value::Array(if merges { merge_lists(before, value, &rule, is_deletion)? } else { value }))
            }
            (before, _) if is_deletion => before,
            (_, value) => without_directives(without_nulls(value)),
        };
        original.extend(merged.map(|merged| (key, merged)));
    }
    Ok(original)
}

/// Drops what `$retainKeys` does not name. It must name all that the patch sets.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let error = || bad_request("invalid patch format of retainKeys");
    let Value::Array(retained) = retained else { return Err(error()) };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |key: &str| retained.contains(key);
    let is_other_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_other_directive(key) && !is_retained(key)) {
        return Err(error());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

/// Merges and orders the lists for which the patch gives an order.
fn set_order(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Option<Schema<'_>>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = list_of(patch.remove(&directive).unwrap_or_default())?;
        let Some(key) = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/')) else {
            return Err(bad_request("invalid patch format of setElementOrder list"));
        };
        let live = original.get(key).cloned().map(list_of).transpose()?;
        let patched = patch.get(key).cloned().map(list_of).transpose()?;
        let rule = ListRule::of(schema, key);
        check_order(patched.as_deref().unwrap_or_default(), &order, rule.key)?;
        let mut serves = live.clone().unwrap_or_default();
        let kind = |patched: &[Value]| element_kind(live.as_deref().unwrap_or_default(), patched);
        let kind = kind(patched.as_deref().unwrap_or_default());
        let merged = match (live, patched) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(patched)) => patched.into_iter().filter_map(without_directives).collect(),
            (Some(live), Some(patched)) if rule.merges => {
                if let Some(key) = rule.key {
                    serves = order_after_merge(&live, &patched, key);
                }
                merge_lists(live, patched, &rule, false)?
            }
            (Some(_), Some(patched)) => patched,
        };
        let merged = in_order(merged, &order, &serves, rule.key, kind?)?;
        original.insert(key.to_owned(), Value::Array(merged));
        patch.remove(key);
    }
    Ok(())
}

/// The order of the live list that new elements are compared with. The real server deletes from the live list in
/// place, and what it then adds takes the places that became free: such an element has a place in the old order too.
fn order_after_merge(live: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let (deletions, rest): (Vec<&Value>, Vec<&Value>) =
        patch.iter().partition(|element| element.get(DIRECTIVE).is_some_and(|word| word == "delete"));
    let deleted: HashSet<String> = deletions.into_iter().filter_map(|element| key_text(element, Some(key))).collect();
    let is_deleted = |element: &Value| key_text(element, Some(key)).is_some_and(|text| deleted.contains(&text));
    let remaining: Vec<Value> = live.iter().filter(|element| !is_deleted(element)).cloned().collect();
    let known = Positions::of(&remaining, Some(key));
    let added = rest
        .into_iter()
        .filter(|element| element.get(DIRECTIVE).is_none() && known.of_element(element, Some(key)).is_none());
    let added: Vec<Value> = added.take(live.len() - remaining.len()).cloned().collect();
    remaining.into_iter().chain(added).collect()
}

/// Checks that what the patch sets comes in the order that it gives.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for item in patch {
        if let Some(key) = key {
            let Value::Object(item) = item else { return Err(wrong_type("map[string]interface {}", item)) };
            match item.get(DIRECTIVE).map(Value::as_str) {
                None => {}
                Some(directive) if directive == Some("delete") || order_left.len() > 0 => continue,
                Some(_) => return Err(out_of_order(patch, order)),
            }
            let value = item.get(key);
            loop {
                let Some(next) = order_left.next() else { return Err(out_of_order(patch, order)) };
                let Value::Object(next) = next else { return Err(wrong_type("map[string]interface {}", next)) };
                let (Some(value), Some(next)) = (value, next.get(key)) else {
                    return Err(no_merge_key(if value.is_none() { item } else { next }, key));
                };
                if value == next {
                    break;
                }
            }
        } else if item.get(DIRECTIVE).is_none() && !order_left.any(|next| next == item) {
            return Err(out_of_order(patch, order));
        }
    }
    Ok(())
}

/// What the elements of lists are.
#[derive(Clone, Copy, PartialEq)]
enum ElementKind {
    Map,
    Scalar,
}

fn element_kind(first: &[Value], second: &[Value]) -> Result<ElementKind, PatchError> {
    let mut elements = first.iter().chain(second);
    let Some(element) = elements.next() else {
        return Err(PatchError::Internal("no elements in any of the given slices".to_owned()));
    };
    let kind = match element {
        Value::Array(_) => return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned())),
        // Differs: says what is wrong, because the real server breaks off without a message.
        Value::Null => return Err(PatchError::Internal("list elements may not be null".to_owned())),
        Value::Object(_) => ElementKind::Map,
        _ => ElementKind::Scalar,
    };
    if elements.any(|other| type_name(other) != type_name(element)) {
        let shown = |list: &[Value]| format!("[{}]", list.iter().map(printed).collect::<Vec<_>>().join(" "));
        return Err(PatchError::Internal(format!(
            "list element types are not identical: [{} {}]",
            shown(first),
            shown(second)
        )));
    }
    Ok(kind)
}

fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    rule: &ListRule<'_>,
    is_deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let kind = element_kind(&original, &patch)?;
    if kind == ElementKind::Scalar {
        let is_patched = Positions::of(&patch, None);
        if is_deletion {
            return Ok(original.into_iter().filter(|value| is_patched.of_element(value, None).is_none()).collect());
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        let mut seen = HashSet::new();
        merged.retain(|value| seen.insert(value.to_string()));
        return in_order(merged, &patch, &original, rule.key, kind);
    }
    let Some(key) = rule.key else {
        return Err(PatchError::Internal("cannot merge lists without merge key for struct".to_owned()));
    };
    let (original, patch) = without_special_elements(original, patch, key)?;
    let merged = merge_elements(original.clone(), patch.clone(), key, rule.items)?;
    in_order(merged, &patch, &original, Some(key), kind)
}

/// Carries out the directives among a list's elements; what is left is merged.
fn without_special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut replaces = false;
    let mut deleted = HashSet::new();
    let mut rest = Vec::with_capacity(patch.len());
    for element in patch {
        let Value::Object(fields) = &element else { continue };
        match fields.get(DIRECTIVE).map(Value::as_str) {
            None => rest.push(element),
            Some(Some("delete")) => {
                if !fields.contains_key(key) {
                    return Err(no_merge_key(fields, key));
                }
                deleted.extend(key_text(&element, Some(key)));
            }
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => {
                return Err(PatchError::Internal("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(_) => return Err(unknown_directive(fields)),
        }
    }
    if replaces {
        return Ok((rest, Vec::new()));
    }
    original.retain(|element| key_text(element, Some(key)).is_none_or(|text| !deleted.contains(&text)));
    Ok((original, rest))
}

fn merge_elements(
    mut merged: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    items: Option<Schema<'_>>,
) -> Result<Vec<Value>, PatchError> {
    let mut places = Positions::of(&merged, Some(key));
    for element in patch {
        let Value::Object(fields) = element else { continue };
        if !fields.contains_key(key) {
            return Err(no_merge_key(&fields, key));
        }
        let element = Value::Object(fields);
        match places.of_element(&element, Some(key)) {
            Some(place) => {
                if let (Value::Object(before), Value::Object(fields)) = (merged[place].take(), element) {
                    merged[place] = Value::Object(merge_maps(before, fields, items)?);
                }
            }
            None => {
                places.add(&element, Some(key), merged.len());
                merged.push(element);
            }
        }
    }
    Ok(merged)
}

/// Puts a merged list in order: what the patch names in the order of the patch, the rest in the order of the live
/// list, each of the rest before the first of the others that it preceded.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    key: Option<&str>,
    kind: ElementKind,
) -> Result<Vec<Value>, PatchError> {
    if let Some(key) = key {
        for element in merged.iter().chain(patch_order).chain(live_order) {
            match element {
                Value::Object(fields) if fields.contains_key(key) => {}
                Value::Object(fields) => return Err(no_merge_key(fields, key)),
                other => return Err(wrong_type("map[string]interface {}", other)),
            }
        }
    } else if kind == ElementKind::Map {
        return Err(PatchError::Internal("cannot order lists of objects without merge key".to_owned()));
    }
    let (in_patch, in_live) = (Positions::of(patch_order, key), Positions::of(live_order, key));
    let (mut patched, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| in_patch.of_element(element, key).is_some());
    patched.sort_by_cached_key(|element| in_patch.of_element(element, key));
    sort_as_found(&mut rest, |element| in_live.of_element(element, key));

    let mut out = Vec::with_capacity(patched.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for element in patched {
        let place = in_live.of_element(&element, key);
        let comes_before = |other: &Value| match (in_live.of_element(other, key), place) {
            (Some(other), Some(place)) => other < place,
            _ => false,
        };
        while let Some(other) = rest.next_if(|other| comes_before(other)) {
            out.push(other);
        }
        out.push(element);
    }
    out.extend(rest);
    Ok(out)
}

/// Up to how many elements the real server's sort is one by insertion.
const MAX_INSERTION_SORT: usize = 20;

/// Sorts by position. Elements that have none go before all that precede them, which is what the real server's
/// sort makes of them in short lists.
fn sort_as_found(elements: &mut [Value], position: impl Fn(&Value) -> Option<usize>) {
    let positions: Vec<Option<usize>> = elements.iter().map(&position).collect();
    if elements.len() > MAX_INSERTION_SORT || positions.iter().all(Option::is_some) {
        return elements.sort_by_cached_key(position);
    }
    let found: Vec<Value> = elements.to_vec();
    let mut order: Vec<usize> = Vec::with_capacity(found.len());
    for index in 0..found.len() {
        let goes_before = |other: usize| match (positions[index], positions[other]) {
            (Some(position), Some(other)) => position < other,
            _ => true,
        };
        let place = order.iter().rposition(|other| !goes_before(*other)).map_or(0, |last| last + 1);
        order.insert(place, index);
    }
    for (place, index) in elements.iter_mut().zip(order) {
        place.clone_from(&found[index]);
    }
}

/// Where the elements of a list are, by merge key or by themselves; of equal ones the first.
struct Positions(HashMap<String, usize>);

impl Positions {
    fn of(elements: &[Value], key: Option<&str>) -> Positions {
        let mut positions = Positions(HashMap::with_capacity(elements.len()));
        for (position, element) in elements.iter().enumerate() {
            positions.add(element, key, position);
        }
        positions
    }

    fn add(&mut self, element: &Value, key: Option<&str>, position: usize) {
        if let Some(text) = key_text(element, key) {
            self.0.entry(text).or_insert(position);
        }
    }

    fn of_element(&self, element: &Value, key: Option<&str>) -> Option<usize> {
        self.0.get(&key_text(element, key)?).copied()
    }
}

/// The text that identifies an element.
fn key_text(element: &Value, key: Option<&str>) -> Option<String> {
    Some(match key {
        Some(key) => element.get(key)?.to_string(),
        None => element.to_string(),
    })
}

/// Without keys that are null, also within lists, whose own nulls stay.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(|value| *value = without_nulls(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_nulls(item.take())),
        _ => {}
    }
    value
}

/// Without anything that carries a directive; none if it is the value itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => return None,
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        scalar => scalar,
    })
}

fn list_of(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type("[]interface {}", &other)),
    }
}

fn bad_request(message: &str) -> PatchError {
    PatchError::BadRequest(message.to_owned())
}

fn wrong_type(expected: &str, found: &Value) -> PatchError {
    PatchError::Internal(format!("expected a {expected}, but received a {}", type_name(found)))
}

fn no_merge_key(fields: &Map<String, Value>, key: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {key}", printed_map(fields)))
}

fn unknown_directive(fields: &Map<String, Value>) -> PatchError {
    let directive = fields.get(DIRECTIVE).map(printed).unwrap_or_default();
    PatchError::Internal(format!("unknown patch type: {directive} in map: {}", printed_map(fields)))
}

fn out_of_order(patch: &[Value], order: &[Value]) -> PatchError {
    let shown = |list: &[Value]| format!("[{}]", list.iter().map(printed).collect::<Vec<_>>().join(" "));
    PatchError::Internal(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        shown(patch),
        shown(order)
    ))
}
