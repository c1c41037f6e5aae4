package isolated

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"
)

// podOf reads containers such as "main=2", "init i=4" and "sidecar s=1"; "overhead=250m" and "pod=4" are the pod's own.
func podOf(annotation string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.UID, pod.Spec.NodeName = "p", "u", "n"
	if annotation != "-" {
		pod.Annotations = map[string]string{RequestAnnotation: annotation}
	}
	always := corev1.ContainerRestartPolicyAlways
	for _, text := range containers {
		name, amount, _ := strings.Cut(text, "=")
		list := corev1.ResourceList{}
		if amount != "" {
			list[corev1.ResourceCPU] = resource.MustParse(amount)
		}
		kind, bare, beside := strings.Cut(name, " ")
		c := corev1.Container{Name: bare, Resources: corev1.ResourceRequirements{Requests: list}}
		switch {
		case name == "overhead":
			pod.Spec.Overhead = list
		case name == "pod":
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list}
		case beside && kind == "sidecar":
			c.RestartPolicy = &always
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case beside:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			c.Name = name
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// TestSplit has every shape of a pod: its request of each pool, and the CPUs of each container on cores of two threads, 16
// apart.
func TestSplit(t *testing.T) {
	top := machine(t, 1, 16, "0-31", 0)
	for _, c := range []struct {
		annotation string
		containers []string
		count      int
		ordinary   int64
		sets       string
	}{
		{"true", []string{"a=2", "b=1"}, 3, 0, "a=0,16 b=1"},
		{"a,i", []string{"init i=4", "a=2"}, 4, 0, "a=0,16 i=0-1,16-17"},
		{"true", []string{"init i=100m", "a=2"}, 2, 100, "a=0,16"},
		{"s,i,a", []string{"sidecar s=1", "init i=2", "a=2"}, 3, 0, "a=0,16 i=0,16 s=1"},
		{"i,s,a", []string{"init i=3", "sidecar s=1", "a=2"}, 3, 0, "a=0,16 i=0-1,16 s=1"},
		{"true", []string{"sidecar istio=100m", "a=2"}, 2, 100, "a=0,16"},
		{"a", []string{"init i=2500m", "sidecar s=1", "a=2", "b=500m"}, 2, 2500, "a=0,16"},
		{"true", []string{"a=2", "overhead=250m"}, 2, 250, "a=0,16"},
		{"main", []string{"main=2", "log=500m", "pod=4"}, 4, 0, "log=1,17 main=0,16"},
		{"main", []string{"main=2", "pod=2", "overhead=1"}, 2, 1000, "main=0,16"},
		// A sidecar that shares what the others leave runs beside the init containers after it, not beside those before.
		{"main,i", []string{"sidecar s", "init i=3", "main=2", "pod=5"}, 5, 0, "i=0,2,16 main=0,16 s=1,17"},
		{"main,i", []string{"sidecar s", "init i=3", "main=2", "log", "pod=4"}, 4, 0, "i=0,16-17 log=1 main=0,16 s=1"},
		{"main,i", []string{"init i=4", "sidecar s", "main=2", "pod=4"}, 4, 0, "i=0-1,16-17 main=0,16 s=1,17"},
		{" a , b ", []string{"a=2", "b=2", "c"}, 4, 0, "a=0,16 b=1,17"},
		{"true", []string{"a=2000m"}, 2, 0, "a=0,16"},
	} {
		pod := podOf(c.annotation, c.containers...)
		r, err := AskedBy(pod).Request()
		if err != nil {
			t.Errorf("%s of %v: %v", c.annotation, c.containers, err)
			continue
		}
		if r.Count != c.count || r.CPUsHeld() != c.count || r.SharedCPU != c.ordinary {
			t.Errorf("%s of %v: %d isolated, %d ordinary, want %d, %d", c.annotation, c.containers, r.Count, r.SharedCPU, c.count, c.ordinary)
		}
		held, ok := Pick(top, top.Isolated, r.Count, r.Policies)
		sets := r.Partition(top, held)
		if got := said(sets); !ok || got != c.sets {
			t.Errorf("%s of %v: %s of %s, want %s", c.annotation, c.containers, got, held, c.sets)
		}
		a := &Assignment{CPUs: held, Containers: sets}
		if beside := SharedPoolRequest(pod, a); beside != c.ordinary {
			t.Errorf("%s of %v: once it is bound it takes %d ordinary, want %d", c.annotation, c.containers, beside, c.ordinary)
		}
	}
}

// said writes sets with the names of their containers.
func said(sets map[string]CPUSet) string {
	text := fmt.Sprint(sets) // in order of keys
	text = strings.TrimSuffix(strings.TrimPrefix(text, "map["), "]")
	return strings.ReplaceAll(text, ":", "=")
}

// TestSplitRefuses has invalid requests: such a pod is never treated as an ordinary pod.
func TestSplitRefuses(t *testing.T) {
	for _, c := range []struct {
		annotation string
		containers []string
		want       string
	}{
		{"true", []string{"a=1500m"}, `cpu request not integral: container "a" asks for 1500m`},
		{"true", []string{"a=2", "b"}, `cpu request not integral: container "b" asks for 0`},
		{"true", []string{"a=2000000"}, `container "a" asks for 2M`},
		{"a,x", []string{"a=2"}, `unknown container "x"`},
		{"", []string{"a=2"}, `is "", and must be "true" or names`},
		{"a,", []string{"a=2"}, `is "a,"`},
		{"false", []string{"a=2"}, `unknown container "false"`},
		{"main", []string{"main=2", "log", "pod=2"}, `leaves none for container "log"`},
		{"main,i", []string{"sidecar s", "init i=4", "main=2", "pod=4"}, `leaves none for container "s"`},
		{"main", []string{"main=2", "pod=2500m"}, `the pod as a whole asks for 2500m`},
		{"main", []string{"main=4", "pod=2"}, `containers ask for 4 isolated CPUs, the pod as a whole for 2`},
		{"true", []string{"a=1000", "b=1000"}, `2000 isolated CPUs: at most 1024`},
	} {
		r, err := AskedBy(podOf(c.annotation, c.containers...)).Request()
		if err == nil || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("%q of %v: %v, %v, want %s", c.annotation, c.containers, r, err, c.want)
		}
	}
	for key, value := range map[string]string{SMTAnnotation: "off", NUMAAnnotation: "single"} {
		pod := podOf("true", "a=2")
		pod.Annotations[key] = value
		if _, err := AskedBy(pod).Request(); err == nil || !strings.Contains(err.Error(), key+" is") {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	if r, err := AskedBy(podOf("-", "a=1500m")).Request(); r != nil || err != nil {
		t.Errorf("a pod that does not ask: %v, %v", r, err)
	}
}

func TestOnePerCoreIsChargedTwice(t *testing.T) {
	top := machine(t, 1, 4, "0-7", 0)
	pod := podOf("true", "a=2", "b=1")
	pod.Annotations[SMTAnnotation] = string(OnePerCore)
	r, err := AskedBy(pod).Request()
	if err != nil || r.Count != 3 || r.CPUsHeld() != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	held, ok := Pick(top, top.Isolated, r.Count, r.Policies)
	if got := said(r.Partition(top, held)); !ok || held.Len() != 6 || got != "a=0-1 b=2" {
		t.Errorf("%s of %s", got, held)
	}
}

// TestSplitIsNeverUnderCharged compares both pools together with what the kubelet counts, and the ordinary one of a pod that
// selects no container with kube-scheduler's.
func TestSplitIsNeverUnderCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var containers, names []string
		for i := range rapid.IntRange(1, 5).Draw(t, "containers") {
			name := fmt.Sprintf("c%d", i)
			kind := rapid.SampledFrom([]string{"", "init ", "sidecar "}).Draw(t, "kind")
			amount := rapid.SampledFrom([]string{"1", "2", "3", "250m"}).Draw(t, "amount")
			if amount != "250m" && rapid.Bool().Draw(t, "selected") {
				names = append(names, name)
			}
			containers = append(containers, kind+name+"="+amount)
		}
		if rapid.Bool().Draw(t, "overhead") {
			containers = append(containers, "overhead=300m")
		}
		whole := rapid.Bool().Draw(t, "as a whole")
		if whole {
			containers = append(containers, fmt.Sprintf("pod=%d", rapid.IntRange(1, 12).Draw(t, "pod")))
		}
		pod := podOf(strings.Join(append(names, "last"), ","), append(containers, "last=1")...)
		counted := helpers.PodRequests(pod.DeepCopy(), helpers.PodResourcesOptions{})
		r, err := AskedBy(pod).Request()
		if whole && err != nil && strings.Contains(err.Error(), "as a whole") {
			return // too small for all of them
		}
		if err != nil {
			t.Fatal(err)
		}
		if both := 1000*int64(r.Count) + r.SharedCPU; both < counted.Cpu().MilliValue() {
			t.Errorf("%v: %d in all, the kubelet counts %s", containers, both, counted.Cpu())
		}
		if alone := SharedPoolRequest(pod, &Assignment{}); alone != counted.Cpu().MilliValue() {
			t.Errorf("%v: %d ordinary when no container has ids, kube-scheduler counts %s", containers, alone, counted.Cpu())
		}
		holdPartition(t, pod, r)
	})
}

