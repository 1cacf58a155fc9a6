# One command for each purpose; CI calls `make test` and nothing else.
.PHONY: test check bench docs install

# Everything: format, lints, the release binary, every test of every crate. Ends with a summary.
test:
	@.ci/test

# The quick look before a commit.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins
	cargo test --test tidy

# Our own speed beside that of others; never part of the tests. BENCH="--help" shows the choices.
bench:
	cargo build --release
	cargo run --release --package iosonde-bench -- $(BENCH)

docs:
	cargo doc --workspace --no-deps

install:
	cargo install --path . --locked
