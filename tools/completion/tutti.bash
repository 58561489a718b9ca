# Completion of Tutti's programs in bash; _tutti is that in zsh.  `cmake --install` puts it where bash-completion looks; by hand:
#     source tools/completion/tutti.bash
#
# Options come from each program's own --help, names of collectives and algorithms from `tutti-plan list`, at the moment
# of completion: only the few words that options take are listed here (tests/tools/completion_test.sh compares them).
# shellcheck shell=bash

# The program as it was typed, or as it is found.
_tutti_help() {
    "${COMP_WORDS[0]}" --help 2>/dev/null
}

_tutti_options() {
    _tutti_help | grep -oE '(^|[ ,[|])--?[a-z][a-z_-]*' | tr -d ' ,[|' | sort -u
}

# Whether an option is followed by a value: one blank and a word stand behind it.  grep reads to the end, for a shell with pipefail.
_tutti_takes_value() {
    _tutti_help | grep -E -- "(^|[ ,[|])$1(, --[a-z_-]+)? [^][ |-]" >/dev/null
}

# tutti-plan beside the program that is completed, or the one that is found.
_tutti_list() {
    local beside
    beside=$(dirname -- "$(type -P -- "${COMP_WORDS[0]}")")/tutti-plan
    if [[ -x $beside ]]; then "$beside" list; else tutti-plan list 2>/dev/null; fi
}

_tutti_collectives() {
    _tutti_list | grep -oE '^[a-z_]+$'
}

# The algorithms of a collective; without one, of all.
_tutti_algorithms() {
    _tutti_list | awk -v of="$1" '/^[a-z_]+$/ { at = $1 } /^  [a-z_]/ { if (of == "" || at == of) print $1 }' | sort -u
}

# What tutti-perf can measure: the lines behind "OP:", without what is in brackets.
_tutti_operations() {
    _tutti_help | sed -n '/^OP:/,/^$/p' | sed 's/^OP://; s/([^)]*)//g; s/,/ /g'
}

# Words for the value of an option, or nothing.
_tutti_values() {
    case $1 in
    --collective) _tutti_collectives ;;
    --algo) _tutti_algorithms "$(_tutti_word 1)" ;;
    -d | --datatype)
        echo float32 float64 bfloat16 int32 int64 float16 float8_e4m3 float8_e5m2 int8 int16 uint8 uint16 uint32 uint64 all
        ;;
    -o | --op) echo sum prod min max avg land lor lxor band bor bxor scaled user user-any all ;;
    --place) echo out in both ;;
    --form) echo blocking started prepared grouped ;;
    --memory) echo host mapped device ;;
    --skew) echo none linear random zero-some one ;;
    --displs) echo null packed gaps reversed ;;
    --rotate) echo never auto always ;;
    --map-by) echo slot node ;;
    --collectives) _tutti_collectives ;;
    --export) echo nccl ;;
    --format)
        case ${COMP_WORDS[0]##*/} in
        tutti-topo) echo tree matrix svg json racks ;;
        tutti-plan)
            if [[ $(_tutti_word 1) == draw ]]; then
                echo svg html
            else
                echo msccl rccl mscclpp
            fi
            ;;
        *) echo table json csv peers ;;
        esac
        ;;
    esac
}

# The n-th word that is neither an option nor an option's value; "" when there is none before the current one.
_tutti_word() {
    local i word found=0
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -* ]]; then
            if _tutti_takes_value "$word"; then ((i++)); fi
            continue
        fi
        if ((++found == $1)); then
            echo "$word"
            return
        fi
    done
}

_tutti_reply() {
    local IFS=$' \t\n'
    # shellcheck disable=SC2207 # words have no blanks
    COMPREPLY=($(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}"))
}

_tutti_reply_files() { # -f: files, -d: folders, -c: programs
    local IFS=$'\n'
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen "$@" -- "${COMP_WORDS[COMP_CWORD]}"))
    compopt -o filenames 2>/dev/null
}

