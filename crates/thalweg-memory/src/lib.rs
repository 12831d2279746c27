//! Where bytes live and what is done to them: the kernels, so far. The only crate that will contain `unsafe`.

pub mod kernels;
