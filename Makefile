# One command for each purpose; CI calls `make test` and nothing else.
.PHONY: test check bench build-times instructions docs install dist

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
	cargo build --release --package iosonde-vhost --example bare
	cargo run --release --package iosonde-bench -- $(BENCH)

# How long building and testing take here; nothing else should run. ROUNDS="1 check" shows a part.
build-times:
	@.ci/build-times $(ROUNDS)

# Writes the count that `make test` compares with; to be committed with the reason for its growth.
instructions:
	cargo build --release
	cargo run --package iosonde-bench -- instructions --write benches/instructions.toml

docs:
	cargo doc --workspace --no-deps

install:
	cargo install --path . --locked

# What is handed out: a static binary, manual pages, completions, a .deb, a .tar.gz and their sums.
dist:
	@packaging/dist