// holdPartition checks that containers which run at the same time share no CPU, and that each has as many as it requests.
func holdPartition(t *rapid.T, pod *corev1.Pod, r *Request) {
	top := randomMachine(t, 2, 8)
	held, ok := Pick(top, top.Isolated, r.Count, r.Policies)
	if !ok {
		return
	}
	sets := r.Partition(top, held)
	var lasting, sharing, started CPUSet // started are sidecars, including those that share
	for _, p := range r.parts {
		own := sets[p.name]
		if own.Len() != p.cpus || own.Empty() || !own.Within(held) {
			t.Fatalf("%s has %s of %s", p.name, own, held)
		}
		switch {
		case p.shares && !sharing.Empty() && own != sharing:
			t.Fatalf("%s shares %s, others %s", p.name, own, sharing)
		case p.shares:
			sharing = own
		case p.initial && !own.Intersect(started).Empty(), !p.initial && !own.Intersect(lasting).Empty():
			t.Fatalf("%s has %s, others %s and %s", p.name, own, started, lasting)
		case !p.initial:
			lasting = lasting.Union(own)
		}
		if p.sidecar {
			started = started.Union(own)
		}
	}
	if both := lasting.Intersect(sharing); !both.Empty() {
		t.Fatalf("%s are shared, and a container's own", both)
	}
	if beside := SharedPoolRequest(pod, &Assignment{CPUs: held, Containers: sets}); beside != r.SharedCPU {
		t.Fatalf("%d ordinary before, %d after it was bound", r.SharedCPU, beside)
	}
}

// TestResizedIsOrdinary: a container that is resized beyond its ids takes the rest from the ordinary pool.
func TestResizedIsOrdinary(t *testing.T) {
	pod := podOf("true", "a=3", "b=500m")
	a := &Assignment{CPUs: NewCPUSet(8, 9), Containers: map[string]CPUSet{"a": NewCPUSet(8, 9)}}
	if got := SharedPoolRequest(pod, a); got != 1500 {
		t.Errorf("%d, want 1500", got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"),
	}}}
	if got := SharedPoolRequest(pod, a); got != 2500 {
		t.Errorf("%d while 4 are granted, want 2500", got)
	}
}

func TestAssignedToIsOfThisPodOnThisNode(t *testing.T) {
	pod := podOf("true", "main=3", "side=1")
	pod.Annotations[AssignedAnnotation] = strings.NewReplacer(`"n1"`, `"n"`).Replace(assigned)
	a, err := AssignedTo(pod)
	if err != nil || a.CPUs != NewCPUSet(8, 9, 10, 11) {
		t.Errorf("%v, %v", a, err)
	}
	for what, change := range map[string]func(){
		`is of pod "u" on node "n"`: func() { pod.UID = "v" },
		"invalid character":         func() { pod.Annotations[AssignedAnnotation] = "x" },
		"names 1 containers that":   func() { pod.Spec.Containers = pod.Spec.Containers[:1] },
		`container "side" has CPUs 10 `: func() {
			pod.Annotations[AssignedAnnotation] = strings.NewReplacer(`"n1"`, `"n"`, `"11"`, `"10"`).Replace(assigned)
		},
	} {
		before := pod.DeepCopy()
		change()
		if a, err := AssignedTo(pod); a != nil || err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, %v, want %s", a, err, what)
		}
		pod = before
	}
	pod.Spec.NodeName = ""
	if a, err := AssignedTo(pod); a != nil || err != nil {
		t.Errorf("not bound: %v, %v", a, err)
	}
}

