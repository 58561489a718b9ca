# shellcheck shell=bash
# The table of layers, which docs/develop/architecture.md holds, for the tests beside this file.

# Prints each folder of the table as "FOLDER: FOLDER ...", those of src/ without that, with all that it may use
# besides itself and include/.  "X alone" is X; everything else comes with base and os.
layers_table() {
    awk -F '|' '
        /^## / { inside = $0 == "## Directories and their dependencies" }
        !inside || $2 !~ /^ `[a-z0-9\/]+` $/ { next }
        {
            folder = $2
            gsub(/[ `]/, "", folder)
            allowed = $3
            gsub(/,/, " ", allowed)
            if (allowed ~ / all of the above /) allowed = above
            else if (allowed ~ / nothing /) allowed = ""
            else if (!sub(/ alone /, " ", allowed)) allowed = allowed " base os"
            gsub(/–/, "", allowed)
            gsub(/ +/, " ", allowed)
            sub(/ $/, "", allowed)
            print folder ":" allowed
            if (sub(/^src\//, "", folder)) above = above " " folder
        }' "${TUTTI_ROOT:?}/docs/develop/architecture.md"
}
