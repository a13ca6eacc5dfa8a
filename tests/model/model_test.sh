#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Checks the models of the shared words with spin, then that each of them can fail:
# every line of `mutants` breaks one rule, and spin must notice.
# Usage: model_test.sh [MODEL...]   (all models without arguments)
set -u
here=$(cd "$(dirname "$0")" && pwd)
for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
models=${*:-receive shared ready arm pipe qpword access path}
failures=0

# verify FOLDER MODEL [-DFATE]: states, transitions and seconds; 0 when no error was found,
# 1 when one was, 2 when the search could not be made or was not complete.
verify()
{
	local folder=$1 model=$2
	shift 2
	(
		cd "$folder" || exit 2
		rm -f pan* ./*.trail
		spin "$@" -a "$model.pml" >spin.out 2>&1 || exit 2
		# No partial order reduction: its conditions say nothing about `unless`.
		gcc "${optimize:--O2}" -w -DSAFETY -DNOREDUCE -DMEMLIM=3000 -o pan pan.c 2>gcc.out || exit 2
		./pan -m100000 -w22 >pan.out 2>&1
		grep -Eq 'errors: [1-9]' pan.out && exit 1
		grep -Eq 'Search not completed|max search depth too small' pan.out && exit 2
		grep -q 'errors: 0' pan.out || exit 2
		awk '/states, stored/ { states = $1 } /transitions \(/ { steps = $1 }
			/elapsed time/ { seconds = $4 }
			END { printf "%.0f states, %.0f transitions, %s s\n", states, steps, seconds }' pan.out
	)
}

for model in $models; do
	for fate in "" -DFATE; do
		mkdir -p "$work/$model" && cp "$here"/*.pml "$work/$model"
		figures=$(verify "$work/$model" "$model" $fate)
		status=$?
		if [ $status -eq 0 ]; then
			printf '%-8s %-6s %s\n' "$model" "${fate#-D}" "$figures"
			continue
		fi
		failures=$((failures + 1))
		echo "FAILED: $model $fate"
		cat "$work/$model"/*.out | head -n 20
		(cd "$work/$model" && [ -e "$model.pml.trail" ] && spin -t -p "$model.pml" | tail -n 60)
	done
done

killed=0
optimize=-O0 # compiling takes longer than finding the error
while IFS=$'\t' read -r model what script; do
	case $model in '' | '#'*) continue ;; esac
	fate=
	case $model in *:FATE) fate=-DFATE model=${model%:FATE} ;; esac
	case " $models " in *" $model "*) ;; *) continue ;; esac
	folder=$work/mutant
	rm -rf "$folder" && mkdir "$folder" && cp "$here"/*.pml "$folder"
	sed -E -i "$script" "$folder/$model.pml"
	if cmp -s "$here/$model.pml" "$folder/$model.pml"; then
		echo "FAILED: changes nothing: $model: $what"
		failures=$((failures + 1))
		continue
	fi
	verify "$folder" "$model" $fate >/dev/null
	status=$?
	if [ $status -eq 1 ]; then
		killed=$((killed + 1))
	else
		failures=$((failures + 1))
		echo "FAILED: not noticed ($status): $model: $what"
		[ $status -eq 2 ] && cat "$folder"/*.out | head -n 5
	fi
done <"$here/mutants"

echo "$killed mutants noticed, $failures failures"
[ "$failures" -eq 0 ]
