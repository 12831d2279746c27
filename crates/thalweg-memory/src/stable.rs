//! A list that grows while others read it, and whose elements stay where they are.

use std::sync::OnceLock;

/// The first segment has so many places; each next one twice as many.
const FIRST: usize = 8;
const SEGMENTS: usize = 40;

/// Elements by number, as they are added.
pub struct Stable<T> {
    segments: [OnceLock<Box<[OnceLock<T>]>>; SEGMENTS],
}

impl<T> Default for Stable<T> {
    fn default() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS] }
    }
}

impl<T> Stable<T> {
    /// The element of a number, if there is one.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        let (segment, place) = place_of(number);
        self.segments.get(segment)?.get()?[place].get()
    }

    /// Gives a number its element, and says whether it had none.
    pub fn set(&self, number: usize, element: T) -> bool {
        let (segment, place) = place_of(number);
        let places = self.segments[segment].get_or_init(|| (0..FIRST << segment).map(|_| OnceLock::new()).collect());
        places[place].set(element).is_ok()
    }

    /// Takes all elements out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

fn place_of(number: usize) -> (usize, usize) {
    let segment = (number / FIRST + 1).ilog2() as usize;
    (segment, number - FIRST * ((1 << segment) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are() {
        let list = Stable::default();
        assert!(list.set(0, 0) && !list.set(0, 7));
        let first = list.get(0).unwrap();
        for number in 1..1000 {
            assert_eq!(list.get(number), None);
            assert!(list.set(number, number));
        }
        assert!((0..1000).all(|number| list.get(number) == Some(&number)));
        assert!(std::ptr::eq(first, list.get(0).unwrap()));
    }
}
