//! Bodies as they are kept in memory: written as what differs from a model, a body of the same kind.
//!
//! Ten thousand nodes differ in a name, some addresses and a few identities. So most of a body is a reference to the
//! model of its resource, and unpacking it is little more than copying that.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// A body. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Packed {
    /// As it is.
    Plain(Bytes),
    /// As what differs from a model.
    Delta { delta: Arc<[u8]>, length: usize, model: Arc<[u8]> },
}

impl Packed {
    /// The bytes to serve.
    ///
    /// # Panics
    ///
    /// If the memory of this process has gone bad. Whoever was given an empty or a shorter body would take it for the
    /// object, and might write it back; the body on disk is whole, and a new start reads it from there.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Packed::Plain(bytes) => bytes.clone(),
            Packed::Delta { delta, length, model } => match unpack(delta, *length, model) {
                Ok(bytes) => bytes,
                Err(reason) => panic!("a body cannot be unpacked: {reason}; the memory of this process is damaged"),
            },
        }
    }

    /// How many bytes there are to serve.
    pub(crate) fn len(&self) -> usize {
        match self {
            Packed::Plain(bytes) => bytes.len(),
            Packed::Delta { length, .. } => *length,
        }
    }

    /// What it costs to keep. Models are shared by many.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Packed::Plain(bytes) => bytes.len(),
            Packed::Delta { delta, .. } => delta.len(),
        }
    }
}

fn unpack(delta: &[u8], length: usize, model: &[u8]) -> Result<Bytes, String> {
    let bytes = decompress_with_dict(delta, length, model).map_err(|error| error.to_string())?;
    match bytes.len() == length {
        true => Ok(bytes.into()),
        false => Err(format!("it has {} bytes and should have {length}", bytes.len())),
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.bytes() == other.bytes()
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.bytes(), f)
    }
}

/// Packs bodies, each against the model of its resource.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    models: HashMap<Arc<str>, Model>,
}

#[derive(Debug, Default)]
struct Model {
    body: Arc<[u8]>,
    /// How often it has served.
    served: usize,
}

impl Packer {
    /// Smaller bodies cost less than what is kept about them.
    const SMALLEST: usize = 512;
    /// Larger ones are few, have little in common, and would take their time.
    const LARGEST: usize = 64 << 10;
    /// A model is kept for so many bodies at least, so that models are few beside what is made from them.
    const TENURE: usize = 256;

    /// Packs a body of a resource, if that is worth it.
    pub(crate) fn pack(&mut self, resource: &Arc<str>, body: Bytes) -> Packed {
        if !(Self::SMALLEST..=Self::LARGEST).contains(&body.len()) {
            return Packed::Plain(body);
        }
        if !self.models.contains_key(resource) {
            self.models.insert(resource.clone(), Model { body: Arc::from(&*body), served: 0 });
        }
        let Some(model) = self.models.get_mut(resource) else { return Packed::Plain(body) };
        let mut delta = compress_with_dict(&body, &model.body);
        model.served += 1;
        // Objects change their looks, as when a status is added: then the next one of many is the better model.
        if model.served > Self::TENURE && delta.len() > body.len() / 4 {
            *model = Model { body: Arc::from(&*body), served: 0 };
            delta = compress_with_dict(&body, &model.body);
        }
        if delta.len() > body.len() / 8 * 7 {
            return Packed::Plain(body);
        }
        Packed::Delta { delta: delta.into(), length: body.len(), model: model.body.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(name: usize, filler: &str) -> Bytes {
        format!("{{\"metadata\":{{\"name\":\"n{name}\"}},\"status\":\"{}\"}}", filler.repeat(60)).into()
    }

    #[test]
    fn like_bodies_cost_next_to_nothing() {
        let (mut packer, resource) = (Packer::default(), Arc::from("core/nodes"));
        for name in 0..9 {
            let body = body(name, "some longer text of which there is much; ");
            let packed = packer.pack(&resource, body.clone());
            assert_eq!(packed.bytes(), body);
            assert_eq!(packed.len(), body.len());
            assert!(packed.weight() < 64, "{} of {}", packed.weight(), packed.len());
        }
    }

    #[test]
    fn damaged_body_is_never_taken_for_another() {
        let mut packer = Packer::default();
        let packed = packer.pack(&Arc::from("core/nodes"), body(1, "some longer text of which there is much; "));
        let Packed::Delta { delta, length, model } = packed else { panic!("it does not pack") };
        assert!(unpack(&delta, length, &model).is_ok());
        assert!(unpack(&delta[..delta.len() / 2], length, &model).is_err());
        assert!(unpack(&delta, length + 1, &model).unwrap_err().contains("should have"));
        assert!(unpack(&delta, length, &[]).is_err());
    }

    #[test]
    #[should_panic(expected = "a body cannot be unpacked")]
    fn damaged_body_is_not_served_as_nothing() {
        Packed::Delta { delta: Arc::from(&b"\xff"[..]), length: 900, model: Arc::from(&b"model"[..]) }.bytes();
    }

    #[test]
    fn what_does_not_pack_stays_as_it_is() {
        let (mut packer, resource) = (Packer::default(), Arc::from("core/nodes"));
        // Numbers that repeat nothing: a multiplicative sequence.
        let noise = |seed: u32| -> Bytes {
            let mut state = seed;
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..Packer::SMALLEST * 2).map(next).collect()
        };
        packer.pack(&resource, noise(1));
        assert!(matches!(packer.pack(&resource, noise(2)), Packed::Plain(_)));
        assert!(matches!(packer.pack(&resource, Bytes::from_static(b"short")), Packed::Plain(_)));
        let large = Bytes::from(vec![b' '; Packer::LARGEST + 1]);
        assert!(matches!(packer.pack(&resource, large), Packed::Plain(_)));
    }

    #[test]
    fn model_gives_way_once_bodies_look_different() {
        let (mut packer, resource) = (Packer::default(), Arc::from("core/nodes"));
        let varied = |name: usize| -> Bytes {
            (0..200).map(|n| format!("{:x},", n * 7919 + name / 999)).collect::<String>().into()
        };
        packer.pack(&resource, body(0, "other words entirely "));
        let before = packer.pack(&resource, varied(0)).weight();
        for name in 0..Packer::TENURE {
            packer.pack(&resource, varied(name));
        }
        let after = packer.pack(&resource, varied(1));
        assert_eq!(after.bytes(), varied(1));
        assert!(after.weight() * 4 < before, "{} then {}", before, after.weight());
    }
}
