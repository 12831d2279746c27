# Two commands are enough: `make demo` shows what it is, `make test` checks all of it.

# Continuous integration builds outside the clone, so that the next run is warm.
ifdef CI
export CARGO_TARGET_DIR ?= $(HOME)/.cache/thalweg-ci-target
endif

.PHONY: demo test lint goldens help

help:
	@echo 'make demo     build, and run a year of departures through a windowed query'
	@echo 'make test     run all tests'
	@echo 'make lint     formatting, warnings and documentation'
	@echo 'make goldens  write what comes out into the cases of tests/slt; read the difference'

demo:
	cargo build --release --locked --package thalweg
	cargo run --release --locked --quiet --package thalweg -- run examples/departures.sql

test: lint
	cargo test --workspace --locked

# A toolchain without rustfmt or clippy tests the rest.
lint:
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else echo 'no rustfmt: formatting is not checked'; fi
	@if cargo clippy --version >/dev/null 2>&1; \
	then cargo clippy --workspace --all-targets --locked -- --deny warnings; \
	else echo 'no clippy: warnings are not checked'; fi

goldens:
	THALWEG_BLESS=1 cargo test --locked --package testkit --test slt
