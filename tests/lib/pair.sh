#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Both ends of an unmodified two-sided program (ibv_*_pingpong, ib_*_bw, ib_*_lat):
#
#   tests/lib/pair.sh [options] PROGRAM [ARG...]
#
# starts "PROGRAM ARG... -p PORT" as server, waits until it listens, then starts
# "PROGRAM ARG... -p PORT 127.0.0.1" as client, on a free TCP port, each under a time
# limit. Both must exit 0; else what both printed is shown.
#
#   --as-nobody     run both as uid 65534 without any capability, from the installed copy
#                   (needs root; without root: from the installed copy as the caller)
#   --root-server   with --as-nobody: the server as the caller, only the client as uid 65534
#   --root-client   the other way round
#   --refused       both must fail on their own, neither by the time limit
#   --because RULE  as --refused, and one side must explain it by this rule
#   --says TEXT     the client must print a line that holds TEXT, runs of blanks as one
#   --env NAME=VAL  a VERBENA_ setting for both
#   --preload FILE  a library that both load first
#   --repeat N      N pairs one after the other; ends at the first that fails
#   --timeout SEC   for each process; 60 if not said
#   --host HOST     where the client connects, 127.0.0.1 if not said
#   --between A B   the server in one network namespace, the client in the other (ip-netns(8));
#                   with --host
#   --slot N        one of 0...11: pairs that run at the same time take different ports
#   --show          print what the client printed although all went well
#   --no-device     run the programs as they are, not on our libraries
#
# Or source it: pair_port, pair_launcher and pair_run are functions. VB_BUILD names the
# build. Exit status: 0, or 1, or 2 for wrong use.

pair_lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/install.sh
. "$pair_lib/install.sh"

# pair_listens PORT - somebody listens on the TCP port, v4 or v6, where the server is
pair_listens() {
	local hex
	hex=$(printf ':%04X' "$1")
	# shellcheck disable=SC2016 # awk expands
	"${pair_there[@]}" awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# A free port below the range the kernel hands out by itself, so that nobody's outgoing
# connection takes it between here and the server's bind.
pair_port() {
	local port first=20000 count=12000
	[ -z "${pair_slot:-}" ] || { count=1000 && first=$((first + pair_slot * count)); }
	while :; do
		port=$((first + SRANDOM % count))
		pair_listens "$port" || break
	done
	printf '%d\n' "$port"
}

# pair_launcher [nobody] - fills the array launcher, what stands before the program
pair_launcher() {
	local prefix
	if [ "${1:-}" = none ]; then
		launcher=()
		return
	fi
	if [ "${1:-}" != nobody ]; then
		launcher=("$VB_BUILD/bin/verbena" run --)
		[ -x "${launcher[0]}" ] || { echo "${launcher[0]} is not built" && return 1; }
		[ -z "${pair_preload:-}" ] || launcher=(env "LD_PRELOAD=$pair_preload" "${launcher[@]}")
		return
	fi
	prefix=$(vb_installed) || return
	launcher=(env -i -C / "PATH=$prefix/bin:/usr/bin:/bin:/usr/sbin:/sbin" HOME=/nonexistent
		LC_ALL=C)
	for name in "${!VERBENA_@}"; do
		launcher+=("$name=${!name}")
	done
	[ -z "${pair_preload:-}" ] || launcher+=("LD_PRELOAD=$pair_preload")
	if [ "$(id -u)" = 0 ]; then
		launcher+=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs
			--inh-caps=-all --bounding-set=-all)
	fi
	launcher+=("$prefix/bin/verbena" run --)
}

# Both sides' launchers, which may be different users.
pair_launchers() {
	local nobody
	pair_launcher "$pair_user" || return
	server_launcher=("${launcher[@]}")
	[ -n "$pair_root" ] || return 0
	nobody=("${launcher[@]}")
	pair_launcher || return
	if [ "$pair_root" = server ]; then
		server_launcher=("${launcher[@]}")
		launcher=("${nobody[@]}")
	fi
}

pair_show() {
	printf -- '--- %s exited %s\n' "$1" "$2"
	sed 's/^/    /' -- "$3"
}

# pair_wait_listen PID PORT - until the server listens; 1 when it ended before that
pair_wait_listen() {
	until pair_listens "$2"; do
		kill -0 "$1" 2>/dev/null || return 1
		sleep 0.02
	done
}

