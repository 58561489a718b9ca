#!/bin/bash
# Environment variables of Tutti have one home, the table in src/base/option_list.h:
#   * no string of src/, tools/ and train/ begins with the name of one: code says OPTION_NAME or option_names.NAME;
#   * every name within such a string, in the bindings and in the documents is in the table, or in the public headers or the build files;
#     so is every variable that a test reads, unless its name begins with TUTTI_TEST_;
#   * every option of the table is read by somebody.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi

# Findings of one tree.
find_offences() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TUTTI_ROOT/scripts python3 - "$1" <<'END'
import glob, os, re, sys
import options

os.chdir(sys.argv[1])
NAME = re.compile(r"\bTUTTI_[A-Z0-9_]*[A-Z0-9]\b")
offences = []

def files(*patterns):
    return sorted({path for pattern in patterns for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)})

def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()

def words_of(*patterns):
    return set(re.findall(r"\w+", " ".join(read(path) for path in files(*patterns))))

def strings(source):
    """[(line, text)] of the strings of C code, without comments."""
    found = []
    for token in re.finditer(r'/\*.*?\*/|//[^\n]*|\'(?:[^\'\\\n]|\\.)*\'|"((?:[^"\\]|\\.)*)"', source, re.S):
        if token.group(1) is not None:
            found.append((source.count("\n", 0, token.start()) + 1, token.group(1)))
    return found

rows = options.parse_options(read(options.LIST))
known = {row.variable for row in rows}
declared = words_of("include/tutti/*.h", "include/tutti/train/*.h", "src/tutti.map")
built = words_of("CMakeLists.txt", "CMakePresets.json", "cmake/*")

code = [path for path in files("src/**/*.[ch]", "src/**/*.inc", "studio/**/*.[ch]", "tools/**/*.[ch]", "train/*.[ch]")
        if not re.search(r"_(test\.c|fuzz\.[ch])$", path)]
used = ""
for path in code:
    source = read(path)
    if not path.startswith("src/base/option"):
        used += re.sub(r"/\*.*?\*/", "", source, flags=re.S)
    elif path == options.LIST:
        continue
    for line, text in strings(source):
        place = "%s:%d" % (path, line)
        if text == options.PREFIX and path == "src/base/option.h":
            continue
        if text.startswith(options.PREFIX):
            offences.append("%s: \"%.40s\" spells out what the table of options has" % (place, text))
            continue
        for name in NAME.findall(text):
            if name not in known | declared:
                offences.append("%s: no option is called %s" % (place, name))
for path in files("bindings/*/src/**/*.py"):
    for name in re.findall(r"[\"'](TUTTI_[A-Z0-9_]+)[\"']", read(path)):
        if name not in known | declared:
            offences.append("%s: %s is not in the table of options" % (path, name))

# Tests may have options of their own, with a prefix that says so.
for path in files("src/**/*_test.c", "studio/**/*_test.c", "tests/**/*.[ch]", "tests/**/*.sh", "tests/**/*.py", "check", "bench/*", "bindings/*/tests/**/*.py"):
    for name in re.findall(r"(?:getenv\(\"|\$\{?|environ(?:\.get\(|\[)\")(TUTTI_[A-Z0-9_]+)", read(path)):
        if name not in known and not name.startswith("TUTTI_TEST_") and path != "tests/repo/options_test.sh":
            offences.append("%s: reads %s, which is not in the table of options" % (path, name))

python = words_of("bindings/*/src/**/*.py")
tests = words_of("tests/**/*.[ch]", "tests/**/*.sh", "tests/**/*.py", "src/**/*_test.c", "studio/**/*_test.c", "check", "bindings/*/tests/**/*.py")
for row in rows:
    name = row.variable[len(options.PREFIX):]
    if row.group == "PYTHON":
        is_read = row.variable in python
    elif row.group == "TEST":
        is_read = row.variable in tests
    else:
        is_read = re.search(r"\b(?:OPTION_|option_names\.)%s\b" % name, used) is not None
    if not is_read:
        offences.append("%s: nobody reads %s" % (options.LIST, row.variable))

