package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/features"
)

// serverOf is an API server of a version, with metrics, or without the right to them.
func serverOf(t *testing.T, number, metrics string) *kubernetes.Clientset {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"gitVersion":%q}`, number)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		if metrics == "" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, metrics)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func metricsWith(gate string, value int) string {
	return "# HELP kubernetes_feature_enabled x\nup 1\nkubernetes_feature_enabled{name=\"NoSuchGate\",stage=\"\"} 1\n" +
		fmt.Sprintf("kubernetes_feature_enabled{name=%q,stage=\"BETA\"} %d\n", gate, value)
}

// TestGatesFollowTheAPIServer: its version, then its gates, then the flag.
func TestGatesFollowTheAPIServer(t *testing.T) {
	gate := features.VolumeLimitScaling
	defaults := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	newest := defaults.Enabled(gate)
	if err := defaults.SetEmulationVersion(version.MustParse("1.35")); err != nil {
		t.Fatal(err)
	}
	older := defaults.Enabled(gate)
	if newest == older {
		t.Fatalf("%s is %t in both versions", gate, newest)
	}
	for name, c := range map[string]struct {
		version, metrics, given string
		want                    bool
	}{
		"its version":             {"v1.35.4", "", "", older},
		"the newest":              {"v1.37.1+build", "", "", newest},
		"newer than this program": {"v1.39.0", "", "", newest},
		"its own gates":           {"v1.37.1", metricsWith(string(gate), 0), "", false},
		"its own gates, on":       {"v1.35.4", metricsWith(string(gate), 1), "", true},
		"the flag":                {"v1.37.1", metricsWith(string(gate), 1), string(gate) + "=false", false},
	} {
		gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		served, err := FollowServer(t.Context(), serverOf(t, c.version, c.metrics), gates, c.given)
		if err != nil || served.DeviceTaintRules || !strings.HasPrefix(c.version, "v"+served.Version) {
			t.Errorf("%s: served is %+v: %v", name, served, err)
		}
		if got := gates.Enabled(gate); got != c.want {
			t.Errorf("%s: %s is %t, want %t", name, gate, got, c.want)
		}
	}
	if err := CheckGates("NoSuchGate=true"); err == nil || !strings.Contains(err.Error(), "--feature-gates NoSuchGate=true") {
		t.Errorf("error %v", err)
	}
}

// TestAFixedGateKeepsNoOtherFromBeingFollowed: the API server may have turned off what this version cannot.
func TestAFixedGateKeepsNoOtherFromBeingFollowed(t *testing.T) {
	fixed, free := features.NodeDeclaredFeatures, features.VolumeLimitScaling
	if CheckGates(string(fixed)+"=false") == nil {
		t.Fatalf("%s is not fixed", fixed)
	}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	text := metricsWith(string(fixed), 0) + metricsWith(string(free), 0)
	if _, err := FollowServer(t.Context(), serverOf(t, "v1.37.1", text), gates, ""); err != nil {
		t.Fatal(err)
	}
	if !gates.Enabled(fixed) || gates.Enabled(free) {
		t.Errorf("%s is %t, %s is %t", fixed, gates.Enabled(fixed), free, gates.Enabled(free))
	}
}

func TestFollowedGatesAreKnown(t *testing.T) {
	for _, gate := range FollowedGates() {
		if err := CheckGates(string(gate) + "=true"); err != nil {
			t.Error(err)
		}
	}
}
