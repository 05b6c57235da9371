# Three commands: `make run`, `make test` and `make dist`. They bring what is missing and say first what they install
# system-wide.

SHELL := /bin/sh
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/messina
export CARGO_TARGET_DIR ?= $(CACHE)/target
export PATH := $(HOME)/.cargo/bin:$(PATH)
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)

.PHONY: help run test dist compiler toolchain profile-tools clients-tools browser

help:
	@echo "make run    builds the release binary and starts a node on 127.0.0.1:9042 with data under ./data"
	@echo "make test   brings the client packages the tests need and runs every test"
	@echo "make dist   builds the release binary with the profile of a training run, and its symbols as a separate file"

run: toolchain
	@cargo x run $(ARGS)

test: toolchain clients-tools browser
	@cargo x compat --bring --with-cassandra
	@cargo x ci

dist: toolchain profile-tools
	@cargo x dist $(ARGS)

# Puts together what the training run counted. LLVM 19 is the oldest that reads what the pinned compiler's programs write.
profile-tools:
	@cargo x dist --has-tool >/dev/null 2>&1 && exit 0; \
	rustup component add llvm-tools 2>/dev/null && exit 0; \
	echo "llvm-profdata is missing; installing llvm-19 system-wide with the package manager"; \
	if command -v apt-get >/dev/null 2>&1; then $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q --no-install-recommends llvm-19; \
	else echo "install it by hand, then run this again"; exit 1; fi

# A C compiler links the binary. Installed by the system's package manager when it is missing.
compiler:
	@command -v cc >/dev/null 2>&1 || { \
	  echo "a C compiler is missing; installing gcc system-wide with the package manager"; \
	  if command -v apt-get >/dev/null 2>&1; then $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q gcc g++ libc6-dev make; \
	  elif command -v dnf >/dev/null 2>&1; then $(SUDO) dnf install -y gcc gcc-c++ make; \
	  elif command -v apk >/dev/null 2>&1; then $(SUDO) apk add gcc g++ musl-dev make; \
	  elif command -v pacman >/dev/null 2>&1; then $(SUDO) pacman -S --noconfirm gcc make; \
	  else echo "install a C compiler by hand, then run this again"; exit 1; fi; }

# rustup installs into the user's home; the toolchain itself is pinned by rust-toolchain.toml.
toolchain: compiler
	@command -v cargo >/dev/null 2>&1 || { \
	  echo "the Rust toolchain is missing; installing rustup into $(HOME)/.cargo and $(HOME)/.rustup"; \
	  command -v curl >/dev/null 2>&1 || { echo "curl is needed for that"; exit 1; }; \
	  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none --no-modify-path; }
	@rustc --version >/dev/null 2>&1 || rustup toolchain install

# What the client tests run on: Python 3 with venv, a JDK, Maven, Go, Node.js with npm; openssl makes certificates,
# unshare and setpriv make small disks and powerless processes.
clients-tools:
	@missing=""; \
	python3 -c 'import ensurepip' >/dev/null 2>&1 || missing="$$missing python3 python3-venv"; \
	command -v javac >/dev/null 2>&1 || missing="$$missing default-jdk-headless"; \
	command -v mvn >/dev/null 2>&1 || missing="$$missing maven"; \
	command -v g++ >/dev/null 2>&1 || missing="$$missing g++"; \
	command -v go >/dev/null 2>&1 || missing="$$missing golang-go"; \
	command -v node >/dev/null 2>&1 || missing="$$missing nodejs"; \
	command -v npm >/dev/null 2>&1 || missing="$$missing npm"; \
	command -v openssl >/dev/null 2>&1 || missing="$$missing openssl"; \
	command -v setpriv >/dev/null 2>&1 || missing="$$missing util-linux"; \
	if [ -n "$$missing" ]; then \
	  echo "installing system-wide for the tests:$$missing"; \
	  if command -v apt-get >/dev/null 2>&1; then $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q $$missing; \
	  else echo "install these by hand, then run this again"; exit 1; fi; \
	fi
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' || { \
	  echo "the Node.js driver needs Node.js 20 or newer; install it by hand, then run this again"; exit 1; }

# Draws the pages that `cassandra-stress -graph` writes. Where the distribution has none, they are tested but for that.
browser:
	@command -v chromium >/dev/null 2>&1 && exit 0; \
	command -v apt-get >/dev/null 2>&1 || { echo "no chromium: pages are tested without being drawn"; exit 0; }; \
	echo "installing system-wide for the tests: chromium"; \
	{ $(SUDO) apt-get update -q && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } \
	  || echo "no chromium: pages are tested without being drawn"
