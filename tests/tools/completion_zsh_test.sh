#!/bin/bash
# Words of the programs are completed in zsh: the functions of tools/completion/_tutti give them, and a shell that a person types into takes them.
# ctest: label=nosan
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1
command -v zsh >/dev/null || { echo "zsh is not here (Debian: zsh)"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=${TUTTI_BIN:?}:$PATH
bad=0
complain() {
    echo "$*"
    bad=1
}

# All programs are named, here and for bash.
for main in tools/*/main.c; do
    tool=tutti-$(basename "$(dirname "$main")")
    head -n 1 tools/completion/_tutti | grep -qwF -- "$tool" || complain "_tutti does not complete $tool"
    grep -qxF "complete -F _${tool//-/_} $tool" tools/completion/tutti.bash || complain "tutti.bash does not complete $tool"
done

# The functions, with a stand-in for zsh's completion that prints what it is given.
cat >"$work/ask.zsh" <<'END'
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- "$@"; }
_describe() { print -l -- "${(@P)argv[-1]}"; }
_files() { print "(files $*)"; }
_command_names() { print "(commands)"; }
_hosts() { print "(hosts)"; }
_normal() { print "(as $words[CURRENT-1] $CURRENT)"; }
compset() { :; }
words=("$@") CURRENT=$#
functions[complete_tutti]=$(<tools/completion/_tutti)
complete_tutti
END
ask() { zsh -f "$work/ask.zsh" "$@"; }
gives() { # expected lines, --, the line; the last word is being typed
    local expected=() said
    while [[ $1 != -- ]]; do
        expected+=("$1")
        shift
    done
    shift
    said=$(ask "$@" 2>&1 | grep -- "^${!#}" | sort)
    [[ $said == "$(printf '%s\n' "${expected[@]}" | sort)" ]] || complain "'$*' is completed to: ${said//$'\n'/ | }"
}
offers() { # a line, --, the words
    ask "${@:3}" 2>&1 | grep -qxF -- "$1" || complain "'${*:3}' is not completed to '$1', but to: $(ask "${@:3}" 2>&1 | paste -sd'|')"
}

gives --np:'the same, as for mpirun' --no-prefix:'print output lines without "[rank] " in front' -- tutti-run --n
gives node -- tutti-run --map-by n
offers node -- tutti-run --map-by=n
offers '(commands)' -- tutti-run -n 4 bas
offers '(as 4 3)' -- tutti-run -n 4 sleep 4 ''
offers '(hosts)' -- tutti-run -H a
offers '(files -/)' -- tutti-run --output lo
gives gather gatherv -- tutti-perf gat
gives bfloat16 -- tutti-perf allreduce -d bf
gives chain circulant -- tutti-perf allreduce --algo c
gives peers -- tutti-perf allreduce --format p
gives reduce reduce_scatter -- tutti-plan show --ranks 4 red
gives oneshot -- tutti-plan draw allreduce one
gives --racks --radix --ranks --root -- tutti-plan verify --r
gives matrix -- tutti-topo --format m
gives html -- tutti-plan draw allreduce ring --format h
gives msccl mscclpp -- tutti-plan export allreduce ring --format m
gives query -- tutti-trace q
gives nccl -- tutti-tune --export n
gives gpipe -- tutti-schedule g
gives reduce reduce_scatter -- tutti-synth re
gives --json:'the same as JSON, for programs; the manual page lists its keys' -- tutti-info --j

# The words that are listed are the same for both shells: those of options, those that come first, and the options that take files.
values() {
    sed -n '/^_tutti_values()/,/^}/p' "$1" | grep -oE 'echo [a-z].*' | sort
    sed -nE "s/.*_tutti_(reply|add) '(.*)'.*/\2/p" "$1" | sort
    grep -oE 'tutti-[a-z]+:-[a-zA-Z-]+' "$1" | sort
}
diff <(values tools/completion/tutti.bash) <(values tools/completion/_tutti) || complain "above: words of bash, and of zsh"

# A shell as a person has it.
cat >"$work/type.zsh" <<'END'
zmodload zsh/zpty
setopt extendedglob
zpty shell zsh -f -i
type() { zpty -w -n shell "$1"; }
expect() { # a pattern, within some seconds
    local all= part
    local -F until=$((EPOCHREALTIME + 20))
    while ((EPOCHREALTIME < until)); do
        if zpty -r -t shell part; then all+=$part; else sleep 0.02; fi
        if [[ $all == *${~1}* ]]; then return; fi
    done
    print -r -- "no $1 in: ${(V)all}"
    exit 1
}
zmodload zsh/datetime
type "PS1= RPS1= TERM=dumb; fpath=(\$PWD/tools/completion \$fpath); autoload -Uz compinit; compinit -u -D; print re''ady"$'\n'
expect ready
type "tutti-perf allreduce --form prep"$'\t'
expect 'tutti-perf allreduce --form prepared'
type $'\x15'"tutti-run --vers"$'\t\n'
expect 'tutti-run [0-9]##.[0-9]##.[0-9]##'
zpty -d shell
END
timeout 60 zsh -f "$work/type.zsh" || complain "above: a shell that is typed into"
exit $bad
