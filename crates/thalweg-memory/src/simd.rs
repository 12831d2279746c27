//! One body, compiled for several instruction sets; which one runs is chosen when the program starts.
//!
//! A kernel is a plain function over slices, written so that the compiler turns its loop into vector instructions. The macro
//! [`at_level`] compiles it a second and third time with AVX2 and AVX-512 switched on. So the portable version is not only
//! the specification of the others: it is the same text.

use std::sync::OnceLock;

/// An instruction set that this machine has: the proof that code compiled for it may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Portable,
    Avx2,
    Avx512,
}

impl Level {
    /// What every machine has.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this machine has; or less, if the environment's `THALWEG_SIMD` is `portable` or `avx2`.
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let most = match std::env::var("THALWEG_SIMD").as_deref() {
                Ok("portable") => Kind::Portable,
                Ok("avx2") => Kind::Avx2,
                _ => Kind::Avx512,
            };
            Self::all().into_iter().rfind(|level| level.0 <= most).unwrap_or(Self::PORTABLE)
        })
    }

    /// All that this machine has, the least first.
    pub fn all() -> Vec<Self> {
        let kinds = [Kind::Portable, Kind::Avx2, Kind::Avx512];
        kinds.into_iter().filter(|kind| is_there(*kind)).map(Self).collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            Kind::Avx2 => "AVX2",
            Kind::Avx512 => "AVX-512",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
fn is_there(kind: Kind) -> bool {
    let has_avx2 = || {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    };
    let has_avx512 = || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    };
    match kind {
        Kind::Portable => true,
        Kind::Avx2 => has_avx2(),
        Kind::Avx512 => has_avx2() && has_avx512(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_there(kind: Kind) -> bool {
    kind == Kind::Portable
}

/// Defines a function that runs `body`, an `#[inline(always)]` function with the same arguments, as compiled for a [`Level`]. With
/// two constants behind it, the body is given one of them first: the one for every machine, or what AVX2 and more make of it.
macro_rules! at_level {
    ($(#[$doc:meta])* $visible:vis fn $name:ident $([$($generic:ident : $bound:path),*])?
        ($($argument:ident : $kind:ty),* $(,)?) $(-> $result:ty)? = $body:path $(, $portable:expr, $avx2:expr)?) => {
        $(#[$doc])*
        $visible fn $name $(<$($generic: $bound),*>)? (level: $crate::simd::Level, $($argument: $kind),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2 $(<$($generic: $bound),*>)? ($($argument: $kind),*) $(-> $result)? {
                $body($($avx2,)? $($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
            fn avx512 $(<$($generic: $bound),*>)? ($($argument: $kind),*) $(-> $result)? {
                $body($($avx2,)? $($argument),*)
            }
            #[allow(unsafe_code)]
            match level.kind() {
                // SAFETY: a level is only made where the machine has its instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Kind::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Kind::Avx2 => unsafe { avx2($($argument),*) },
                _ => $body($($portable,)? $($argument),*),
            }
        }
    };
}

pub(crate) use at_level;

/// Asks for the memory `distance` bytes behind these values, a cache line after the other: it will be read soon. Memory that is
/// not there is not asked for.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(values: &[T], distance: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of_val(values)).step_by(64) {
        let address = values.as_ptr().cast::<i8>().wrapping_add(line + distance);
        // SAFETY: a hint that reads nothing may name any address.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) };
    }
}

/// Copies bytes without bringing what is written into the caches, where the machine can and both begin and end on the same part of a
/// cache line; the rest is copied as usual. Both must have the same length.
#[allow(unsafe_code)]
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "as many bytes as there is room for");
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = to.as_ptr().align_offset(LINE).min(to.len());
        let lines = (to.len() - head) / LINE;
        let (to_head, to_rest) = to.split_at_mut(head);
        let (from_head, from_rest) = from.split_at(head);
        to_head.copy_from_slice(from_head);
        for line in 0..lines {
            for part in 0..4 {
                let at = line * LINE + part * 16;
                // SAFETY: both have these 16 bytes; those that are written are aligned, as the whole line is.
                unsafe {
                    let value = _mm_loadu_si128(from_rest.as_ptr().add(at).cast());
                    _mm_stream_si128(to_rest.as_mut_ptr().add(at).cast::<__m128i>(), value);
                }
            }
        }
        to_rest[lines * LINE..].copy_from_slice(&from_rest[lines * LINE..]);
        if lines > 0 {
            // SAFETY: every x86-64 has it. What was written past the caches is else not ordered with what says that it was.
            unsafe { _mm_sfence() };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_past_the_caches_arrives() {
        let from: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
        for (start, end) in [(0, 0), (0, 1000), (1, 64), (3, 200), (64, 128), (63, 999)] {
            let mut to = vec![0; 1064];
            copy_past_caches(&mut to[7 + start..7 + end], &from[start..end]);
            assert_eq!(to[7 + start..7 + end], from[start..end]);
            assert!(to[..7 + start].iter().chain(&to[7 + end..]).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn the_best_is_one_of_all_and_the_portable_one_is_always_there() {
        assert_eq!(Level::all()[0], Level::PORTABLE);
        assert!(Level::all().contains(&Level::best()));
    }
}
