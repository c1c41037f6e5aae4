package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func TestGangsAreWhole(t *testing.T) {
	gangs := Gangs{Prefix: "g", First: 2, Count: 3, Size: 50}
	groups, pods := gangs.groups(), gangs.pods()
	if len(groups) != 3 || len(pods) != 150 || groups[0].Spec.MinMember != 50 || groups[0].Name != "g-2" {
		t.Errorf("%d groups of %d, the first %s, %d pods", len(groups), groups[0].Spec.MinMember, groups[0].Name, len(pods))
	}
	members := map[string]int{}
	for _, pod := range pods {
		members[pod.Labels[v1alpha1.LabelPodGroup]]++
	}
	for name, minimum := range gangs.Minimum() {
		if members[name] != minimum {
			t.Errorf("%s has %d members and needs %d", name, members[name], minimum)
		}
	}
}

func TestNativeMembersNameTheirGroup(t *testing.T) {
	s := &Bench{natives: &nativePodGroups{}}
	for _, pod := range s.Pods(Gangs{Prefix: "g", Count: 2, Size: 2}) {
		if group := pod.Spec.SchedulingGroup; group == nil || *group.PodGroupName != pod.Labels[v1alpha1.LabelPodGroup] {
			t.Errorf("%s: %+v", pod.Name, group)
		}
	}
	for _, pod := range (&Bench{}).Pods(Gangs{Prefix: "g", Count: 1, Size: 1}) {
		if pod.Spec.SchedulingGroup != nil {
			t.Errorf("%s is in a native group without gang scheduling", pod.Name)
		}
	}
}

func TestKubeSchedulerIsNotHeldBack(t *testing.T) {
	var configuration struct {
		ClientConnection struct {
			QPS   float64 `json:"qps"`
			Burst int     `json:"burst"`
		} `json:"clientConnection"`
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal([]byte(kubeConfiguration("file")), &configuration); err != nil {
		t.Fatal(err)
	}
	if c := configuration.ClientConnection; c.QPS < 10_000 || c.Burst < 10_000 {
		t.Errorf("its client may send %+v", c)
	}
	if p := configuration.Profiles; len(p) != 1 || p[0].SchedulerName != "tutti" {
		t.Errorf("it takes the pods of %+v", p)
	}
}

func TestParseContenders(t *testing.T) {
	for _, short := range ShortNames() {
		if got, err := ParseContenders([]string{short}); err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", short, got, err)
		}
	}
	if got, err := ParseContenders(nil); err != nil || len(got) != len(Contenders()) {
		t.Errorf("nothing: %v, %v", got, err)
	}
	if _, err := ParseContenders([]string{"volcano"}); err == nil || !strings.Contains(err.Error(), "volcano") {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestMemory(t *testing.T) {
	m, err := parseMemory("Name:\tx\nVmHWM:\t    3072 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n")
	if err != nil || m != (Memory{Now: 2 << 20, Peak: 3 << 20}) {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := parseMemory("Name:\tx\n"); err == nil {
		t.Error("no memory is no error")
	}
	if m, err := MemoryOf(os.Getpid()); err != nil || m.Now <= 0 || m.Peak < m.Now/2 {
		t.Errorf("this process: %+v, %v", m, err)
	}
}

func TestProcessorTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "17", "stat")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	line := "17 (a ) name) S 5 17 17 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 100 1 1\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readProcess(file)
	if want := (accounts{id: 17, parent: 5, used: 3 * time.Second}); err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	from, err := Used()
	if err != nil {
		t.Fatal(err)
	}
	to := from
	to.at, to.all, to.ours = from.at.Add(time.Second), from.all+time.Second, from.ours+time.Second
	if share := Others(from, to); share != 0 {
		t.Errorf("others used %f while all of it was ours", share)
	}
	to.ours = from.ours
	if share := Others(from, to); share <= 0 {
		t.Errorf("others used %f while nothing was ours", share)
	}
}
