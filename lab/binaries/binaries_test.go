package binaries

import (
	"strings"
	"testing"
)

func TestDerive(t *testing.T) {
	released := `module k8s.io/kubernetes

go 1.25.0

godebug default=go1.25

godebug (
	winsymlink=0
)

require (
	example.com/other v1.2.3
	k8s.io/api v0.0.0
)

replace (
	example.com/other => example.com/fork v1.2.4
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`
	text, err := derive(released, "1.35.4")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"go 1.25.0\n", "godebug default=go1.25\n", "godebug (\n\twinsymlink=0\n)\n", "k8s.io/kubernetes v1.35.4",
		"k8s.io/api => k8s.io/api v0.35.4", "k8s.io/client-go => k8s.io/client-go v0.35.4",
		"k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the module lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "example.com") {
		t.Errorf("the module replaces what is not a staging module:\n%s", text)
	}
	if _, err := derive(released, "1.35"); err == nil {
		t.Error("1.35 passes for a version")
	}
}

func TestPickKeepsBuildingOrder(t *testing.T) {
	got, err := pick([]string{Kubectl, Etcd})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].name != Etcd || got[1].name != Kubectl {
		t.Errorf("picked %v", got)
	}
	if _, err := pick([]string{"kube-dns"}); err == nil || !strings.Contains(err.Error(), "kube-dns") {
		t.Errorf("an unknown program: %v", err)
	}
}

func TestLinkerFlagsNameTheVersion(t *testing.T) {
	b := builder{kubernetes: "1.35.4"}
	for _, want := range []string{"component-base/version.gitVersion=v1.35.4", "gitMajor=1 ", "gitMinor=35 "} {
		if got := b.linkerFlags(); !strings.Contains(got, want) {
			t.Errorf("flags %q lack %q", got, want)
		}
	}
}
