#!/usr/bin/env bash
# Checks format, go vet and staticcheck in the modules of the repository, and the workflows of the forge, all of them before it fails.
#
#   hack/lint.sh [fmt]
#
# With fmt it formats the files instead.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "$root"
failed=0

# go_files prints the Go files that are not ignored, each followed by a zero byte.
go_files() {
	git ls-files -z --cached --others --exclude-standard -- '*.go' |
		while IFS= read -r -d '' file; do if [[ -e "$file" ]]; then printf '%s\0' "$file"; fi; done
}

if [[ "${1:-}" == fmt ]]; then
	go_files | xargs -0 -r gofmt -w
	exit
fi

unformatted="$(go_files | xargs -0 -r gofmt -l)" || failed=1
if [[ -n "$unformatted" ]]; then
	printf 'lint: not formatted; run "make fmt":\n%s\n' "$unformatted" >&2
	failed=1
fi

mkdir -p build/bin
(cd hack/tools && go build -o "$root/build/bin/" honnef.co/go/tools/cmd/staticcheck github.com/rhysd/actionlint/cmd/actionlint)

# Without the checkers of shell and Python, which it runs where they are installed: the same is checked everywhere.
build/bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml || { echo 'lint: actionlint failed' >&2; failed=1; }

for module in . apis lab examples/joblimit examples/podgroups; do
	(cd "$module" && go vet ./...) || { echo "lint: go vet failed in module $module" >&2; failed=1; }
	# Generated code is its generator's affair.
	(cd "$module" && go list ./... | grep -v /apis/client/ | xargs -r "$root/build/bin/staticcheck") || { echo "lint: staticcheck failed in module $module" >&2; failed=1; }
done
exit "$failed"
