//! Where bytes live and what is done to them: the kernels, so far. The only crate that contains `unsafe`.

pub mod kernels;
pub mod simd;