# What both kinds of words have in common; fails when the current word is neither option nor value.
_tutti_common() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if ((COMP_CWORD > 1)) && [[ $previous == -* ]] && _tutti_takes_value "$previous"; then
        case ${COMP_WORDS[0]##*/}:$previous in
        tutti-run:--output) _tutti_reply_files -d ;;
        tutti-run:--rsh) _tutti_reply_files -c ;;
        tutti-run:--hosts | tutti-run:--remote-path) _tutti_reply_files -f ;;
        tutti-run:-H | tutti-run:--host) _tutti_reply_files -A hostname ;;
        tutti-trace:--calibration | tutti-trace:-o | tutti-trace:--output | tutti-plan:-o | tutti-plan:--output | tutti-topo:-o | tutti-topo:--output | tutti-tune:-o | tutti-tune:--output | tutti-synth:-o | tutti-synth:--output | tutti-synth:--topo | tutti-schedule:--draw | tutti-perf:--plot | tutti-perf:--from) _tutti_reply_files -f ;;
        *) _tutti_reply "$(_tutti_values "$previous")" ;;
        esac
        return 0
    fi
    if [[ $current == -* ]]; then
        _tutti_reply "$(_tutti_options)"
        return 0
    fi
    return 1
}

_tutti_run() {
    local program
    program=$(_tutti_word 1)
    if [[ $program ]]; then # what follows belongs to the program
        _tutti_reply_files -f
    elif ! _tutti_common; then
        _tutti_reply_files -c
        if [[ ${COMP_WORDS[COMP_CWORD]} == */* ]]; then _tutti_reply_files -f; fi
    fi
}

_tutti_perf() {
    if _tutti_common; then return; fi
    if [[ $(_tutti_word 1) ]]; then _tutti_reply_files -f; else _tutti_reply "$(_tutti_operations)"; fi
}

_tutti_plan() {
    local action collective
    action=$(_tutti_word 1) collective=$(_tutti_word 2)
    if _tutti_common; then return; fi
    if [[ ! $action ]]; then
        _tutti_reply 'list show verify draw export paths explain'
    elif [[ $action == list || $(_tutti_word 3) ]]; then
        COMPREPLY=()
    elif [[ $collective ]]; then
        _tutti_reply "$(_tutti_algorithms "$collective")"
    else
        _tutti_reply "$(_tutti_collectives)"
        if ((${#COMPREPLY[@]} == 0)); then _tutti_reply_files -f; fi
    fi
}

_tutti_topo() {
    if _tutti_common || [[ $(_tutti_word 1) ]]; then return; fi
    _tutti_reply_files -f
}

_tutti_trace() {
    local command
    command=$(_tutti_word 1)
    if _tutti_common; then return; fi
    case $command in
    '') _tutti_reply 'verdict show query compare report' ;;
    verdict) _tutti_reply_files -d ;;
    show | compare | report) _tutti_reply_files -f ;;
    query) _tutti_reply "$(sed -n 's/.*@tutti-monitor\/\([0-9]*\).*/\1/p' /proc/net/unix 2>/dev/null | sort -nu)" ;;
    esac
}

_tutti_tune() {
    if ! _tutti_common; then _tutti_reply_files -f; fi
}

_tutti_synth() {
    if _tutti_common || [[ $(_tutti_word 1) ]]; then return; fi
    _tutti_reply 'allgather reduce_scatter allreduce broadcast reduce gather scatter alltoall'
}

_tutti_schedule() {
    if _tutti_common || [[ $(_tutti_word 1) ]]; then return; fi
    _tutti_reply 'gpipe 1f1b interleaved'
    if ((${#COMPREPLY[@]} == 0)); then _tutti_reply_files -f; fi
}

_tutti_info() {
    _tutti_common || true # it has options alone
}

complete -F _tutti_run tutti-run
complete -F _tutti_perf tutti-perf
complete -F _tutti_plan tutti-plan
complete -F _tutti_topo tutti-topo
complete -F _tutti_trace tutti-trace
complete -F _tutti_tune tutti-tune
complete -F _tutti_synth tutti-synth
complete -F _tutti_schedule tutti-schedule
complete -F _tutti_info tutti-info
