package topology_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// noNamespaces is a cluster whose namespaces have no labels.
type noNamespaces struct{}

// NamespaceLabels returns no labels.
func (noNamespaces) NamespaceLabels(string) (map[string]string, bool) { return nil, true }

const benchZones = 10

// benchCluster has so many nodes in ten zones, and so many pods on them, in jobs of 50, each with its own labels.
func benchCluster(nodes, pods int) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		snapshot.Nodes = append(snapshot.Nodes, &model.Node{Name: name, Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("zone", i%benchZones),
				"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "rack": fmt.Sprint(i / 40),
			},
		}}})
	}
	snapshot.AssignIndexes()
	for i := range pods {
		pod := benchPod(fmt.Sprintf("old%06d", i), fmt.Sprint("job", i/50), i%50)
		if i%100 < 50 {
			requireApart(pod, corev1.LabelHostname) // half of the jobs
		}
		nodeCount(snapshot, benchTask(pod), snapshot.Nodes[i*7919%nodes])
	}
	return snapshot
}

func benchPod(name, job string, index int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "team", UID: types.UID(name), Labels: map[string]string{
			"app": "training", "job-name": job, "index": fmt.Sprint(index), "scheduling.tutti.dev/pod-group": job,
		},
	}}
}

func benchTask(pod *corev1.Pod) *model.Task {
	return &model.Task{PodRef: model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, Pod: pod}
}

func nodeCount(snapshot *model.Snapshot, task *model.Task, node *model.Node) {
	snapshot.Move(task, model.Placement{Status: model.Allocated, Node: node.Name})
}

// itself is a term that selects the pods of the pod's own job.
func itself(pod *corev1.Pod, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey:   key,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": pod.Labels["job-name"]}},
	}
}

func requireApart(pod *corev1.Pod, key string) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{itself(pod, key)},
	}}
}

func requireNear(pod *corev1.Pod, key string) {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{itself(pod, key)},
	}}
}

func preferNear(pod *corev1.Pod, key string) {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: itself(pod, key),
		}},
	}}
}

func spreadOver(pod *corev1.Pod, key string, when corev1.UnsatisfiableConstraintAction) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: itself(pod, key).LabelSelector,
	}}
}

// gangs are the affinities that the members of a gang can have.
var gangs = []struct {
	name string
	want func(*corev1.Pod)
}{
	{"plain", func(*corev1.Pod) {}},
	{"zoneAffinity", func(p *corev1.Pod) { requireNear(p, corev1.LabelTopologyZone) }},
	{"hostAntiAffinity", func(p *corev1.Pod) { requireApart(p, corev1.LabelHostname) }},
	{"zoneSpread", func(p *corev1.Pod) { spreadOver(p, corev1.LabelTopologyZone, corev1.DoNotSchedule) }},
	{"hostSpread", func(p *corev1.Pod) { spreadOver(p, corev1.LabelHostname, corev1.DoNotSchedule) }},
	{"softZoneSpread", func(p *corev1.Pod) { spreadOver(p, corev1.LabelTopologyZone, corev1.ScheduleAnyway) }},
	{"preferZone", func(p *corev1.Pod) { preferNear(p, corev1.LabelTopologyZone) }},
}

// decide makes all queries about a task and every node, places it on the best node, and reports whether there is one.
func decide(index *topology.Index, snapshot *model.Snapshot, task *model.Task, used []bool) bool {
	spread, _ := index.Spread(task.Pod)
	affinity, _ := index.Affinity(task.Pod)
	near := index.AffinityScore(task.Pod, 1)
	wide := index.SpreadScore(task.Pod, snapshot.Nodes)
	var best *model.Node
	var bestRank int64
	for _, node := range snapshot.Nodes {
		if used[node.Index] || // the node is full
			spread != nil && spread.Check(node) != topology.Fits ||
			affinity != nil && affinity.Check(node) != topology.Fits {
			continue
		}
		var rank int64
		if near != nil {
			rank += near.Of(node)
		}
		if wide != nil {
			rank += wide.Of(node)
		}
		if best == nil || rank > bestRank {
			best, bestRank = node, rank
		}
	}
	if best == nil {
		return false
	}
	used[best.Index] = true
	nodeCount(snapshot, task, best)
	return true
}

// BenchmarkGang places 1,000 members on 5,000 nodes, with every node filtered for every member. The name has the number of
// pods that are there already; half of those have anti-affinity to their siblings. first is with a new index, kept with one
// that has followed the cluster; the gang is a new one each time.
func BenchmarkGang(b *testing.B) {
	for _, gang := range gangs {
		for _, pods := range []int{0, 20_000, 200_000} {
			snapshot := benchCluster(5000, pods)
			for _, kept := range []bool{false, true} {
				name := map[bool]string{false: "first", true: "kept"}[kept]
				b.Run(fmt.Sprintf("%s/pods=%d/%s", gang.name, pods, name), func(b *testing.B) {
					runGang(b, snapshot, gang.want, kept, 1000)
				})
			}
		}
	}
}

func runGang(b *testing.B, snapshot *model.Snapshot, want func(*corev1.Pod), kept bool, members int) {
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	for i := range b.N {
		b.StopTimer()
		tasks := make([]*model.Task, members)
		for j := range tasks {
			pod := benchPod(fmt.Sprintf("new%d-%d", i, j), fmt.Sprint("gang", i), j)
			want(pod)
			tasks[j] = benchTask(pod)
		}
		if !kept {
			index = topology.New(noNamespaces{})
		} else if i == 0 {
			warm := benchPod("warm", "warm", 0)
			want(warm)
			decide(index, snapshot, benchTask(warm), make([]bool, len(snapshot.Nodes)))
		}
		used := make([]bool, len(snapshot.Nodes))
		b.StartTimer()
		index.Follow(snapshot)
		for _, task := range tasks {
			if !decide(index, snapshot, task, used) {
				break // zone affinity fills its zone
			}
		}
		b.StopTimer()
		for _, task := range tasks {
			if task.Status.HasNode() {
				snapshot.Move(task, model.Placement{})
			}
		}
		b.StartTimer()
	}
}
