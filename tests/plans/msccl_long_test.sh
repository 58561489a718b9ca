#!/bin/bash
# As msccl_test.sh, with many mutations.
# ctest: label=long label=nosan label=once timeout=600
exec bash "${BASH_SOURCE[0]%/*}/msccl_test.sh" 10000
