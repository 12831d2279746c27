//! `approx_distinct` of windows that move on: how many values lie in each register of the sketch, at each height.
//!
//! A sketch knows the greatest height of each register, which does not say what it is once a value has gone. Where values are counted by
//! register and height it does, and the estimate is DataFusion's to the last digit.
//!
//! Source: Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm"; Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches", whose improved raw estimator DataFusion has.

use std::{collections::BTreeMap, f64::consts::LN_2, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, builder::UInt64Builder, cast::AsArray, types::*};
use arrow_schema::DataType;
use datafusion_common::hash_utils::{HLL_RANDOM_STATE, create_hashes};
use thalweg_core::{
    Error, Result,
    aggregate::{Follower, Slide, Windows, is_counted},
    moving::{Bag, Bagged},
};

use crate::error::from_datafusion;

/// So many bits of a hash say which register it is for; the height is how many zeros the others end with, and one.
const REGISTER_BITS: u32 = 14;
const REGISTERS: u32 = 1 << REGISTER_BITS;
const HEIGHTS: u32 = 64 - REGISTER_BITS + 1;
/// So many values are small: each has a register of its own then.
const SMALL: u32 = 1 << 16;
/// So many bits hold a height.
const HEIGHT_BITS: u32 = 6;

/// What follows windows for this function of values of this type, where it is one that can.
pub fn sketch(name: &str, kind: &DataType) -> Option<Box<dyn Slide>> {
    let is_exact = match kind {
        _ if name != "approx_distinct" => return None,
        DataType::Null => return None,
        // There are few enough of these to count them.
        DataType::Boolean | DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => true,
        _ => false,
    };
    Some(Box::new(Sketch { is_exact }))
}

#[derive(Clone, Copy)]
struct Sketch {
    is_exact: bool,
}

impl Slide for Sketch {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut found = UInt64Builder::with_capacity(windows.windows.len());
        let mut registers = self.bag();
        if let Some(state) = windows.before.first() {
            self.put_before(state, &mut registers)?;
        }
        self.follow(registers, windows, &mut found)?;
        Ok(Some(Arc::new(found.finish())))
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

impl Bagged for Sketch {
    type Bag = Registers;
    type Builder = UInt64Builder;

