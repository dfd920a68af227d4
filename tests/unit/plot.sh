#!/bin/sh
# SPDX-License-Identifier: MIT
# Each script of tests/bench draws its kept tables by --plot, and the pictures that are kept are those of the tables: a
# bar for each row with a peer.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null || { echo "there is no python3" >&2 && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/tests/bench" "$work/bench"
wrong=0
for name in host device coll net; do
    "$work/bench/${name}_run" --plot || wrong=1
done
"$work/bench/plot" --kept matmul || wrong=1
diff -rq "$root/tests/bench/baseline" "$work/bench/baseline" >&2 || {
    echo "pictures are not those of their tables: tests/bench/plot --kept draws them" >&2 && wrong=1; }
for table in "$root"/tests/bench/baseline/*.txt "$root"/tests/bench/baseline/*/table.txt; do
    [ -s "${table%txt}svg" ] || { echo "$table has no picture" >&2 && wrong=1; }
done
labels() { grep -o 'text-anchor="end">[^<]*' "$1" | sed 's/.*>//'; }
[ "$(labels "$work/bench/baseline/coll_h200_x4/table.svg" | head -n 1)" = "1024 allreduce" ] || {
    echo "the first bar of coll_h200_x4 is not its first row" >&2 && wrong=1; }
[ "$(labels "$work/bench/baseline/coll_h200_x4/table.svg" | wc -l)" -ge 50 ] || { echo "rows are missing" >&2 && wrong=1; }
[ "$(labels "$work/bench/baseline/net_soft_roce.svg" | sed -n 2p)" = "1+1 put+quiet 8 B oshmem" ] || {
    echo "the second bar of net_soft_roce is not its second row" >&2 && wrong=1; }
exit $wrong
