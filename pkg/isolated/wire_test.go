package isolated

import (
	"strings"
	"testing"
)

const topology = `{"v":1,"gen":7,"bootID":"b","source":"isolcpus","isolated":"8-15","online":"0-15","nohzFull":"8-15","mode":"included",` +
	`"threadsPerCore":2,"numa":[{"id":0,"cpus":"8-9,12-13","cores":["8,12","9,13"],"llc":["8-9,12-13"]},` +
	`{"id":1,"cpus":"10-11,14-15","cores":["10,14","11,15"]}],"kubelet":{"cpuManagerPolicy":"none"}}`

const assigned = `{"v":1,"node":"n1","uid":"u","cpus":"8-11","numa":"0","containers":{"main":"8-10","side":"11"},"gen":7}`

func TestWireFormatsAreStable(t *testing.T) {
	top, err := ParseTopology(topology)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := top.Text(); err != nil || text != topology {
		t.Errorf("topology: %s, %v", text, err)
	}
	a, err := ParseAssignment(assigned)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := a.Text(); err != nil || text != assigned {
		t.Errorf("assignment: %s, %v", text, err)
	}
}

func TestWhatDoesNotAddUpIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"v":1`, `"v":2`, "version 2"},
		{`"mode":"included"`, `"mode":""`, `mode ""`},
		{`"online":"0-15"`, `"online":"0-14"`, "15 are not online"},
		{`"isolated":"8-15"`, `"isolated":"7-15"`, "NUMA nodes have 8-15"},
		{`"cores":["8,12","9,13"]`, `"cores":["8,12","9"]`, "numa 0: cores: have 8-9,12 of 8-9,12-13"},
		{`"cores":["8,12","9,13"]`, `"cores":["8,12-13","9,13"]`, "numa 0: cores: CPUs 13 are named twice"},
		{`"cpus":"10-11,14-15"`, `"cpus":"9-11,14-15"`, "numa 1: CPUs 9 are of another NUMA node"},
		{`"threadsPerCore":2`, `"threadsPerCore":0`, "threadsPerCore 0"},
		{`"threadsPerCore":2`, `"threadsPerCore":4611686018427387904`, "threadsPerCore 4611686018427387904"},
		{`"id":1`, `"id":0`, "numa 0: named twice"},
		{`"id":1`, `"id":-1`, "numa -1: neither 0 nor below 1024"},
		{`"id":1`, `"id":1024`, "numa 1024: neither 0 nor below 1024"},
	} {
		text := strings.Replace(topology, c.old, c.new, 1)
		if _, err := ParseTopology(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{`"v":1`, `"v":0`, "version 0"},
		{`"cpus":"8-11"`, `"cpus":""`, "no CPUs"},
		{`"side":"11"`, `"side":"12"`, "container side: CPUs 12 are not the pod's"},
	} {
		text := strings.Replace(assigned, c.old, c.new, 1)
		if _, err := ParseAssignment(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}
