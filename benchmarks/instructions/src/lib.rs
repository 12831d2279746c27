//! There is nothing here but the benchmark.
