package predicates_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// newReference returns kube-scheduler's own framework over the world's view: its default filters but resource fit, and
// but DynamicResources, which indexes the pods a second time.
func newReference(t *testing.T, w *world) kube.Framework {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	left := []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "DefaultPreemption", "DynamicResources"}
	all := &profile.Plugins.MultiPoint
	all.Enabled = slices.DeleteFunc(all.Enabled, func(p config.Plugin) bool { return slices.Contains(left, p.Name) })
	reference, err := kuberuntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		kuberuntime.WithClientSet(w.client), kuberuntime.WithInformerFactory(w.informers),
		kuberuntime.WithSnapshotSharedLister(w.view),
		kuberuntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(w.informers.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

func TestSameAsKubeScheduler(t *testing.T) {
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "b"}}})
	reference := newReference(t, w)
	refused, passed := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, pods := randomCluster(r)
		w.view.show(pods, nodes)
		pod := randomPod(r, "incoming")
		answers := w.ask(pod, nodes)
		for i, status := range referenceAnswers(t, reference, w, pod, nodes) {
			if (answers[i] == nil) != status.IsSuccess() {
				t.Fatalf("seed %d, node %s: we say %v, kube-scheduler says %v", seed, nodes[i].Name, answers[i], status)
			}
			if answers[i] == nil {
				passed++
			} else {
				refused++
			}
		}
	}
	if refused < 1000 || passed < 1000 {
		t.Errorf("the clusters are too one-sided: %d refused, %d passed", refused, passed)
	}
}

func referenceAnswers(t *testing.T, f kube.Framework, w *world, pod *corev1.Pod, nodes []*corev1.Node) []*fwk.Status {
	t.Helper()
	ctx, state := context.Background(), kube.NewCycleState()
	result, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	answers := make([]*fwk.Status, len(nodes))
	for i, node := range nodes {
		switch known, err := w.view.NodeInfos().Get(node.Name); {
		case err != nil:
			t.Fatal(err)
		case !status.IsSuccess():
			answers[i] = status
		case !result.AllNodes() && !result.NodeNames.Has(node.Name):
			answers[i] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "left out by PreFilter")
		default:
			answers[i] = f.RunFilterPlugins(ctx, state, pod, known)
		}
	}
	return answers
}

func randomCluster(r *rand.Rand) ([]*corev1.Node, []*corev1.Pod) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 3 + r.IntN(4) {
		node := newNode(fmt.Sprint("n", i), func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("z", r.IntN(3))
			if r.IntN(8) == 0 {
				delete(n.Labels, corev1.LabelTopologyZone)
			}
			n.Spec.Unschedulable = r.IntN(10) == 0
			if r.IntN(4) == 0 {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: fmt.Sprint(r.IntN(2)), Effect: corev1.TaintEffectNoSchedule}}
			}
		})
		nodes = append(nodes, node)
		for j := range r.IntN(3) {
			pod := randomPod(r, fmt.Sprint("p", i, "-", j))
			pod.Spec.NodeName = node.Name
			pods = append(pods, pod)
		}
	}
	return nodes, pods
}

func randomPod(r *rand.Rand, name string) *corev1.Pod {
	return newPod(name, func(p *corev1.Pod) {
		p.Namespace = oneOf(r, "default", "default", "other")
		p.Labels["app"] = oneOf(r, "x", "y", "z")
		if r.IntN(6) == 0 {
			hostPort(int32(80 + r.IntN(2)))(p)
		}
		if r.IntN(4) == 0 {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: oneOf(r, "0", "1")}}
		}
		if r.IntN(8) == 0 {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		if r.IntN(6) == 0 {
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", r.IntN(3))}
		}
		if r.IntN(5) == 0 {
			spread(oneOf(r, "x", "y", "z"), randomKey(r))(p)
		}
		p.Spec.Affinity = randomAffinity(r)
		if r.IntN(6) == 0 {
			volumes(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: oneOf(r, "d1", "d2")},
			})(p)
		}
	})
}

func randomAffinity(r *rand.Rand) *corev1.Affinity {
	affinity := &corev1.Affinity{}
	if r.IntN(5) == 0 {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{randomTerm(r)},
		}
	}
	if r.IntN(6) == 0 {
		affinity.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{randomTerm(r)},
		}
	}
	if r.IntN(8) == 0 {
		affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", r.IntN(4))},
			}}}},
		}}
	}
	return affinity
}

func randomTerm(r *rand.Rand) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": oneOf(r, "x", "y", "z")}},
		TopologyKey:   randomKey(r),
	}
	switch r.IntN(4) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": oneOf(r, "a", "b")}}
	case 2:
		term.Namespaces = []string{"other"}
	}
	return term
}

func randomKey(r *rand.Rand) string { return oneOf(r, corev1.LabelHostname, corev1.LabelTopologyZone) }

func oneOf(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }
