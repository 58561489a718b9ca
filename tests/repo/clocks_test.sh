#!/bin/bash
# The library asks no clock that somebody can set: prints every line of src/ that does.  The one exception tells people when a dump was
# written.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

asks='CLOCK_REALTIME|CLOCK_TAI|gettimeofday *\(|[^_a-z]time *\(NULL|timespec_get *\(|pthread_cond_timedwait *\(|sem_timedwait *\('
find_offences() { # folder
    grep -rnE "$asks" "$1" --include='*.[ch]' --include='*.inc' | grep -vE '_(test|fuzz)\.c:|src/health/trace\.c:[0-9]+: *clock_gettime\(CLOCK_REALTIME' || true
}

# It finds what it should.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'int f(void)\n{\n    return gettimeofday(NULL, NULL);\n}\n' >"$work/bad.c"
[ -n "$(find_offences "$work")" ] || { echo "the test finds nothing"; exit 1; }

offences=$(find_offences src; find_offences studio)
[ -z "$offences" ] || { printf 'these ask a clock that somebody can set:\n%s\n' "$offences"; exit 1; }
