# Short names for the presets of CMakePresets.json. Every target sets up what it needs first.
PREFIX ?= /usr/local
BUILD := build

.PHONY: all setup test demo bench fuzz stress install format clean

all: setup
	@cmake --preset release -S . > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log
	@cmake --build $(BUILD)

setup:
	@tools/setup.sh

test: all
	@tests/run.sh

demo: all
	@examples/demo.sh

bench: all
	@bench/run.sh

fuzz: setup
	@tests/fuzz/run.sh

stress: all
	@tests/stress/run.sh

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)
