//! Mutations: of bytes, and of the values of a JSON text.

use serde_json::{Value, json};

/// Bits of texts that mean something to one of the readers.
const SCRAPS: &[&str] = &[
    "/",
    "//",
    "%2F",
    "%",
    "..",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "~1",
    "~",
    "-",
    "-1",
    "9999999999999999999",
    "1e309",
    "\\u0000",
    "\u{feff}",
    "é",
    "\\",
    "$patch",
    "$setElementOrder/containers",
    "k:{\"name\":\"a\"}",
    "f:",
    "v:1",
    "i:0",
    ".",
    " in (",
    " notin ",
    "!",
    "==",
    "!=",
    ">",
    "<",
    "(",
    ")",
    "x-kubernetes-preserve-unknown-fields",
    "$ref",
    "namespaces",
    "apis",
    "watch",
    "\n",
    "\r\n",
    "\t",
];

/// Chance that can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64: neighbouring seeds give streams that have nothing in common.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// An example with some damage; now and then nothing but noise.
    pub fn damaged(&mut self, corpus: &[&str]) -> Vec<u8> {
        if self.below(50) == 0 {
            return (0..self.below(200)).map(|_| self.next() as u8).collect();
        }
        let mut text = self.pick(corpus).as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let lines: Option<Vec<Value>> =
                text.split(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).ok()).collect();
            match lines {
                // Mostly what can still be read: that reaches deepest.
                Some(mut lines) if self.below(5) > 0 => {
                    let other: Vec<Value> =
                        self.pick(corpus).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
                    let at = self.below(lines.len());
                    let donor = if other.is_empty() { Value::Null } else { other[self.below(other.len())].clone() };
                    self.damage_value(&mut lines[at], &donor);
                    text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n").into_bytes();
                }
                _ => self.damage_bytes(&mut text, corpus),
            }
        }
        text
    }

    fn damage_bytes(&mut self, text: &mut Vec<u8>, corpus: &[&str]) {
        let at = self.below(text.len() + 1);
        let to = (at + self.below(12)).min(text.len());
        match self.below(6) {
            0 => drop(text.drain(at..to)),
            1 => drop(text.splice(at..at, self.pick(SCRAPS).bytes())),
            2 => drop(text.splice(at..to, self.pick(SCRAPS).bytes())),
            3 => {
                let piece = text[at..to].repeat(1 + self.below(40));
                text.splice(at..at, piece);
            }
            4 => {
                let other = self.pick(corpus).as_bytes();
                let from = self.below(other.len() + 1);
                text.truncate(at);
                text.extend_from_slice(&other[from..]);
            }
            _ => {
                let noise = self.next() as u8;
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= noise;
                }
            }
        }
    }

    /// Damages a value somewhere inside.
    fn damage_value(&mut self, value: &mut Value, donor: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() && self.below(5) > 0 => {
                let key = map.keys().nth(self.below(map.len())).cloned().unwrap_or_default();
                match self.below(8) {
                    0 => drop(map.remove(&key)),
                    1 => drop(map.insert((*self.pick(SCRAPS)).to_owned(), donor.clone())),
                    2 => {
                        let moved = map.remove(&key).unwrap_or_default();
                        map.insert(format!("{key}{}", self.pick(SCRAPS)), moved);
                    }
                    _ => self.damage_value(map.entry(key).or_insert(Value::Null), donor),
                }
            }
            Value::Array(items) if !items.is_empty() && self.below(5) > 0 => {
                let at = self.below(items.len());
                match self.below(8) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, items[at].clone()),
                    2 => items.reverse(),
                    _ => self.damage_value(&mut items[at], donor),
                }
            }
            other => *other = self.value(donor),
        }
    }

    fn value(&mut self, donor: &Value) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!([]),
            3 => json!(self.next()),
            4 => json!(self.next() as i64 % 4),
            5 => json!(f64::from_bits(self.next())),
            6 => json!(self.pick(SCRAPS)),
            7 => json!(self.below(2) == 0),
            8 => (0..self.below(200)).fold(json!(1), |inner, _| json!([inner])),
            // A piece of another example.
            _ => {
                let mut piece = donor;
                while self.below(3) > 0 {
                    let below: Vec<&Value> = match piece {
                        Value::Object(map) => map.values().collect(),
                        Value::Array(items) => items.iter().collect(),
                        _ => break,
                    };
                    if below.is_empty() {
                        break;
                    }
                    piece = self.pick(&below);
                }
                piece.clone()
            }
        }
    }
}
