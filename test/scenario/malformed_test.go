package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// odd is what no user should have written: a pod, the node and the group of the same name.
type odd struct {
	pod   corev1.Pod
	node  corev1.Node
	group v1alpha1.PodGroup
}

// good is what every cluster has besides: a gang that has capacity on a node that takes no other pod.
const good = `
node good cpu=8 memory=8Gi labels=for=fine taints=for=fine:NoSchedule
group fine/fine min=2
pod fine/fine-1 group=fine cpu=1 labels=app=f affinity=app=f@kubernetes.io/hostname ports=81 selector=for=fine tolerate=for=fine:NoSchedule
pod fine/fine-2 group=fine cpu=1 labels=app=f affinity=app=f@kubernetes.io/hostname ports=82 selector=for=fine tolerate=for=fine:NoSchedule
`

// suffer plays three cycles of a cluster with odd objects in it, and returns which plugins panicked, and what could not be
// read. It is an error when any of it affects another job.
func (o *odd) suffer(s *environment) (complaints []string, err error) {
	if err := s.world.apply(good); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	o.name()
	s.world.tell(&cluster.NodeSeen{Node: cluster.StripNode(&o.node)})
	s.world.tell(&cluster.GroupSeen{Group: &o.group})
	s.world.tell(&cluster.PodSeen{Pod: cluster.KeptPod(&o.pod)})
	started := map[string]bool{}
	held := map[model.JobKey]*model.Refusal{}
	for cycles := 0; cycles < 3; {
		snapshot := s.state.Snapshot(s.world.now)
		complaints = append(complaints, s.state.TakeMalformed()...)
		snapshot.JobBackoff = held
		panicked := false
		var fault error
		result := engine.Run(snapshot, s.profile, engine.Options{
			Verify: true, Cache: &s.cache,
			OnPanic: func(c engine.RecoveredPanic) {
				complaints, panicked = append(complaints, c.Refusal.String()), true
				if c.Job == nil || c.Job.Key.Namespace != "odd" {
					fault = fmt.Errorf("%v suffers from the panic of %s\n%s", c.Job, c.Where, c.Stack)
					return
				}
				held[c.Job.Key] = c.Refusal
			},
			Decide: func(decision model.Decision) {
				started[decision.Job.Namespace] = started[decision.Job.Namespace] || len(decision.Binds) > 0
				s.state.Assume(decision)
				for _, bind := range decision.Binds {
					s.reserved.Confirm(bind.Pod.UID)
				}
			},
		})
		if fault != nil {
			return complaints, fault
		}
		if err := snapshot.Check(); err != nil {
			return complaints, err
		}
		if panicked { // the next one goes on without the job
			continue
		}
		cycles++
		fine := model.JobKey{Namespace: "fine", Name: "fine"}
		if refusal := result.Refusals[fine]; refusal != nil || !started["fine"] {
			return complaints, fmt.Errorf("the gang that is fine waits: %s", refusal)
		}
	}
	return complaints, nil
}

// name gives the objects what no API server lets users choose, and keeps them out of the way of others: who takes the place
// of the gang that is fine, or keeps it away by right, proves nothing.
func (o *odd) name() {
	for _, meta := range []*metav1.ObjectMeta{&o.pod.ObjectMeta, &o.node.ObjectMeta, &o.group.ObjectMeta} {
		meta.Name, meta.UID, meta.ResourceVersion = "odd", "odd", "9"
	}
	o.pod.Namespace, o.group.Namespace = "odd", "odd"
	o.pod.Spec.SchedulerName = "tutti"
	if o.pod.Spec.NodeName != "" {
		o.pod.Spec.NodeName = "odd"
	}
	for key, value := range o.node.Labels {
		if value == "fine" || value == "good" {
			o.node.Labels[key] = ""
		}
	}
	tolerates := func(toleration corev1.Toleration) bool { return toleration.Key == "" || toleration.Key == "for" }
	var tolerations []corev1.Toleration
	for _, toleration := range o.pod.Spec.Tolerations {
		if !tolerates(toleration) {
			tolerations = append(tolerations, toleration)
		}
	}
	o.pod.Spec.Tolerations = tolerations
}

// read makes odd objects from JSON; false when it is not even that.
func read(pod, node, group []byte) (*odd, bool) {
	o := &odd{}
	return o, json.Unmarshal(pod, &o.pod) == nil && json.Unmarshal(node, &o.node) == nil && json.Unmarshal(group, &o.group) == nil
}

func asking(pod *corev1.Pod, name corev1.ResourceName, text string) {
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{name: resource.MustParse(text)},
	}}}
}

func drawn(term corev1.PodAffinityTerm) *corev1.Affinity {
	return &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}},
	}
}

