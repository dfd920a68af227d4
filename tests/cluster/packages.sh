#!/bin/bash
# SPDX-License-Identifier: MIT
# The packages of packaging/build as their users have them: lintian finds no error; a bare Debian 12 installs them,
# builds the examples by oshcc and runs them; those of another folder are the same bytes; rpm shows what is in its own.
# Needs root, debootstrap and Debian's archive; skipped without.
. "$(dirname "$0")/cluster.sh"
root=$here/../..
for tool in debootstrap lintian rpmbuild dpkg-deb; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
[ "$(id -u)" = 0 ] || skip "a Debian of its own needs root"
export DEBFULLNAME="Pack Ager" DEBEMAIL=packager@debian.org GPU=cpu
mirror=$(sed -n 's/^\(deb\|URIs:\) *\(\[[^]]*\] *\)\?\(http[^ ]*debian\)\/\? .*/\3/p; s/^URIs: *//p' /etc/apt/sources.list /etc/apt/sources.list.d/* \
    2>/dev/null | head -n 1)

# The sources as they are committed, for a build elsewhere.
mkdir "$work/elsewhere"
clean=$(git -C "$root" status --porcelain -uno 2>&1)
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")
export SOURCE_DATE_EPOCH
[ -n "$clean" ] || git -C "$root" archive HEAD | tar -x -C "$work/elsewhere"

# ---- packages ----

BUILD=$work/first job 3600 "$root/packaging/build" deb
expect_status 0 "packaging/build deb"
[ "$status" -eq 0 ] || finish
mkdir "$work/debs"
mv "$work"/first/*.deb "$work/debs"
BUILD=$work/first job 3600 "$root/packaging/build" rpm
expect_status 0 "packaging/build rpm"
job 20 rpm -qpl "$work"/first/*.rpm
expect_lines 1 '^/usr/lib64/libisomer\.so\.0$' "the library in an rpm"
expect_lines 1 '^/usr/bin/oshrun$' "oshrun in an rpm"
expect_lines 1 '^/usr/include/shmem\.h$' "shmem.h in an rpm"

job 300 lintian --allow-root --fail-on error "$work"/debs/*.deb
expect_status 0 "lintian"

# ---- a bare Debian 12 ----

debian=$work/debian
at_exit="umount -q $debian/proc $debian/dev/shm"
job 1800 debootstrap --variant=minbase --include=gcc,libc6-dev bookworm "$debian" ${mirror:+"$mirror"}
[ "$status" -eq 0 ] || skip "debootstrap: $(tail -n 1 "$work/out")"
mount -t proc proc "$debian/proc" && mkdir -p "$debian/dev/shm" && mount -t tmpfs tmpfs "$debian/dev/shm" ||
    skip "nothing can be mounted here"
cp "$work"/debs/*.deb "$debian/root"
[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$debian/etc"
for file in /etc/apt/apt.conf.d/*proxy* /etc/apt/sources.list; do
    [ ! -e "$file" ] || cp "$file" "$debian/${file#/}"
done
job 600 chroot "$debian" sh -c 'apt-get update && apt-get install -y --no-install-recommends /root/*.deb'
expect_status 0 "apt-get install"
cat >"$debian/root/examples" <<'E2'
#!/bin/sh
export TMPDIR=/tmp
cd /usr/share/doc/isomer/examples || exit 1
for source in [0-9]*.c; do
    program=/root/${source%.c}
    oshcc -O1 "$source" -o "$program" -lm || { echo "$source: not compiled" && continue; }
    n=4 picture=
    case $source in
    03_*) picture=plate.pgm ;;
    07_*) n=1 ;; # it starts PEs by itself
    esac
    timeout 120 oshrun -n $n "$program" $picture </dev/null >/root/out 2>&1 && echo "$source: ok" || { echo "$source: $?" && cat /root/out; }
done
E2
job 900 chroot "$debian" sh /root/examples
expect_lines "$(ls "$root"/examples/[0-9]*.c | wc -l)" ': ok$' "examples in a bare Debian"

# ---- the same bytes, elsewhere ----

if [ -z "$clean" ]; then
    BUILD=build CCACHE_DISABLE=1 job 3600 "$work/elsewhere/packaging/build" deb
    expect_status 0 "packaging/build elsewhere"
    for deb in "$work"/debs/*.deb; do
        cmp "$deb" "$work/elsewhere/build/$(basename "$deb")" || fail "$(basename "$deb") is not the same, built elsewhere"
    done
else
    echo "packages: the sources are not as committed, so they are not built a second time" >&2
fi
finish
