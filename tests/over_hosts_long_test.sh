#!/bin/bash
# over_hosts_long_test.sh - the slower programs of over_hosts_test.sh.
# ctest: label=long timeout=600
exec "$(dirname "$0")/over_hosts_test.sh" collectives communicators bits concurrency
