#!/bin/bash
# The Python package does what its tests say, with the library and the programs of the wheel.
# ctest: label=nosan label=once timeout=300 waits needs=wheel
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"
"$python" -m pytest -q -p no:cacheprovider -r s "$TUTTI_ROOT/bindings/python/tests"
