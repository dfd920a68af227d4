#!/bin/sh
# SPDX-License-Identifier: MIT
# `packaging/symbols --tag` in a clone with tags made for this test: a library that has all of the tag's names passes;
# one that has lost a name fails and names it; another number in the library's name, or no tag, leaves nothing to
# compare. `symbols_tag.sh LIBRARY`
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-tags --shared "$root" "$work/clone" 2>/dev/null || { echo "the sources are no git repository" >&2 && exit 77; }
cp "$root/packaging/symbols" "$root/packaging/libisomer.symbols" "$work/clone/packaging/"
cp "$root/include/shmem.h" "$work/clone/include/"
wrong=0

commit() { git -C "$work/clone" -c user.name=test -c user.email=test@test commit -q --allow-empty -am test; }
expect() { # STATUS PATTERN WHAT
    said=$("$work/clone/packaging/symbols" --tag "$library" 2>&1)
    status=$?
    [ $status -eq "$1" ] || { echo "$3: status $status, not $1: $said" | cut -c 1-300 >&2 && wrong=1; }
    echo "$said" | grep -q -e "$2" || { echo "$3: no line '$2' in: $said" | cut -c 1-300 >&2 && wrong=1; }
}

expect 77 "has no tag" "a clone without a tag"
commit
git -C "$work/clone" tag v1
expect 0 '^$' "all names are there"
echo zz_that_was_there >>"$work/clone/packaging/libisomer.symbols"
commit
git -C "$work/clone" tag v2
git -C "$work/clone" checkout -q v1 -- packaging/libisomer.symbols # out of the list is not out of programs
commit
expect 1 "built with v2 may use: zz_that_was_there" "a name is gone"
sed -i 's/^#define ISOMER_VERSION_STRING "/&99/' "$work/clone/include/shmem.h"
expect 77 "the library of v2 has another number in its name" "another number"
exit $wrong
