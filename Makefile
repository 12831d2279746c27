# Two commands are enough: `make demo` shows what it is, `make test` checks all of it.

# Continuous integration builds outside the clone, so that the next run is warm.
ifdef CI
export CARGO_TARGET_DIR ?= $(HOME)/.cache/thalweg-ci-target
endif

# The model of how tasks sleep is compiled in its own way, and lies apart.
LOOM := $(abspath $(or $(CARGO_TARGET_DIR),target))/loom

# So are schedules of threads that are tried at random.
SHUTTLE := $(abspath $(or $(CARGO_TARGET_DIR),target))/shuttle

# What is fuzzed has counters in all its branches.
FUZZ := $(abspath $(or $(CARGO_TARGET_DIR),target))/fuzz
FUZZ_SECONDS := 60
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Zsanitizer=address --cfg fuzzing

# Tools of the tests lie with what is built.
TOOLS := $(abspath $(or $(CARGO_TARGET_DIR),target))/tools
GUNGRAUN := 0.20.0

.PHONY: demo test lint loom shuttle simulate product transparency soak fuzz instructions goldens help

help:
	@echo 'make demo     build, and run a year of departures through a windowed query'
	@echo 'make test     run all tests'
	@echo 'make lint     formatting, warnings and documentation'
	@echo 'make loom     run the models of threads: of pages that they fill together, of pools, of an index, of sleeping and waking'
	@echo 'make shuttle  run all ways in which threads fill pages together, in random orders'
	@echo 'make simulate run queries in random interleavings, 100,000 of them (SEEDS=…); THALWEG_SEED=… repeats one'
	@echo 'make product  run every case of tests/slt in every way there is: 864 at most'
	@echo 'make transparency  compare what ten million rows give in parallel with what one instance gives, 20 times'
	@echo 'make soak     run joins and windows at full rate, eight queries in turn, ten minutes each: memory must stay flat (THALWEG_SOAK_ONLY=… runs one)'
	@echo 'make fuzz     damage pages that came from elsewhere for a minute (FUZZ_SECONDS=…), and read them; needs a C++ compiler'
	@echo 'make instructions  count those of the hot kernels, and fail if one takes more than it may'
	@echo 'make goldens  write what comes out into the cases of tests/slt; read the difference'

demo:
	cargo build --release --locked --package thalweg
	cargo run --release --locked --quiet --package thalweg -- run examples/departures.sql

# Twice more with less than the machine has: results must not depend on which kernels run.
test: lint
	cargo test --workspace --locked
	THALWEG_SIMD=portable cargo test --workspace --locked --test slt --test windows
	THALWEG_SIMD=avx2 cargo test --workspace --locked --test slt --test windows
	$(MAKE) loom
	$(MAKE) shuttle
	$(MAKE) instructions

# A toolchain without rustfmt or clippy tests the rest.
lint:
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else echo 'no rustfmt: formatting is not checked'; fi
	@if cargo clippy --version >/dev/null 2>&1; \
	then cargo clippy --workspace --all-targets --locked -- --deny warnings; \
	else echo 'no clippy: warnings are not checked'; fi

# All interleavings of a few threads: seconds, once all is built with the model checker in place of atomics and locks.
loom:
	cd crates/thalweg-runtime/loom && RUSTFLAGS="$$RUSTFLAGS --cfg loom" CARGO_TARGET_DIR='$(LOOM)' cargo test --release --locked --lib
	RUSTFLAGS="$$RUSTFLAGS --cfg loom" CARGO_TARGET_DIR='$(LOOM)' \
	cargo test --release --locked --package thalweg-memory --package thalweg-shuffle --test models

# Random interleavings where there are too many for all: half a minute. SHUTTLE_RANDOM_SEED=… tries others.
shuttle:
	RUSTFLAGS="$$RUSTFLAGS --cfg shuttle" CARGO_TARGET_DIR='$(SHUTTLE)' \
	cargo test --release --locked --package thalweg-shuffle --test schedules

# `make test` tries 10,000 of these. What fails names its seed.
SEEDS := 100000
simulate:
	THALWEG_SEEDS=$(SEEDS) cargo test --workspace --locked --test simulation

# Every case of tests/slt with all batch sizes, workers, merges, strategies and phases, with barriers and without: 100 minutes on two cores beside builds.
product:
	THALWEG_PRODUCT=1 cargo test --release --workspace --locked --test slt

# Also in `make test`, over fewer rows.
transparency:
	THALWEG_ROWS=10000000 THALWEG_RUNS=20 cargo test --release --workspace --locked --test transparency

# A minute of it is in `make test`.
soak:
	THALWEG_SOAK_SECONDS=600 cargo test --release --workspace --locked --test soak -- --nocapture

# The sanitizer is an option of the nightly compiler, which the stable one takes when it is asked to bootstrap.
fuzz:
	cd fuzz && RUSTC_BOOTSTRAP=1 RUSTFLAGS="$$RUSTFLAGS $(FUZZ_FLAGS)" CARGO_TARGET_DIR='$(FUZZ)' \
	cargo build --release --locked --target x86_64-unknown-linux-gnu
	mkdir -p '$(FUZZ)/corpus'
	'$(FUZZ)/x86_64-unknown-linux-gnu/release/page' -max_total_time=$(FUZZ_SECONDS) -max_len=131 \
	-artifact_prefix='$(FUZZ)/' '$(FUZZ)/corpus'

# Counting needs valgrind, which is installed where that is allowed; without it the rest is tested.
instructions:
	@if ! command -v valgrind >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	then apt-get update -qq && apt-get install -y -qq valgrind >/dev/null || true; fi
	@if ! command -v valgrind >/dev/null; \
	then echo 'no valgrind: instructions are not counted (apt install valgrind)'; \
	else test -x '$(TOOLS)/bin/gungraun-runner' \
	|| cargo install --quiet --locked --version $(GUNGRAUN) --root '$(TOOLS)' gungraun-runner; \
	cd benchmarks/instructions \
	&& GUNGRAUN_RUNNER='$(TOOLS)/bin/gungraun-runner' cargo bench --quiet --locked --bench instructions; fi

goldens:
	THALWEG_BLESS=1 cargo test --locked --package testkit --test slt
