# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What ./run, ./test and .ci/run share. The caller has set root (the source tree).
# VB_PRESET chooses the CMake preset; release is the one in build/ itself.

: "${root:?set by the caller}"
preset=${VB_PRESET:-release}
if [ "$preset" = release ]; then
	build=$root/build
else
	build=$root/build/$preset
fi
export PATH="$PATH:/usr/sbin:/sbin"

say() { printf '%s\n' "$*" >&2; }
die() { say "$@" && exit 1; }

# A tree that was moved or copied leaves a cache that names its old place.
forget_moved_cache() {
	local cache=$build/CMakeCache.txt home
	[ -f "$cache" ] || return 0
	home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
	[ "$home" -ef "$root" ] && return
	[ ! -e "$home" ] || [ "$home" = "$root" ] || say "$build was configured for $home; anew."
	rm -rf -- "$cache" "$build/CMakeFiles"
}

configure_and_compile() {
	forget_moved_cache
	if [ ! -f "$build/build.ninja" ] || [ ! -f "$build/CMakeCache.txt" ]; then
		(cd -- "$root" && cmake --preset "$preset") || return
	fi
	ninja -C "$build"
}

# build_tree loud|quiet - configure once, compile what changed. Quiet: speaks of failure only.
# One at a time, for two commands may be started in one tree. A tree that belongs to
# somebody else and is built is taken as it is.
build_tree() {
	local log
	if [ ! -w "$root" ] || { [ -d "$build" ] && [ ! -w "$build" ]; }; then
		[ -x "$build/bin/verbena" ] && return
		die "$root is not writable by $(id -un) and not built yet."
	fi
	mkdir -p -- "$build"
	exec 9>"$build/.lock"
	flock 9
	if [ "$1" = quiet ]; then
		log=$(configure_and_compile 9>&- 2>&1) || die "$log"
	else
		configure_and_compile >&2 9>&- || die "The build failed."
	fi
	exec 9>&-
}
