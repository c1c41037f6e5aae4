#!/usr/bin/env bash
# Prints how much of the commit path its fault matrix covers, which takes every call through every answer, and each function of
# which it leaves something out, with what all tests of the package cover of that one.
set -euo pipefail
cd "$(dirname "$0")/.."
matrix='^(TestEveryFault.*|TestEveryBindHasOneTrueOutcome|TestRefusalsOnTheWire|TestErrorsFromTheWire|TestErrorsKeepTheirKind|'
matrix+='TestReadAsksWhatAQuorumKnows|TestBindByAnotherClient|TestABinderThatIsNotThereBindsNothing|TestARefusalAfterABinderThatGaveNoAnswer|'
matrix+='TestFencedConnections|TestPodIsReadOnAnotherNode|TestPodWithoutNodeIsReadAgain|TestPodIsDeletedWhileItIsRead)$'
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
go test ./internal/commit -run "$matrix" -coverprofile "$work/matrix" >/dev/null
go test ./internal/commit -coverprofile "$work/all" >/dev/null
for which in matrix all; do
	go tool cover -func "$work/$which" | sed -E 's#^[^ ]*/internal/commit/([a-z_]+\.go):[0-9]+:#\1#' | awk '{ print $1 " " $2 "\t" $NF }' >"$work/$which.txt"
done
echo "coverage of internal/commit: $(sed -n 's/^total: (statements)\t//p' "$work/matrix.txt") by the fault matrix," \
	"$(sed -n 's/^total: (statements)\t//p' "$work/all.txt") by all tests; below 100 % are"
awk -F'\t' '
	NR == FNR { matrix[$1] = $2; next }
	$1 !~ /^total/ && $2 != "100.0%" { printf "  %-44s %6s by the matrix, %6s by all\n", $1, matrix[$1], $2 }
' "$work/matrix.txt" "$work/all.txt"
awk -F'\t' '
	NR == FNR { all[$1] = $2; next }
	$1 !~ /^total/ && $2 != "100.0%" && all[$1] == "100.0%" { list = list (list == "" ? "" : ", ") $1 " " $2; count++ }
	END { if (count > 0) printf "  and, by the matrix alone, %d more: %s\n", count, list }
' "$work/all.txt" "$work/matrix.txt"
