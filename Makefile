# Short names for the presets of CMakePresets.json. Every target sets up what it needs first.
# The sentence after ## is what `make help` prints.
PREFIX ?= /usr/local
BUILD := build

.PHONY: all setup setup-cuda test demo bench fuzz stress gpu-pack test-gpu bench-gpu install uninstall format clean help

all: setup ## build the libraries, henry and henry-worker in build/ (default)
	@cmake --preset release -S . > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log
	@cmake --build $(BUILD)

setup: ## install the Debian packages that building and testing need
	@tools/setup.sh

setup-cuda: ## put NVRTC, the compiler of kernels for NVIDIA GPUs, into build/cuda (90 MB from PyPI)
	@tools/setup.sh cuda $(BUILD)/cuda

test: all ## run all test suites; tests/run.sh SUITE runs one
	@tests/run.sh

demo: all ## build the examples and let a model read handwritten digits
	@examples/demo.sh

bench: all ## measure and write the tables of bench/
	@bench/run.sh

fuzz: setup ## build the fuzz targets with clang and run them for a while
	@tests/fuzz/run.sh

stress: all ## run the long tests: killed workers, full disks, no memory, every operator on OpenCL and as CUDA, more random graphs and sizes
	@tests/stress/run.sh
	@HENRY_TEST_ALL=1 tests/run.sh build unit opencl cuda graphs source python ops_compiled

gpu-pack: all ## gather in build/gpu-pack/, and build/gpu-pack.tar.xz, what a machine with a GPU needs for the next two
	@tools/gpu_pack.sh --archive

test-gpu: all ## test on the GPU of this machine; elsewhere: test.sh of a copy of build/gpu-pack/
	@tools/gpu_pack.sh
	@$(BUILD)/gpu-pack/test.sh

bench-gpu: all ## measure on the GPU of this machine; elsewhere: bench.sh of such a copy
	@tools/gpu_pack.sh
	@$(BUILD)/gpu-pack/bench.sh --out $(BUILD)/bench-gpu

install: all ## install below PREFIX (default /usr/local); DESTDIR is obeyed
	@cmake --install $(BUILD) --prefix $(PREFIX)

uninstall: ## remove what `make install` has put below PREFIX
	@tools/install/uninstall.sh "$(DESTDIR)$(PREFIX)"

format: ## format all C sources and scripts with clang-format; .clang-format has the rule
	@tools/setup.sh format
	@git ls-files -co --exclude-standard '*.c' '*.h' 'share/report/*.js' | xargs clang-format-14 -i

clean: ## remove build/
	@rm -rf $(BUILD)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-10s %s\n' "$$target" "$$text"; done
