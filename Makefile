# One command for each purpose. CI calls only `make test`.
.PHONY: test check bench build-times instructions docs install dist

# Checks everything: format, lints, the release binary, every test of every crate. Ends with a summary.
test:
	@.ci/test

# Quick check before a commit.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins
	cargo test --test tidy

# Compares our speed with that of other tools; never part of the tests. BENCH="--help" shows the choices.
bench:
	cargo build --release
	cargo build --release --package iosonde-vhost --example bare
	cargo run --release --package iosonde-bench -- $(BENCH)

# Times the build and the tests on this machine; nothing else should run. ROUNDS="1 check": once, one row.
build-times:
	@.ci/build-times $(ROUNDS)

# Writes the count that `make test` compares with. Commit it with the reason for its growth.
instructions:
	cargo build --release
	cargo run --package iosonde-bench -- instructions --write benches/instructions.toml

docs:
	cargo doc --workspace --no-deps

install:
	cargo install --path . --locked

# The release files: a static binary, manual pages, completions, a .deb, a .tar.gz and their checksums.
dist:
	@packaging/dist
