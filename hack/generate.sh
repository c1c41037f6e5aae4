#!/usr/bin/env bash
# Writes everything that is generated: from apis/ deep copies, CRDs, the typed clients, and the built-in configuration where it
# can be deployed from; from what actions and plugins declare the tables of their arguments, from the CRDs the reference of
# the API, and from internal/metrics the page about them.
#
#   hack/generate.sh [OUTDIR]
#
# OUTDIR is where the files go, laid out as in the repository; without it, the repository itself. The tools are those
# pinned in hack/tools/go.mod, built into build/bin.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "$root"
out="${1:-$root}"
mkdir -p "$out"
out="$(cd "$out" && pwd -P)"

module="$(go list -m)"
api="$module/apis/scheduling/v1alpha1"
generated="$module/apis/client"
header="$root/hack/boilerplate.go.txt"
bin="$root/build/bin"

echo "generate: tools" >&2
mkdir -p "$bin"
(cd hack/tools && go build -o "$bin/" \
	sigs.k8s.io/controller-tools/cmd/controller-gen \
	k8s.io/code-generator/cmd/{applyconfiguration-gen,client-gen,informer-gen,lister-gen})

# What a generator no longer writes must not stay behind.
rm -rf "$out/apis/client" "$out/config/crd/bases"

echo "generate: deep copies and CRDs" >&2
cd apis # the module that the generators read
"$bin/controller-gen" paths=./scheduling/v1alpha1 \
	object:headerFile="$header" output:object:dir="$out/apis/scheduling/v1alpha1" \
	crd output:crd:dir="$out/config/crd/bases"

# A rule over amounts has a cost that the API server takes only where the length of an amount is bounded, and no marker bounds the
# values of a map.
sed -i.bak -E 's/^( *)(pattern: \^\(\\\+\|-\)\?.*)$/\1maxLength: 32\n&/' "$out/config/crd/bases/scheduling.tutti.dev_queues.yaml"
rm "$out/config/crd/bases/scheduling.tutti.dev_queues.yaml.bak"

echo "generate: apply configurations, clientset, listers, informers" >&2
"$bin/applyconfiguration-gen" --go-header-file "$header" \
	--output-dir "$out/apis/client/applyconfiguration" --output-pkg "$generated/applyconfiguration" \
	"$api"
"$bin/client-gen" --go-header-file "$header" \
	--output-dir "$out/apis/client/clientset" --output-pkg "$generated/clientset" --clientset-name versioned \
	--apply-configuration-package "$generated/applyconfiguration" \
	--input-base "$module/apis" --input scheduling/v1alpha1
"$bin/lister-gen" --go-header-file "$header" \
	--output-dir "$out/apis/client/listers" --output-pkg "$generated/listers" \
	"$api"
"$bin/informer-gen" --go-header-file "$header" \
	--output-dir "$out/apis/client/informers" --output-pkg "$generated/informers" \
	--versioned-clientset-package "$generated/clientset/versioned" --listers-package "$generated/listers" \
	"$api"

cd "$root"
echo "generate: default configuration" >&2
mkdir -p "$out/config/default"
cp apis/config/v1alpha1/default.yaml "$out/config/default/scheduler.yaml"

echo "generate: tables of the documentation" >&2
go run ./hack/document "$out"
echo "generate: the table of metrics" >&2
mkdir -p "$out/docs"
go run ./hack/metricsdoc >"$out/docs/metrics.md"
