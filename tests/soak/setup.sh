#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A copy of the sources, in a path with spaces, owned by an ordinary user: ./run --build
# and ./run COMMAND work from any folder, repeated, and on a machine that is set up without
# root. Then the copy is moved, and works again.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/a place with spaces.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
tree="$work/the tree"
mkdir -- "$tree"
tar -C "$VB_SOURCE" --exclude=./build --exclude=./.git -cf - . | tar -C "$tree" -xf -

as_user=(env -i -C / PATH=/usr/bin:/bin HOME="$work" LC_ALL=C)
if [ "$(id -u)" = 0 ]; then
	chown -R 65534:65534 "$work"
	as_user+=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs
		--inh-caps=-all --bounding-set=-all)
fi
chmod 755 "$work"

check() {
	echo "-- $1"
	shift
	"$@" >"$work/log" 2>&1 || { cat -- "$work/log" && echo "FAILED: $*" && exit 1; }
}

check "builds" "${as_user[@]}" "$tree/run" --build
check "builds again, with nothing to do" "${as_user[@]}" "$tree/run" --build
grep -q 'no work to do' "$work/log" || { cat "$work/log" && echo "FAILED: built again" && exit 1; }
check "runs a command" "${as_user[@]}" "$tree/run" ibv_devices
# shellcheck disable=SC2016 # the inner shell expands
check "keeps arguments as they are" "${as_user[@]}" "$tree/run" \
	sh -c '[ $# = 2 ] && [ "$1" = "a  b" ] && [ -z "$2" ]' sh 'a  b' ''
rc=0
"${as_user[@]}" "$tree/run" sh -c 'exit 7' || rc=$?
[ $rc = 7 ] || { echo "FAILED: exit status $rc, want 7" && exit 1; }
# shellcheck disable=SC2016
check "two at a time" "${as_user[@]}" bash -c '"$1" --build & "$1" --build && wait $!' bash "$tree/run"
mv -- "$tree" "$work/moved"
check "builds where it was moved" "${as_user[@]}" "$work/moved/run" --build
check "runs where it was moved" "${as_user[@]}" "$work/moved/run" ibv_devices
check "shows the device" "${as_user[@]}" "$work/moved/run"
cat -- "$work/log"
if [ "$(id -u)" = 0 ]; then
	check "runs a built tree of somebody else" env -C / "$work/moved/run" ibv_devices
fi
echo "all as it should be"
