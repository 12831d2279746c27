//! Walks over the keys and values of one object without building it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Takes an object's values, each as its JSON text.
pub(super) trait Members {
    /// The number under which a key's value is wanted, if it is.
    fn find(&mut self, key: &str) -> Option<usize>;

    /// Takes a value that is wanted; `Err` stops the walk.
    fn take(&mut self, number: usize, json: &[u8]) -> Result<(), ()>;
}

/// Walks over the one object in `line`; the error is `serde_json`'s, or a made-up one if the members stopped the walk.
pub(super) fn walk(line: &[u8], members: &mut dyn Members) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    Object(members).deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Object<'a>(&'a mut dyn Members);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one object per line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(number) = map.next_key_seed(Key(self.0))? {
            match number {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(number) => {
                    let value = map.next_value::<&RawValue>()?;
                    self.0.take(number, value.get().as_bytes()).map_err(|()| A::Error::custom("stopped"))?;
                }
            }
        }
        Ok(())
    }
}

struct Key<'a>(&'a mut dyn Members);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Option<usize>, E> {
        Ok(self.0.find(key))
    }
}