for path in files("README.md", "docs/**/*.md", "man/*.[1-9]"):
    for number, line in enumerate(read(path).split("\n"), 1):
        if "there is no such option" in line: # shows what is said of a mistake
            continue
        for name in NAME.findall(line.replace("\\fB", " ").replace("\\fR", " ").replace("\\", "")):
            if name not in known | declared | built:
                offences.append("%s:%d: there is no %s" % (path, number, name))
print("\n".join(offences), end="\n" if offences else "")
sys.exit(bool(offences))
END
}

# The test can fail: a small tree with offences of each sort, and as many lines that are fine.
self_test() {
    local tree expected offences
    tree=$(mktemp -d)
    mkdir -p "$tree"/{include/tutti,src/{base,comm},tools,train,tests,docs,man,cmake,bindings/python/src}
    cat >"$tree/src/base/option_list.h" <<'END'
#define OPTION_LIST(X)                                   \
    X(JOB, GOOD, COUNT(1, 4), "1", "It has (\"one\") "   \
      "reader.")                                         \
    X(JOB, LONELY, CHOICE("a", "b"), "a", "No reader.")  \
    X(LAUNCH, NAMED, TEXT("any text"), "", "A name.")    \
    X(PYTHON, SNAKE, BOOLEAN, "", "A binding's.")        \
    X(TEST, TRIAL, BOOLEAN, "", "A test's.")             \
    X(TEST, IDLE, BOOLEAN, "", "No reader either.")
END
    echo '#define OPTION_PREFIX "TUTTI_"' >"$tree/src/base/option.h"
    echo 'int x = TUTTI_OK;' >"$tree/include/tutti/tutti.h"
    echo 'option(TUTTI_BUILT "" ON)' >"$tree/cmake/build.cmake"
    cat >"$tree/src/comm/a.c" <<'END'
/* "TUTTI_GOOD" in a comment, and OPTION_LONELY. */
int good = option_count(OPTION_GOOD);
const char *text = getenv("TUTTI_GOOD");
const char *message = "set TUTTI_GOOD, returns TUTTI_OK";
const char *wrong = "set TUTTI_GOD"; // "TUTTI_GOOD"
END
    echo 'char *name = getenv("TUTTI_GOOD");' >"$tree/src/comm/a_test.c"
    printf '#define PREFIX "TUTTI_"\nsetenv(option_names.NAMED, "\\"TUTTI_", 1);\n' >"$tree/tools/tool.c"
    echo 'puts("x" "TUTTI_GOOD=1");' >"$tree/train/a.h"
    printf 'echo "$TUTTI_TRIAL" "${TUTTI_TEST_MINE-}"\necho "${TUTTI_YOURS:-5}"\n' >"$tree/tests/a_test.sh"
    printf 'environ["TUTTI_SNAKE"]\nenviron["TUTTI_CAMEL"]\n' >"$tree/bindings/python/src/a.py"
    printf 'TUTTI_GOOD TUTTI_OK TUTTI_BUILT TUTTI_TEST_\n`TUTTI_BAD`\n' >"$tree/docs/a.md"
    printf '.B \\fBTUTTI_GOOD\\fR\n.B \\fBTUTTI_WORSE\\fR\n' >"$tree/man/a.7"
    expected='bindings/python/src/a.py docs/a.md:2 man/a.7:2 src/base/option_list.h src/base/option_list.h'
    expected+=' src/comm/a.c:3 src/comm/a.c:5 tests/a_test.sh tools/tool.c:1 train/a.h:1 '
    offences=$(find_offences "$tree" || true)
    # shellcheck disable=SC2001
    offences=$(sed 's/: .*//' <<<"$offences" | sort | tr '\n' ' ')
    rm -rf "$tree"
    if [[ $offences != "$expected" ]]; then
        echo "this test does not work: it found $offences"
        echo "                        instead of $expected"
        return 1
    fi
}

self_test
find_offences .