func selecting(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

// TestMalformedObjectCostsItself is invariant I25, object by object. None of these could be written to an API server.
func TestMalformedObjectCostsItself(t *testing.T) {
	newStage := openLister(t)
	broken := corev1.PodAffinityTerm{TopologyKey: "", LabelSelector: selecting("a b", "Sometimes", "x")}
	nodeTerm := func(operator corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}, {
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a b", Operator: operator, Values: values}},
				MatchFields:      []corev1.NodeSelectorRequirement{{Key: "spec.what", Operator: operator, Values: values}},
			}}},
		}}
	}
	bound := func(o *odd) { o.pod.Spec.NodeName, o.pod.Status.Phase = "odd", corev1.PodRunning }
	for name, spoil := range map[string]func(o *odd){
		"nothing at all":     func(o *odd) { *o = odd{} },
		"a negative request": func(o *odd) { asking(&o.pod, "cpu", "-5") },
		"a huge request":     func(o *odd) { asking(&o.pod, "memory", "9e30") },
		"a bound pod with a huge request": func(o *odd) {
			asking(&o.pod, "memory", "9e30")
			bound(o)
		},
		"a resource without a name": func(o *odd) { asking(&o.pod, "", "1") },
		"ten thousand containers":   func(o *odd) { o.pod.Spec.Containers = make([]corev1.Container, 10_000) },
		"ten thousand large ones": func(o *odd) {
			asking(&o.pod, "cpu", "9223372036854775807")
			for range 10_000 {
				o.pod.Spec.Containers = append(o.pod.Spec.Containers, o.pod.Spec.Containers[0])
			}
		},
		"labels that are none":              func(o *odd) { o.pod.Labels = map[string]string{"": "", "a b": strings.Repeat("x", 1000)} },
		"a selector that is none":           func(o *odd) { o.pod.Spec.NodeSelector = map[string]string{"": "", "a/b/c": "\x00"} },
		"a term with no operator":           func(o *odd) { o.pod.Spec.Affinity = drawn(broken) },
		"a bound pod with one":              func(o *odd) { o.pod.Spec.Affinity = drawn(broken); bound(o) },
		"a term with no selector":           func(o *odd) { o.pod.Spec.Affinity = drawn(corev1.PodAffinityTerm{TopologyKey: "zone"}) },
		"empty affinities":                  func(o *odd) { o.pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}} },
		"a node term with no such operator": func(o *odd) { o.pod.Spec.Affinity = nodeTerm("Maybe", "x") },
		"a node term that compares words":   func(o *odd) { o.pod.Spec.Affinity = nodeTerm("Gt", "many", "more") },
		"a node term without values":        func(o *odd) { o.pod.Spec.Affinity = nodeTerm("In") },
		"a spread of nothing": func(o *odd) {
			o.pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: -1, WhenUnsatisfiable: "Never", LabelSelector: selecting("x", "")}, {MatchLabelKeys: []string{"", "a b"}},
				{MaxSkew: math.MaxInt32, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selecting("a b", "Never")},
			}
		},
		"volumes from nowhere": func(o *odd) {
			o.pod.Spec.Volumes = []corev1.Volume{{}, {Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		},
		"claims without a name": func(o *odd) { o.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{}, {Name: "x"}} },
		"ports that are none": func(o *odd) {
			o.pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: -1, Protocol: "?"}, {HostPort: math.MaxInt32}}}}
		},
		"extreme numbers": func(o *odd) {
			priority, deadline := int32(math.MinInt32), int64(math.MaxInt64)
			o.pod.Spec.Priority, o.pod.Spec.ActiveDeadlineSeconds = &priority, &deadline
			o.pod.Status.StartTime = &metav1.Time{}
		},
		"a member of no group": func(o *odd) { o.pod.Labels = map[string]string{v1alpha1.LabelPodGroup: "\x00"} },
		"a group of none":      func(o *odd) { o.group.Spec.MinMember = 0 },
		"a group below none":   func(o *odd) { o.group.Spec.MinMember = math.MinInt32 },
		"a group of all":       func(o *odd) { o.group.Spec.MinMember = math.MaxInt32 },
		"roles that overflow": func(o *odd) {
			o.group.Spec.Roles = []v1alpha1.Role{{Name: "a", MinMember: math.MaxInt32}, {Name: "b", MinMember: math.MaxInt32}}
		},
		"a node with less than none": func(o *odd) {
			o.node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("-8"), "pods": resource.MustParse("-1")}
		},
		"a node with too much": func(o *odd) { o.node.Status.Allocatable = corev1.ResourceList{"memory": resource.MustParse("9e30")} },
		"a node with nothing":  func(o *odd) { o.node.Status = corev1.NodeStatus{} },
		"taints and images of nothing": func(o *odd) {
			o.node.Spec.Taints = []corev1.Taint{{}, {Key: "a", Effect: "Perhaps"}}
			o.node.Status.Images = []corev1.ContainerImage{{}, {Names: []string{"", ":::"}, SizeBytes: math.MinInt64}}
			o.node.Labels = map[string]string{"": "", "zone": "\xff"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := read([]byte(oddPod), []byte(oddNode), []byte(oddGroup))
			spoil(o)
			complaints, err := o.suffer(newStage())
			if err != nil {
				t.Error(err)
			}
			for _, complaint := range complaints {
				t.Log(complaint)
			}
		})
	}
}

const (
	oddPod = `{"metadata": {"labels": {"scheduling.tutti.dev/pod-group": "odd", "app": "x"}}, "spec": {"containers": [
		{"name": "c", "image": "cuda", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
		"initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
		"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}], "overhead": {"cpu": "10m"}}}`
	oddNode = `{"metadata": {"labels": {"zone": "a", "kubernetes.io/hostname": "odd"}},
		"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
		"status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "10", "nvidia.com/gpu": "2"},
		"images": [{"names": ["cuda:latest"], "sizeBytes": 1000000000}]}}`
	oddGroup = `{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"minMember": 1}}`
)
