//! [`Packed`]: bodies in memory, compressed as a delta to a model, which is another body of the same resource.
//!
//! Ten thousand nodes differ in a name, some addresses and a few ids. So most of a body is a reference to the model of its
//! resource, and unpacking it is little more than copying that.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// A body. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Packed {
    /// Without compression.
    Plain(Bytes),
    /// As a delta to a model.
    Delta { delta: Arc<[u8]>, length: usize, model: Arc<[u8]> },
}

impl Packed {
    /// The bytes to serve.
    ///
    /// # Panics
    ///
    /// If the memory of this process is damaged. A client that got an empty or a shorter body would take it for the object,
    /// and might write it to the server; the body on disk is intact, and is read from there after a restart.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Packed::Plain(bytes) => bytes.clone(),
            Packed::Delta { delta, length, model } => match unpack(delta, *length, model) {
                Ok(bytes) => bytes,
                Err(reason) => panic!("a body cannot be decompressed: {reason}; the memory of this process is damaged"),
            },
        }
    }

    /// Length of the unpacked body.
    pub(crate) fn len(&self) -> usize {
        match self {
            Packed::Plain(bytes) => bytes.len(),
            Packed::Delta { length, .. } => *length,
        }
    }

    /// Memory in bytes. Models are shared by many bodies, and not counted.
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
    /// How many bodies were packed with it.
    uses: usize,
}

impl Packer {
    /// Smaller bodies cost less than the metadata of a delta.
    const MIN_BYTES: usize = 512;
    /// Larger ones are few, have little in common, and take long to compress.
    const MAX_BYTES: usize = 64 << 10;
    /// A model is used for so many bodies at least, so that models are few.
    const MIN_MODEL_USES: usize = 256;

    /// Packs a body of a resource, if that is worth it.
    pub(crate) fn pack(&mut self, resource: &Arc<str>, body: Bytes) -> Packed {
        if !(Self::MIN_BYTES..=Self::MAX_BYTES).contains(&body.len()) {
            return Packed::Plain(body);
        }
        if !self.models.contains_key(resource) {
            self.models.insert(resource.clone(), Model { body: Arc::from(&*body), uses: 0 });
        }
        let Some(model) = self.models.get_mut(resource) else { return Packed::Plain(body) };
        let mut delta = compress_with_dict(&body, &model.body);
        model.uses += 1;
        // Objects change their shape, as when a status is added: then the next one is a better model.
        if model.uses > Self::MIN_MODEL_USES && delta.len() > body.len() / 4 {
            *model = Model { body: Arc::from(&*body), uses: 0 };
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
    #[should_panic(expected = "a body cannot be decompressed")]
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
            (0..Packer::MIN_BYTES * 2).map(next).collect()
        };
        packer.pack(&resource, noise(1));
        assert!(matches!(packer.pack(&resource, noise(2)), Packed::Plain(_)));
        assert!(matches!(packer.pack(&resource, Bytes::from_static(b"short")), Packed::Plain(_)));
        let large = Bytes::from(vec![b' '; Packer::MAX_BYTES + 1]);
        assert!(matches!(packer.pack(&resource, large), Packed::Plain(_)));
    }

    #[test]
    fn model_is_replaced_once_bodies_look_different() {
        let (mut packer, resource) = (Packer::default(), Arc::from("core/nodes"));
        let varied = |name: usize| -> Bytes {
            (0..200).map(|n| format!("{:x},", n * 7919 + name / 999)).collect::<String>().into()
        };
        packer.pack(&resource, body(0, "other words entirely "));
        let before = packer.pack(&resource, varied(0)).weight();
        for name in 0..Packer::MIN_MODEL_USES {
            packer.pack(&resource, varied(name));
        }
        let after = packer.pack(&resource, varied(1));
        assert_eq!(after.bytes(), varied(1));
        assert!(after.weight() * 4 < before, "{} then {}", before, after.weight());
    }
}