// TestContainersThatDoNotRunTogetherMayShare: an init container that ends, and those of a pod with a request of its own.
func TestContainersThatDoNotRunTogetherMayShare(t *testing.T) {
	same := `{"v":1,"node":"n","uid":"u","cpus":"8-9","containers":{"a":"8-9","b":"8-9"}}`
	for name, pod := range map[string]*corev1.Pod{
		"before it":            podOf("true", "init a=2", "b=2"),
		"as a whole":           podOf("a,b", "pod=2", "a", "b"),
		"sidecar":              podOf("true", "sidecar a=2", "b=2"),
		"two at the same time": podOf("true", "a=2", "b=2"),
	} {
		pod.Annotations[AssignedAnnotation] = same
		_, err := AssignedTo(pod)
		if together := name == "sidecar" || name == "two at the same time"; (err != nil) != together {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnAssignmentTakesNoMoreThanItsCPUs: whatever it says of containers, ids and ordinary CPU together are what the kubelet
// counts.
func TestAnAssignmentTakesNoMoreThanItsCPUs(t *testing.T) {
	var names []string
	forged := &Assignment{CPUs: NewCPUSet(0), Containers: map[string]CPUSet{}}
	for i := range 60 {
		names = append(names, fmt.Sprintf("c%d=1", i))
		forged.Containers[fmt.Sprintf("c%d", i)] = forged.CPUs
	}
	if got := SharedPoolRequest(podOf("-", names...), forged); got != 59_000 {
		t.Errorf("%d ordinary beside 1 id, want 59000", got)
	}
}

func TestAnnotationsKeepWhatTheUserRequires(t *testing.T) {
	a := &Assignment{Version: 1, CPUs: NewCPUSet(1)}
	for given, want := range map[string]string{
		"": `["isolcpu"]`, `["x"]`: `["x","isolcpu"]`, `["isolcpu","x"]`: `["isolcpu","x"]`,
	} {
		pod := podOf("true", "a=1")
		if given != "" {
			pod.Annotations[RequiredPluginsAnnotation] = given
		}
		written, err := AskedBy(pod).Annotations(a)
		if err != nil || written[RequiredPluginsAnnotation] != want {
			t.Errorf("%s: %v, %v, want %s", given, written, err, want)
		}
		if back, err := ParseAssignment(written[AssignedAnnotation]); err != nil || back.CPUs != a.CPUs {
			t.Errorf("%v, %v", back, err)
		}
	}
	pod := podOf("true", "a=1")
	pod.Annotations[RequiredPluginsAnnotation] = "isolcpu"
	if _, err := AskedBy(pod).Annotations(a); err == nil {
		t.Error("what the user requires cannot be read, and no error says so")
	}
}
