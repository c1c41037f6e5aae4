package scenario

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// justKept are the ways in which a pod can be just small enough to be kept as it is, with as many rules as are kept, by what
// takes the memory. None of its rules is that of another pod.
func justKept() map[string]func(p *corev1.Pod) {
	const most, rules = 62 << 10, 250
	// values are as many as fit into so many bytes as sent.
	values := func(p *corev1.Pod, bytes int) (list []string) {
		for size := 0; size < bytes; {
			value := fmt.Sprint(p.Name, "-", len(list))
			list, size = append(list, value), size+len(value)+2
		}
		return list
	}
	apart := func(p *corev1.Pod, terms ...corev1.PodAffinityTerm) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	expression := func(key string, values []string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}}}}
	}
	return map[string]func(p *corev1.Pod){
		"annotations": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"example.tutti.dev/text": p.Name + strings.Repeat("x", most)}
		},
		"values of one term": func(p *corev1.Pod) {
			apart(p, expression(corev1.LabelHostname, values(p, most)))
		},
		"values of all terms": func(p *corev1.Pod) {
			var terms []corev1.PodAffinityTerm
			for i := range rules / 2 {
				terms = append(terms, expression(fmt.Sprint("zone", i), values(p, 2*most/rules-60)))
			}
			apart(p, terms...)
		},
		"keys": func(p *corev1.Pod) {
			var terms []corev1.PodAffinityTerm
			for i := range rules {
				terms = append(terms, corev1.PodAffinityTerm{TopologyKey: fmt.Sprint("zone", i, p.Name), LabelSelector: &metav1.LabelSelector{}})
			}
			apart(p, terms...)
		},
		"tolerations": func(p *corev1.Pod) {
			for i := range rules {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint(p.Name, i), Value: strings.Repeat("x", 200)})
			}
		},
		"constraints": func(p *corev1.Pod) {
			for i := range rules / 2 {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: fmt.Sprint("zone", i), WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{p.Name + strings.Repeat("x", 2*most/rules-120): "x"}}})
			}
		},
	}
}

// TestWhatIsBuiltOfAPodIsBounded: of a pod that is just small enough to be kept, everything together takes no more than a
// megabyte: the object, what the state and kube-scheduler's plugins make of it, its shape, and what is counted of its rules.
func TestWhatIsBuiltOfAPodIsBounded(t *testing.T) {
	const pods, most = 60, 1 << 20
	for name, change := range justKept() {
		t.Run(name, func(t *testing.T) {
			s := openLister(t)()
			for i := range 100 {
				if err := s.world.apply(fmt.Sprintf("node n%d cpu=8 memory=8Gi pods=200", i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.open(); err != nil {
				t.Fatal(err)
			}
			before := heap()
			for i := range 2 * pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i)),
					ResourceVersion: "9", Labels: map[string]string{"app": fmt.Sprint("p", i)}}}
				pod.Spec.SchedulerName = "tutti"
				pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}
				if change(pod); i%2 == 0 {
					pod.Spec.NodeName, pod.Status.Phase = fmt.Sprintf("n%d", i%100), corev1.PodRunning
				}
				kept := cluster.KeptPod(pod)
				if why := cluster.Malformed(kept); why != "" {
					t.Fatal(why)
				}
				s.world.tell(&cluster.PodSeen{Pod: kept})
			}
			for range 3 {
				engine.Run(s.state.Snapshot(s.world.now), s.profile, engine.Options{Cache: &s.cache})
			}
			after := heap()
			t.Logf("%d KiB for each of %d pods", int64(after-before)/2/pods>>10, 2*pods)
			if each := int64(after-before) / 2 / pods; each > most {
				t.Errorf("%d bytes for each pod, want %d at most", each, most)
			}
			runtime.KeepAlive(s)
		})
	}
}

// heap is what is in use after the garbage is gone, in bytes.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
