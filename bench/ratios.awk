# ratios.awk - what bench/cluster and bench/loopback print: a table of one collective, every library's time, and the
# ratio of Tutti's to the best peer's and to a bound. Stands behind cells.awk, and reads the same raw lines.
#
# op, n: which cells. title: above the table. wire: bytes that cross the narrowest link for each byte of a buffer, 0 without
# a bound; rate: bytes a second of that link. mean: not "" for a line with the geometric mean of the ratios.
#
# Libraries whose name begins with tutti are no peers; the ratios are those of the first of them in a cell, "tutti". Cells below
# 64 KiB have no bound: latency counts there, which it does not know.

function number(x) {
    return x >= 100 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x)
}
# Also libraries that are no peers, in the order of their first line.
/^#/ || NF != 13 || $2 != op || $3 != n { next }
!($1 in column) { column[$1] = ++column_count; library[column_count] = $1 }
function cell(lib, key) {
    if (!((lib, key) in times)) return "-"
    if ((lib, key) in bad) return "BAD"
    return number(figure(lib, key))
}
function ratio(time, other) {
    if (time <= 0 || other <= 0) return "-"
    return sprintf(time > other ? "**%.2f**" : "%.2f", time / other)
}
END {
    if (!column_count) { printf "\n%s: nothing measured\n", title; exit 1 }
    sort_sizes(op)
    printf "\n%s: us, times of Tutti as ratios\n\n| bytes |", title
    if (wire) printf " bound | to the bound |"
    printf " to the best peer |"
    for (c = 1; c <= column_count; c++) printf " %s |", library[c]
    printf "\n|---:|" (wire ? "---:|---:|" : "") "---:|"
    for (c = 1; c <= column_count; c++) printf "---:|"
    print ""
    for (i = 1; i <= size_count[op]; i++) {
        b = size[op, i]
        key = op SUBSEP n SUBSEP b
        if (!is_measured(key)) continue
        right = ("tutti", key) in times && !(("tutti", key) in bad)
        time = right ? figure("tutti", key) : 0
        if (!right) missing++
        find_best_peer(key)
        line = "| " human(b) " |"
        if (wire) {
            bound = b < 65536 ? 0 : wire * b / rate * 1e6
            line = line " " (bound > 0 ? number(bound) : "-") " | " \
                (bound > 0 && time > 0 ? sprintf("%.3f", time / bound) : "-") " |"
        }
        line = line " " ratio(time, best_time) (best_name == "" ? "" : " (" best_name ")") " |"
        if (time > 0 && best_time > 0) { logs += log(time / best_time); compared++ }
        for (c = 1; c <= column_count; c++) line = line " " cell(library[c], key) " |"
        print line
    }
    if (missing) printf "\nno right result of Tutti for %d sizes\n", missing
    if (mean != "" && compared) printf "\ngeometric mean of %d ratios to the best peer: %.3f\n", compared, exp(logs / compared)
    exit missing > 0
}
