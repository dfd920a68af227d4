# SPDX-License-Identifier: MIT
# Sourced by tests/run and examples/run, which share build folders: configure a tree, build targets in it, one line for
# each phase. The caller defines say and stop (say, then exit 1) and works in the folder of the sources.
# CMake drops every other option when it is given a compiler of another name: so this is never done to a tree that has
# one, and what was asked for is looked up in the cache afterwards.

# Two names are one compiler if both predefine the same: cc and gcc, with and without ccache, but not gcc and clang.
predefined() { "$1" -dM -E -x c /dev/null 2>/dev/null; }
same_compiler() {
    local first
    first=$(predefined "$1") && [ -n "$first" ] && [ "$first" = "$(predefined "$2")" ]
}

# cached FOLDER NAME: the value in the cache of the tree; nothing where there is none.
cached() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt" 2>/dev/null; }

# reason_to_start_afresh FOLDER COMPILER: why this tree cannot take the options; COMPILER may be empty: any.
reason_to_start_afresh() {
    local folder=$1 compiler=$2 have
    [ -e "$folder/CMakeCache.txt" ] || return 0
    have=$(cached "$folder" CMAKE_HOME_DIRECTORY)
    [ "$have" -ef . ] && [ "$(cached "$folder" CMAKE_CACHEFILE_DIR)" -ef "$folder" ] ||
        { echo "it was made elsewhere, for the sources in $have" && return; }
    have=$(cached "$folder" CMAKE_GENERATOR)
    [ "$have" = Ninja ] || { echo "it was configured for $have, not Ninja" && return; }
    have=$(cached "$folder" CMAKE_C_COMPILER)
    [ -n "$have" ] || return 0
    if [ -n "$compiler" ] && ! same_compiler "$have" "$compiler"; then
        echo "it was configured with the compiler $have, not $compiler"
    elif [ -z "$(predefined "$have")" ]; then
        echo "its compiler $have does not work here"
    fi
}

# configure_tree FOLDER LOG [NAME=VALUE...]: stops with a sentence where the tree then has another value.
configure_tree() {
    local folder=$1 log=$2 compiler= reason pair have fresh=() options=()
    shift 2
    for pair; do
        [ "${pair%%=*}" != CMAKE_C_COMPILER ] || compiler=${pair#*=}
    done
    reason=$(reason_to_start_afresh "$folder" "$compiler")
    if [ -n "$reason" ]; then
        say "$folder is configured afresh and loses options of its own: $reason"
        fresh=(--fresh)
    fi
    for pair; do # the compiler of a tree that stays is the right one, whatever it is called
        [ "${pair%%=*}" = CMAKE_C_COMPILER ] && [ -z "$reason" ] && [ -n "$(cached "$folder" CMAKE_C_COMPILER)" ] ||
            options+=("-D$pair")
    done
    mkdir -p "$folder"
    say "configuring $folder, log $log"
    if ! cmake "${fresh[@]}" -S . -B "$folder" -G Ninja "${options[@]}" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        stop "configuring $folder failed, see $log"
    fi
    for pair; do
        have=$(cached "$folder" "${pair%%=*}")
        [ "$have" = "${pair#*=}" ] || { [ "${pair%%=*}" = CMAKE_C_COMPILER ] && same_compiler "$have" "$compiler"; } ||
            stop "$folder was to be configured with $pair, but its CMakeCache.txt has '$have': remove $folder and try again"
    done
}

# build_tree FOLDER LOG JOBS [TARGET...]: without targets, all of them. Output only when it fails.
build_tree() {
    local folder=$1 log=$2 jobs=$3 steps
    shift 3
    # Read from stdin, the file is no target of itself: or ninja would only say that it looks whether that is up to date.
    steps=$(NINJA_STATUS='%t ' ninja -C "$folder" -f /dev/stdin -n "$@" <"$folder/build.ninja" 2>/dev/null | sed -n 's/^\([0-9][0-9]*\) .*/\1/p' | tail -n 1)
    say "building $folder: ${steps:-0} steps, log $log"
    if ! ninja -C "$folder" -j "$jobs" "$@" >>"$log" 2>&1; then
        grep -nE 'error|FAILED|Error' "$log" | head -n 5 >&2
        tail -n 30 "$log" >&2
        stop "building $folder failed, see $log"
    fi
}
