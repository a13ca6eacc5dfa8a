#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# One installed copy of the build, readable by every user, made once and made anew when
# the build is newer. The source tree may lie where uid 65534 cannot look.
#
#   tests/lib/install.sh            print the prefix of the copy, making it if needed
#   tests/lib/install.sh --remove   remove the copy of this build, if there is one
#
# Or source it and call vb_installed. VB_BUILD names the build.

# Prints the prefix, e.g. /tmp/verbena-installed.XXXXXX/usr/local
vb_installed() (
	set -euo pipefail
	record=$VB_BUILD/.installed
	exec 8>"$VB_BUILD/.installed.lock"
	flock 8
	if ! vb_install_current "$record"; then
		vb_install_remove "$record"
		dest=$(mktemp -d "${TMPDIR:-/tmp}/verbena-installed.XXXXXX")
		if ! log=$(DESTDIR=$dest cmake --install "$VB_BUILD" 2>&1); then
			printf '%s\ncmake --install failed\n' "$log" >&2
			rm -rf -- "$dest"
			exit 1
		fi
		chmod -R a+rX -- "$dest"
		printf '%s\n' "$dest" >"$record"
	fi
	dest=$(cat -- "$record")
	printf '%s%s\n' "$dest" "$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$VB_BUILD/CMakeCache.txt")"
)

# vb_install_current RECORD - the copy is there and nothing it holds was built since
vb_install_current() {
	[ -f "$1" ] && [ -d "$(cat -- "$1")" ] &&
		[ -z "$(find "$VB_BUILD/lib" "$VB_BUILD/bin" -newer "$1" -print -quit)" ]
}

vb_install_remove() {
	local dest
	[ -f "$1" ] || return 0
	dest=$(cat -- "$1")
	case $dest in
	*/verbena-installed.??????) rm -rf -- "$dest" ;;
	esac
	rm -f -- "$1"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	: "${VB_BUILD:?names the build folder}"
	case ${1:-} in
	--remove) vb_install_remove "$VB_BUILD/.installed" ;;
	*) vb_installed ;;
	esac
fi
