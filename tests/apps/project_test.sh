#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The project as a user meets it: an installed copy is whole, works where it lies and for
# whom it is meant, and the front doors answer.
set -euo pipefail

# shellcheck source=tests/lib/pair.sh
. "$VB_SOURCE/tests/lib/pair.sh"

failures=0
fail() { echo "FAILED: $*" && failures=$((failures + 1)); }

prefix=$(vb_installed)
libdir=$(dirname -- "$(find "$prefix" -name 'libibverbs.so.1' -path '*/verbena/*' | head -n 1)")
echo "installed in $prefix, libraries in $libdir"

# Whole: what a package would hold.
for file in bin/verbena bin/ibv_devices bin/ibv_devinfo share/man/man1/verbena.1 \
	share/man/man7/verbena.7 share/doc/verbena/LICENSE share/doc/verbena/README.md; do
	[ -s "$prefix/$file" ] || fail "not installed: $file"
done
for lib in libibverbs.so.1 librdmacm.so.1 libmlx5.so.1 libmlx4.so.1 libefa.so.1 libmana.so.1 \
	libibumad.so.3; do
	[ -e "$libdir/$lib" ] || fail "not installed: $lib"
	[ -e "$libdir/${lib%.*}" ] || fail "no link for linking: ${lib%.*}"
done

# Free of the build tree, so that it can be moved and packed.
while IFS= read -r -d '' file; do
	if readelf -d "$file" 2>/dev/null | grep -F 'PATH' | grep -F "$VB_BUILD"; then
		fail "$file looks for libraries in the build tree"
	fi
done < <(find "$prefix/bin" "$libdir" -type f -print0)
found=$(find "$prefix" ! -perm -o=r ! -type l)
[ -z "$found" ] || fail "not readable by everyone: $found"

# Works for an ordinary user without any capability, both ways in.
tmp=$(mktemp)
pair_launcher nobody
"${launcher[@]}" ibv_devices >"$tmp" 2>&1 || fail "verbena run ibv_devices: status $?"
grep -q '^    verbena0' "$tmp" || { cat "$tmp" && fail "verbena run ibv_devices shows no device"; }
direct=("${launcher[@]:0:${#launcher[@]}-3}" env "LD_LIBRARY_PATH=$libdir" "$prefix/bin/ibv_devices")
"${direct[@]}" >"$tmp" 2>&1 || fail "ibv_devices: status $?"
grep -q '^    verbena0' "$tmp" || { cat "$tmp" && fail "ibv_devices shows no device"; }
rm -f "$tmp"

# The man page knows every command and option that the tool's own summary names.
page=$(sed 's/\\-/-/g' "$prefix/share/man/man1/verbena.1")
while read -r word; do
	grep -qF -- "$word" <<<"$page" || fail "verbena(1) does not tell of $word"
done < <("${launcher[@]:0:${#launcher[@]}-2}" help | grep -oE '^  (--[a-z-]+|[a-z]+ )' | tr -d ' ')

# The front doors answer, from anywhere.
cd /
for door in run test; do
	"$VB_SOURCE/$door" --help | grep -q '^usage: ' || fail "./$door --help"
	rc=0
	"$VB_SOURCE/$door" --nonsense 2>/dev/null || rc=$?
	[ $rc = 2 ] || fail "./$door --nonsense: status $rc, want 2"
done

# Every line of the package list can be understood.
bad=$(grep -vE '^(#|$)|^(build|demo|test|ci) +((cmd|pc|py|hdr|file):[^ ]+|clangrt) +[a-z0-9.+|-]+$' \
	"$VB_SOURCE/scripts/packages" || true)
[ -z "$bad" ] || fail "scripts/packages: $bad"

[ $failures = 0 ] && echo "all as it should be"
exit $((failures > 0))
