//! Folds: evaluation of `all`, `exists`, `map`, `filter` and the other comprehensions.

use std::sync::Arc;

use crate::collection::{Key, List, Map};
use crate::error::EvalError;
use crate::library;
use crate::plan::{FoldNode, Node};
use crate::value::{Outcome, Val};

use super::{Evaluation, Slot, stopping};

impl<'a> Evaluation<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a FoldNode) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.accu] = Slot::Lazy(Some(&fold.init));
        match (&range, fold.var2) {
            (Val::List(list), second) => {
                for index in 0..list.len() {
                    let item = list.get(index);
                    match second {
                        None => self.slots[fold.var] = Slot::Ready(item),
                        Some(second) => {
                            self.slots[fold.var] = Slot::Ready(Ok(Val::Int(index as i64)));
                            self.slots[second] = Slot::Ready(item);
                        }
                    }
                    if !self.turn(fold)? {
                        break;
                    }
                }
            }
            (Val::Map(map), None) => {
                for key in map.keys() {
                    self.slots[fold.var] = Slot::Ready(Ok(key));
                    if !self.turn(fold)? {
                        break;
                    }
                }
            }
            (Val::Map(map), Some(second)) => {
                for (key, value) in map.entries() {
                    self.slots[fold.var] = Slot::Ready(Ok(key));
                    self.slots[second] = Slot::Ready(value);
                    if !self.turn(fold)? {
                        break;
                    }
                }
            }
            (other, None) => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", other.go_name())));
            }
            (other, Some(_)) => {
                let text = format!("unsupported comprehension range type: {}", other.go_name());
                return Err(EvalError::new(text));
            }
        }
        self.eval(&fold.result)
    }

    /// One turn of a fold; false ends it.
    fn turn(&mut self, fold: &'a FoldNode) -> Result<bool, EvalError> {
        if let Ok(Val::Bool(false)) = stopping(self.eval(&fold.condition))? {
            return Ok(false);
        }
        let value = stopping(self.eval(&fold.step))?;
        self.slots[fold.accu] = Slot::Ready(value);
        Ok(true)
    }

    /// Takes an accumulator out of its slot; the step that does so puts the next one there.
    fn take(&mut self, slot: usize) -> Outcome<'a> {
        let current = match std::mem::replace(&mut self.slots[slot], Slot::Lazy(None)) {
            Slot::Ready(value) => value,
            Slot::Lazy(Some(init)) => self.eval(init),
            Slot::Lazy(None) => Err(EvalError::new("no such attribute(s)")),
        };
        self.charge_beside(&current)?;
        current
    }

    pub(super) fn append(&mut self, slot: usize, items: &'a Node) -> Outcome<'a> {
        let accu = stopping(self.take(slot))?;
        let items = stopping(self.eval(items))?;
        self.charge(1)?;
        let (accu, items) = (accu?, items?);
        match (accu, items) {
            (Val::List(List::Values(mut list)), Val::List(items)) => {
                let target = Arc::make_mut(&mut list);
                for item in items.iter() {
                    target.push(item?);
                }
                Ok(Val::List(List::Values(list)))
            }
            (accu, items) => library::standard::add(&[accu, items]),
        }
    }

    pub(super) fn insert(&mut self, slot: usize, args: &'a [Node]) -> Outcome<'a> {
        let accu = match stopping(self.take(slot))? {
            Ok(accu) => accu,
            Err(error) => {
                // With one more argument that is still looked at, with two it is not.
                if let [more] = args {
                    stopping(self.eval(more))?.ok();
                    self.charge(1)?;
                }
                return Err(error);
            }
        };
        let Val::Map(Map::Values(mut entries)) = accu else { return Err(EvalError::no_such_overload()) };
        let map = Arc::make_mut(&mut entries);
        let mut put = |key: Val<'a>, value: Val<'a>| match Key::of(&key) {
            Some(slot) if !map.contains_key(&slot) => {
                map.insert(slot, (key, value));
                Ok(())
            }
            Some(_) => Err(EvalError::new(format!("insert failed: key {key} already exists"))),
            None => Err(EvalError::new(format!("unsupported key type: {}", key.type_name()))),
        };
        match args {
            [key, value] => {
                let key = self.eval(key)?;
                let value = stopping(self.eval(value))?;
                self.charge(1)?;
                put(key, value?)?;
            }
            [more] => {
                let more = stopping(self.eval(more))?;
                self.charge(1)?;
                let Val::Map(more) = more? else { return Err(EvalError::no_such_overload()) };
                for (key, value) in more.entries() {
                    put(key, value?)?;
                }
            }
            _ => return Err(EvalError::no_such_overload()),
        }
        Ok(Val::Map(Map::Values(entries)))
    }
}
