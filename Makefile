# A front door to CMake (see CMakePresets.json):
#     make                   a release in build/, programs in build/bin/
#     make test              its quick tests
#     make asan, make tsan   the same tests with sanitizers
#     make fuzz              every fuzzer for a while
#     make faults            how long failures take to be found, RUNS=50 times each
#     make soak MINUTES=30   faults at random, with 8 ranks
#     make programs MINUTES=30 [SEED=1]  random programs, and what is left of those that fail
#     make coverage          lines that the tests reach, per file
#     make format            clang-format over all sources
#     make reference         docs/reference/api.md and the pages in docs/reference/api, man/tutti.7, include/tutti/forms.h and the tables of
#                            docs/reference/options.md, from the public headers and the table of options
#     make pictures          the pictures of docs/ and the gallery, from the algorithms
#     make paths             the tables of docs/explanation/performance.md that say which ways messages take
#     make site              the pages as a site with search, build/site/html/index.html; needs packages from PyPI
#     make wheels            wheels that need no compiler, in build/wheels; TORCH=PYTHON: also that for its PyTorch
#     make kernels           src/gpu/kernels.ptx, from the sources of what devices run; needs clang 14
#     make install PREFIX=/usr/local
#     make clean
# JOBS=N limits parallel compiling and testing.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
RUNS ?= 50
MINUTES ?= 30
SEED ?=
SOURCES = $(shell find include src studio tests tools bench examples train bindings -name "*.[ch]" -o -name "*.inc" 2>/dev/null)

.PHONY: all configure test asan tsan fuzz coverage faults soak programs format reference pictures paths site wheels kernels install clean
.NOTPARALLEL:

all: configure
	@cmake --build build -j $(JOBS)

configure:
	@test -f build/build.ninja || cmake --preset release

test: all
	@ctest --preset release -j $$((2 * $(JOBS)))

asan tsan fuzz coverage:
	@test -f build/$@/build.ninja || cmake --preset $@
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -j $$((2 * $(JOBS)))
	@if test $@ = coverage; then scripts/coverage; fi

faults: all
	@bench/faults -r $(RUNS)

soak: all
	@build/tests/tests_faults_random_test --ranks 8 --faults 500 --minutes "$(MINUTES)"

programs: all
	@build/tests/tests_programs_random_test --minutes "$(MINUTES)" --minimise $(if $(SEED),--seed $(SEED))

format:
	@clang-format -i $(SOURCES)

reference:
	@scripts/reference.py

pictures: all
	@scripts/pictures.py --tutti-plan build/bin/tutti-plan

paths: all
	@scripts/path_tables.py --tutti-plan build/bin/tutti-plan

site: all
	@scripts/site

wheels:
	@scripts/wheels $(TORCH)

kernels:
	@scripts/kernels.sh >build-kernels.ptx && mv build-kernels.ptx src/gpu/kernels.ptx || { rm -f build-kernels.ptx; exit 1; }

install: all
	@cmake --install build --prefix "$(PREFIX)"

clean:
	@rm -rf build
