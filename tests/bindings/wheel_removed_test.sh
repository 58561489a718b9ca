#!/bin/bash
# `pip uninstall` leaves nothing of the wheel, after all tests that used it.
# ctest: label=nosan label=once removes=wheel
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"
trap 'rm -rf "$work" "$wheel" "${TUTTI_BUILD:?}/wheel"' EXIT

pip --disable-pip-version-check uninstall -q -y tutti-comm >log 2>&1 || { cat log; exit 1; }
left=$(find "$wheel/venv" -name '*tutti*')
[[ -z $left ]] || { echo "left: $left"; exit 1; }
