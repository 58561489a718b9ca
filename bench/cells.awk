# cells.awk - what bench/run and bench/table have in common: reads the raw lines of peers/run (its README has the
# columns) and knows, per library and cell, the figure and the best peer. A cell is `op SUBSEP ranks SUBSEP bytes`.
#
# metric: med or loop, see peers/mpi_bench.c; by-size is loop below 16 KiB, where what a call costs is asked, and med
# from there on.

/^#/ || NF != 13 { next }
{
    key = $2 SUBSEP $3 SUBSEP $5
    if ($1 !~ /^tutti/ && !($1 in known)) { known[$1] = 1; peer[++peer_count] = $1 }
    if (!(($2, $5) in seen)) { seen[$2, $5] = 1; size[$2, ++size_count[$2]] = $5 }
    value[$1, key, ++times[$1, key]] = uses_loop($5) ? $10 : $8
    if ($13 == "BAD") bad[$1, key] = 1
}

function uses_loop(bytes) {
    return metric == "loop" || (metric == "by-size" && bytes < 16384)
}
function human(b) {
    if (b >= 1048576 && b % 1048576 == 0) return b / 1048576 " MiB"
    return b >= 1024 && b % 1024 == 0 ? b / 1024 " KiB" : b " B"
}
# The median of the repeats, as peers/run has it (of an even number the lower one): on virtual machines the host moves
# CPUs between near and far cores within seconds, and what crosses between them then takes up to ten times as long.
# The best repeat would compare who was near once, and the best of several peers would have more tries.
function figure(lib, key,    n, i, j, sorted, swap) {
    n = times[lib, key]
    for (i = 1; i <= n; i++) {
        sorted[i] = value[lib, key, i] + 0
        for (j = i; j > 1 && sorted[j - 1] > sorted[j]; j--) {
            swap = sorted[j]; sorted[j] = sorted[j - 1]; sorted[j - 1] = swap
        }
    }
    return sorted[int((n + 1) / 2)]
}
# Sets best_name ("" where nobody has a right result) and best_time.
function find_best_peer(key,    i, time) {
    best_name = ""
    best_time = 0
    for (i = 1; i <= peer_count; i++) {
        if (!((peer[i], key) in times) || (peer[i], key) in bad) continue
        time = figure(peer[i], key)
        if (best_name == "" || time < best_time) { best_time = time; best_name = peer[i] }
    }
}
# Whether anybody was measured there: blocks are cut to whole elements, so other ranks may have other sizes.
function is_measured(key,    p) {
    if (("tutti", key) in times) return 1
    for (p = 1; p <= peer_count; p++) if ((peer[p], key) in times) return 1
    return 0
}
function sort_sizes(op,    i, j, swap) {
    for (i = 2; i <= size_count[op]; i++)
        for (j = i; j > 1 && size[op, j - 1] + 0 > size[op, j] + 0; j--) {
            swap = size[op, j]; size[op, j] = size[op, j - 1]; size[op, j - 1] = swap
        }
}