    fn bag(&self) -> Registers {
        let mut highest = [0; HEIGHTS as usize + 1];
        highest[0] = if self.is_exact { SMALL } else { REGISTERS };
        Registers { counts: BTreeMap::new(), below: Vec::new(), highest }
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u32>>> {
        let column = &arguments[0];
        let values = if self.is_exact { small(column)? } else { places(column)? };
        let nulls = column.logical_nulls();
        let counts = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && is_counted(filter, row);
        Ok(values.into_iter().enumerate().map(|(row, value)| counts(row).then_some(value)).collect())
    }

    fn put(&self, registers: &Registers, found: &mut UInt64Builder) -> Result<()> {
        found.append_value(match self.is_exact {
            true => registers.counts.len() as u64,
            false => registers.estimate(),
        });
        Ok(())
    }
}

impl Sketch {
    /// Puts in what a state of DataFusion's has, which stays: small values, hashes, or where there are many values the heights of registers.
    fn put_before(self, state: &ArrayRef, registers: &mut Registers) -> Result<()> {
        if self.is_exact {
            let values = state.as_list_opt::<i32>().ok_or_else(not_a_state)?.value(0);
            small(&values)?.into_iter().for_each(|place| registers.change(place, true));
            return Ok(());
        }
        let bytes = state.as_binary_opt::<i32>().ok_or_else(not_a_state)?.value(0);
        if bytes.len() == REGISTERS as usize {
            registers.below = bytes.to_vec();
            registers.highest = [0; HEIGHTS as usize + 1];
            for height in bytes {
                *registers.highest.get_mut(usize::from(*height)).ok_or_else(not_a_state)? += 1;
            }
            return Ok(());
        }
        let (hashes, _) = bytes.as_chunks();
        hashes.iter().for_each(|hash| registers.change(place(u64::from_le_bytes(*hash)), true));
        Ok(())
    }
}

fn not_a_state() -> Error {
    Error::bug("what is before windows is no state of approx_distinct")
}

/// The lowest place in the register of each small value.
fn small(column: &ArrayRef) -> Result<Vec<u32>> {
    let of = |value: u16| u32::from(value) << HEIGHT_BITS | 1;
    macro_rules! numbers {
        ($kind:ty) => {
            column.as_primitive::<$kind>().values().iter().map(|value| of(*value as u16)).collect()
        };
    }
    Ok(match column.data_type() {
        DataType::Boolean => column.as_boolean().values().iter().map(|value| of(value.into())).collect(),
        DataType::Int8 => numbers!(Int8Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::UInt16 => numbers!(UInt16Type),
        kind => return Err(Error::bug(format!("approx_distinct of {kind}, which are not small"))),
    })
}

/// The register and the height of each value.
fn places(column: &ArrayRef) -> Result<Vec<u32>> {
    let mut hashes = vec![0; column.len()];
    create_hashes([column], &HLL_RANDOM_STATE, &mut hashes).map_err(|error| from_datafusion(&error))?;
    Ok(hashes.into_iter().map(place).collect())
}

/// The register and the height that a hash says.
fn place(hash: u64) -> u32 {
    let register = hash as u32 % REGISTERS;
    let height = (hash >> REGISTER_BITS).trailing_zeros().min(HEIGHTS - 1) + 1;
    register << HEIGHT_BITS | height
}

/// Values by their places.
#[derive(Debug)]
struct Registers {
    /// How many values each place has that has some.
    counts: BTreeMap<u32, u32>,
    /// The greatest heights of what was before all values; empty where nothing was.
    below: Vec<u8>,
    /// Of how many registers this is the greatest height.
    highest: [u32; HEIGHTS as usize + 1],
}

impl Bag for Registers {
    type Value = u32;

    fn change(&mut self, place: u32, comes: bool) {
        let is_other = match comes {
            true => {
                let count = self.counts.entry(place).or_default();
                *count += 1;
                *count == 1
            }
            false => {
                let count = self.counts.get_mut(&place).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if count == 0 {
                    self.counts.remove(&place);
                }
                count == 0
            }
        };
        if !is_other {
            return;
        }
        let (first, height) = (place >> HEIGHT_BITS << HEIGHT_BITS, place % (1 << HEIGHT_BITS));
        let others = self.counts.range(first..first + (1 << HEIGHT_BITS)).rev();
        let other = others.map(|(other, _)| other % (1 << HEIGHT_BITS)).find(|other| *other != height).unwrap_or(0);
        let below = self.below.get((place >> HEIGHT_BITS) as usize).map_or(0, |height| u32::from(*height));
        let other = other.max(below);
        if other < height {
            let [from, to] = if comes { [other, height] } else { [height, other] };
            self.highest[from as usize] -= 1;
            self.highest[to as usize] += 1;
        }
    }

    fn bytes(&self) -> usize {
        // Nodes of the tree are two thirds full, about.
        size_of::<Self>() + self.counts.len() * 3 * size_of::<u32>()
    }
}

impl Registers {
    /// About how many distinct values there are.
    fn estimate(&self) -> u64 {
        let all = f64::from(REGISTERS);
        let share = |height: u32| f64::from(self.highest[height as usize]) / all;
        let full = all * tau(1.0 - share(HEIGHTS));
        let heights = (1..HEIGHTS).rev().map(|height| f64::from(self.highest[height as usize]));
        let sum = heights.fold(full, |sum, registers| (sum + registers) * 0.5) + all * sigma(share(0));
        (0.5 / LN_2 * all * all / sum).round() as u64
    }
}

/// What registers without a value add: ∑ of x^(2^k) · 2^(k-1).
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// What registers of the greatest height that there is add: ⅓ (1 - x - ∑ of (1 - x^(2^-k))² · 2^-k).
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root).powi(2) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}
