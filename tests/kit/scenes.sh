# shellcheck shell=bash
# scenes.sh - runs the scenes of a script side by side, each in a process of its own: for scenes that mostly wait, for deadlines, pauses and
# links. For scripts it is what cases.h is for programs.
#
#     scenes_run MOST COMMAND SCENE...   runs COMMAND SCENE for each scene, at most MOST at a time. Returns 1 if a scene failed, otherwise 77
#                                        if a scene was skipped, and 0
#     scenes_again SCENE                 such a COMMAND: this script, with the scene as its argument
#
# Nothing that a scene waits for becomes shorter. What a scene has printed comes in one piece, when it has ended, and behind it the name of a
# scene that failed. No scene outlives the script, unless that is killed with SIGKILL: a scene gets SIGTERM, and may clean up. scenes_run sets
# the traps of INT, TERM and HUP.
declare -gA scenes_running=() # the names, by process
scenes_folder=
scenes_trap= # the script's own, of EXIT

scenes_stop() {
    trap '' INT TERM HUP
    if ((${#scenes_running[@]})); then
        kill -TERM "${!scenes_running[@]}" 2>/dev/null
        wait
    fi
    rm -rf "$scenes_folder"
    eval "set -- ${scenes_trap:-trap -- : EXIT}"
    eval "$3"
}

scenes_again() {
    exec bash "$0" "$1"
}

# Waits for any scene, and sets `code`, which is the caller's.
scenes_await_one() {
    local pid
    wait -n -p pid "${!scenes_running[@]}" && code=0 || code=$?
    cat "$scenes_folder/$pid"
    if ((code != 0 && code != 77)); then echo "FAILED  ${scenes_running[$pid]}: exit code $code"; fi
    unset "scenes_running[$pid]"
}

scenes_run() {
    local most=$1 command=$2 code failed=0 skipped=0
    shift 2
    scenes_folder=$(mktemp -d) || return 1
    scenes_trap=$(trap -p EXIT)
    trap scenes_stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    while (($# > 0 || ${#scenes_running[@]} > 0)); do
        if (($# > 0 && ${#scenes_running[@]} < most)); then
            (
                trap - EXIT INT TERM HUP
                exec >"$scenes_folder/$BASHPID" 2>&1 </dev/null
                "$command" "$1"
            ) &
            scenes_running[$!]=$1
            shift
            continue
        fi
        scenes_await_one
        if ((code == 77)); then skipped=1; elif ((code != 0)); then failed=1; fi
    done
    rm -rf "$scenes_folder"
    eval "${scenes_trap:-trap - EXIT}"
    if ((failed)); then return 1; fi
    if ((skipped)); then return 77; fi
}