# pair_once PROGRAM ARG... - one pair; the results in pair_server_rc, pair_client_rc
pair_once() {
	local port server=0
	port=$(pair_port)
	timeout -k 5 "$pair_timeout" "${pair_there[@]}" "${server_launcher[@]}" "$@" -p "$port" \
		</dev/null >"$pair_dir/server" 2>&1 &
	server=$!
	pair_client_rc="not started: the server never listened"
	if pair_wait_listen "$server" "$port"; then
		pair_client_rc=0
		timeout -k 5 "$pair_timeout" "${pair_here[@]}" "${launcher[@]}" "$@" -p "$port" "$pair_host" \
			</dev/null >"$pair_dir/client" 2>&1 || pair_client_rc=$?
	fi
	pair_server_rc=0
	wait "$server" || pair_server_rc=$?
}

# 0: as expected. 124 and 137 are timeout's, above 128 is death by a signal.
pair_verdict() {
	if [ "$pair_refused" = 0 ]; then
		[ "$pair_server_rc" = 0 ] && [ "$pair_client_rc" = 0 ] || return
		[ -z "$pair_says" ] ||
			tr -s '[:blank:]' ' ' <"$pair_dir/client" | grep -F -- "$pair_says" >/dev/null
	else
		[[ $pair_client_rc =~ ^[0-9]+$ ]] &&
			((pair_server_rc > 0 && pair_server_rc < 124 &&
				pair_client_rc > 0 && pair_client_rc < 124)) || return
		[ -z "$pair_because" ] ||
			grep -qF "[$pair_because]" "$pair_dir/server" "$pair_dir/client"
	fi
}

pair_options() {
	pair_user='' pair_root='' pair_because='' pair_says='' pair_refused=0 pair_repeat=1 pair_timeout=60 pair_host=127.0.0.1 pair_shown=0 pair_slot='' pair_preload=''
	pair_there=() pair_here=()
	while [ $# -gt 0 ]; do
		case $1 in
		--as-nobody) pair_user=nobody ;;
		--root-server) pair_root=server ;;
		--root-client) pair_root=client ;;
		--no-device) pair_user=none ;;
		--refused) pair_refused=1 ;;
		--because) pair_refused=1 pair_because=$2 && shift ;;
		--show) pair_shown=1 ;;
		--says) pair_says=$2 && shift ;;
		--env) export "${2?}" && shift ;;
		--preload) pair_preload=$2 && shift ;;
		--repeat) pair_repeat=$2 && shift ;;
		--timeout) pair_timeout=$2 && shift ;;
		--host) pair_host=$2 && shift ;;
		--between)
			pair_there=(ip netns exec "$2") pair_here=(ip netns exec "$3")
			shift 2
			;;
		--slot) pair_slot=$2 && shift ;;
		-*) printf 'pair.sh: unknown option %s\n' "$1" >&2 && return 2 ;;
		*) break ;;
		esac
		shift
	done
	[ $# -gt 0 ] || { printf 'pair.sh: no program\n' >&2 && return 2; }
	pair_command=("$@")
}

# pair_run OPTION... PROGRAM ARG... - see the head of this file
pair_run() (
	local launcher server_launcher name i # a subshell: what --env exports ends with it
	pair_options "$@" || exit
	[ -z "$pair_because" ] || export VERBENA_EXPLAIN=1
	pair_launchers || exit 1
	pair_dir=$(mktemp -d)
	# shellcheck disable=SC2064 # the folder of now
	trap "rm -rf -- '$pair_dir'" EXIT
	for ((i = 1; i <= pair_repeat; i++)); do
		: >"$pair_dir/client"
		pair_once "${pair_command[@]}"
		if ! pair_verdict; then
			printf 'FAILED (pair %d of %d): %s\n' "$i" "$pair_repeat" "${pair_command[*]}"
			pair_show server "$pair_server_rc" "$pair_dir/server"
			pair_show client "$pair_client_rc" "$pair_dir/client"
			exit 1
		fi
	done
	[ "$pair_shown" = 0 ] || cat -- "$pair_dir/client"
)

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	: "${VB_BUILD:?names the build folder}"
	pair_run "$@"
fi
