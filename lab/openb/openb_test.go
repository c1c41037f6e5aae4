package openb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// files are small traces of the same form as the real ones.
func files() map[string]string {
	return map[string]string{
		"openb/nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\nn1,96000,2048,8,T4\n",
		"openb/pods.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" +
			"p0,1000,512,1,460,\np1,2500,1024,2,1000,T4|P100\np2,500,256,0,0,\n",
		"philly-gavel/jobs.csv": "vc,arrival_s,gang_size\nv,0.0,1\nv,1.5,4\n",
	}
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func compose(t *testing.T, demand float64, seed uint64) *Workload {
	t.Helper()
	trace, err := Load(write(t, files()))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Compose(trace, demand, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestComposeTakesBothTracesInOrder(t *testing.T) {
	w := compose(t, 1.2, 0)
	want := []Gang{
		{"gang-00000", 1, Shape{1000, 512, 1, true, ""}},
		{"gang-00001", 4, Shape{2500, 1024, 2, false, "T4|P100"}},
		{"gang-00002", 1, Shape{500, 256, 0, false, ""}},
	}
	if len(w.Gangs) < 3 {
		t.Fatalf("%d gangs", len(w.Gangs))
	}
	for i, gang := range want {
		if w.Gangs[i] != gang {
			t.Errorf("gang %d is %+v, want %+v", i, w.Gangs[i], gang)
		}
	}
	// 1 + 8 + 0 GPUs, and the next gang, of 4 with one GPU each, goes over 1.2 × 8.
	if w.Offered != 8 || w.Asked != 13 || len(w.Gangs) != 4 || w.Pods != 10 || w.Shared != 5 || w.Constrained != 4 {
		t.Errorf("the workload is %+v", w)
	}
	if sizes := w.sizes(); sizes != "2 × 1, 2 × 4" || w.shapes() != 3 {
		t.Errorf("sizes %s, %d shapes", sizes, w.shapes())
	}
}

func TestSameSeedSameWorkload(t *testing.T) {
	different := false
	for seed := range uint64(10) {
		a, b := compose(t, 20, seed), compose(t, 20, seed)
		for i := range a.Gangs {
			if a.Gangs[i] != b.Gangs[i] {
				t.Fatalf("seed %d: gang %d is %+v, then %+v", seed, i, a.Gangs[i], b.Gangs[i])
			}
		}
		different = different || a.Gangs[0] != compose(t, 20, 0).Gangs[0]
	}
	if !different {
		t.Error("no seed changes the order")
	}
}

func TestObjectsSayWhatTheTraceSays(t *testing.T) {
	w := compose(t, 1.2, 0)
	nodes, pods, groups := w.nodes(), w.pods(), w.groups()
	if len(nodes) != 2 || len(pods) != w.Pods || len(groups) != len(w.Gangs) {
		t.Fatalf("%d nodes, %d pods, %d groups", len(nodes), len(pods), len(groups))
	}
	room := nodes[1].Status.Allocatable
	gpu := room[gpuResource]
	if room.Cpu().MilliValue() != 96000 || room.Memory().Value() != 2<<30 || gpu.Value() != 8 || room.Pods().Value() != 110 {
		t.Errorf("the node offers %v", room)
	}
	if nodes[1].Labels[modelLabel] != "T4" || nodes[0].Labels[modelLabel] != "" {
		t.Errorf("the models are %q and %q", nodes[0].Labels[modelLabel], nodes[1].Labels[modelLabel])
	}
	if _, ok := nodes[0].Status.Allocatable[gpuResource]; ok {
		t.Error("a node without GPUs offers some")
	}
	if groups[1].Spec.MinMember != 4 {
		t.Errorf("the gang needs %d", groups[1].Spec.MinMember)
	}
	asks := pods[1].Spec.Containers[0].Resources.Requests
	gpu = asks[gpuResource]
	if asks.Cpu().MilliValue() != 2500 || asks.Memory().Value() != 1<<30 || gpu.Value() != 2 {
		t.Errorf("the pod asks for %v", asks)
	}
	term := pods[1].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	if got := term.MatchExpressions[0]; got.Key != modelLabel || got.Operator != corev1.NodeSelectorOpIn || len(got.Values) != 2 {
		t.Errorf("the pod may be on %v", got)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no number":        {"openb/pods.csv", "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nx,1,1,1,\n", "pods.csv:2: column cpu_milli"},
		"a column is gone": {"openb/nodes.csv", "sn,cpu_milli\nn0,1\n", "no column memory_mib"},
		"less than 0":      {"philly-gavel/jobs.csv", "gang_size\n-1\n", "less than 0"},
		"empty":            {"philly-gavel/jobs.csv", "gang_size\n", "no rows"},
		"ragged":           {"openb/nodes.csv", "sn,cpu_milli\nn0\n", "wrong number of fields"},
	} {
		all := files()
		all[c.file] = c.text
		if _, err := Load(write(t, all)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is a trace")
	}
}
