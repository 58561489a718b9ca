#!/bin/bash
# hosts_long_test.sh - the slower programs of hosts_test.sh.
# ctest: label=long timeout=600
exec "$(dirname "$0")/hosts_test.sh" calls/collectives calls/communicators calls/bits calls/concurrency
