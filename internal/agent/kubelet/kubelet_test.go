package kubelet

import (
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

func TestPolicy(t *testing.T) {
	for _, c := range []struct{ text, want, problem string }{
		{`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, "none", ""},
		{`{"policyName":"static","defaultCpuSet":"0-15","entries":{"u":{"c":"2-3"}},"checksum":1}`, "static", "cpuManagerPolicy=static"},
		{"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", "none", ""},
		{"kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n", "static", "cpuManagerPolicy=static"},
		{"kind: KubeletConfiguration\ncpuManagerPolicy: None\n", "none", ""},
		{`{"policyName":"new"}`, "new", "cpuManagerPolicy=new"},
	} {
		got, err := Policy([]byte(c.text))
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.text, got, err, c.want)
		}
		if problem := PolicyProblem(got); (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) {
			t.Errorf("%s: problem %q, want %q", c.text, problem, c.problem)
		}
	}
	for _, text := range []string{"", "{}", "kind: Pod", "[", "\x00"} {
		if got, err := Policy([]byte(text)); err == nil {
			t.Errorf("%q: policy %q, want an error", text, got)
		}
	}
}

// TestMode: sixteen CPUs, eight of them isolated, as in the table of what kubelets admit.
func TestMode(t *testing.T) {
	for _, c := range []struct {
		allocatable int64
		cpus        int
		asked, want isolated.Mode
		problem     string
	}{
		{14000, 8, "", isolated.Included, ""},
		{8001, 8, "", isolated.Included, ""},
		{8000, 8, "", isolated.Excluded, "set it with --mode"},
		{6000, 8, "", isolated.Excluded, "set it with --mode"},
		{6000, 8, isolated.Excluded, isolated.Excluded, ""},
		{6000, 8, isolated.Included, isolated.Included, ""},
		{14000, 8, isolated.Excluded, isolated.Included, "only 2000m below capacity"},
		{8001, 8, isolated.Excluded, isolated.Included, "only 7999m below capacity"},
		{14000, 0, "", isolated.Included, ""},
		{16000, 0, "", isolated.Included, ""},
	} {
		mode, problem := Mode(16000, c.allocatable, c.cpus, c.asked)
		if mode != c.want || (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) {
			t.Errorf("allocatable %d, %d isolated, asked %q: %q, %q; want %q, %q",
				c.allocatable, c.cpus, c.asked, mode, problem, c.want, c.problem)
		}
	}
}
