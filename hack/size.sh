#!/usr/bin/env bash
# Writes docs/benchmarks/size.md: how large the product is, by package, how much of each package the recorded stories run through,
# and how large the programs are.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

echo 'size: compiling the stories with coverage; that takes some minutes the first time' >&2
for package in ./pkg/actions/{allocate,backfill,preempt,reclaim}; do
	go test "$package" -count=1 -run '^TestStories$' -coverpkg=./pkg/...,./internal/... -coverprofile "$work/one" >/dev/null
	tail -n +2 "$work/one" >>"$work/profile"
	echo "size: ${package#./}: its stories ran" >&2
done

# A statement counts as run when the stories of one package run through it.
sed -E 's#^github.com/tutti-sched/tutti/##' "$work/profile" | awk '
	{ split($1, at, ":"); n = split(at[1], path, "/"); package = path[1]; for (i = 2; i < n; i++) package = package "/" path[i]
	  statements[$1] = $2; of[$1] = package; if ($3 > 0) run[$1] = 1 }
	END { for (block in statements) { all[of[block]] += statements[block]; if (block in run) some[of[block]] += statements[block] }
	      for (package in all) printf "%s %d\n", package, 100 * some[package] / all[package] }' >"$work/coverage"

product() { git ls-files | grep -E '^(pkg|internal|cmd|apis)/.*\.go$' | grep -v -e '_test\.go$' -e '/zz_generated' -e '^apis/client/'; }

{
	cat <<-'END'
		# Size

		How large the product is, and what the stories run through. Written by `make size`. Lines are those of `.go` files without
		tests and generated files, blank lines and comments included. A package that the stories cannot reach, such as one that
		talks to the API server, has tests of its own.

		| package | lines | statements that stories run through |
		|---|---:|---:|
	END
	product | xargs wc -l | awk '$2 != "total" { n = split($2, path, "/"); package = path[1]; for (i = 2; i < n; i++) package = package "/" path[i]
		lines[package] += $1; sum += $1 } END { for (package in lines) print package, lines[package]; print "~", sum }' | sort |
		while read -r package lines; do
			if [ "$package" = '~' ]; then
				echo "| **sum** | **$lines** | |"
				continue
			fi
			share="$(awk -v package="$package" '$1 == package { print $2 " %" }' "$work/coverage")"
			echo "| \`$package\` | $lines | ${share:-–} |"
		done
	echo
	echo '| program | MiB, without symbols |'
	echo '|---|---:|'
	for program in tutti-scheduler tutti-agent kubectl-tutti; do
		CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/$program" "./cmd/$program"
		echo "| \`$program\` | $(($(stat -c %s "$work/$program") / 1048576)) |"
	done
} >docs/benchmarks/size.md
echo 'size: docs/benchmarks/size.md' >&2
