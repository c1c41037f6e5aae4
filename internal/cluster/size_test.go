package cluster

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

const megabyte = 1 << 20

// large makes a pod a megabyte large, in one of the ways that users have.
func large(field string) podOption {
	text := strings.Repeat("x", megabyte)
	return func(p *corev1.Pod) {
		switch field {
		case "spec.affinity":
			for i := range 4000 {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: append(terms(p), corev1.PodAffinityTerm{
						TopologyKey: fmt.Sprint("zone", i), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": text[:200]}},
					}),
				}}
			}
		case "metadata.annotations":
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "example.tutti.dev/text", text)
		case "metadata.labels":
			for i := range megabyte / 64 {
				metav1.SetMetaDataLabel(&p.ObjectMeta, fmt.Sprint("label-", i), text[:50])
			}
		case "metadata.ownerReferences":
			p.OwnerReferences = []metav1.OwnerReference{{Name: text}}
		case "spec.tolerations":
			p.Spec.Tolerations = make([]corev1.Toleration, megabyte/4)
		case "spec.containers":
			for i := range 20_000 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
			}
		case "spec.volumes":
			for i := range 5000 {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(text[:100], i), VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}})
			}
		case "status.conditions":
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Message: text})
		}
	}
}

func terms(p *corev1.Pod) []corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func largeFields() []string {
	return []string{"spec.affinity", "metadata.annotations", "metadata.labels", "metadata.ownerReferences", "spec.tolerations", "spec.containers",
		"spec.volumes", "status.conditions"}
}

// TestALargePodIsRefusedAndCounted: of a pod that is too large little is kept. It waits, and says which field is too large;
// bound, it takes what it takes.
func TestALargePodIsRefusedAndCounted(t *testing.T) {
	takes := asking("cpu", "3", "memory", "1Gi", "example.com/gpu", "2")
	for _, field := range largeFields() {
		for _, bound := range []bool{false, true} {
			p := pod("p", of("g"), takes, large(field), func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} })
			if bound {
				p.Spec.NodeName = "n"
			}
			before := p.DeepCopy()
			kept := KeptPod(p)
			if memory := memoryBehind(reflect.ValueOf(kept).Elem()); memory > maxMemory/2 {
				t.Errorf("%s: %d bytes of memory are kept", field, memory)
			}
			if !reflect.DeepEqual(before, p) {
				t.Errorf("%s: the pod was changed", field)
			}
			if !reflect.DeepEqual(kept, KeptPod(kept)) {
				t.Errorf("%s: not the same when it is done twice", field)
			}
			s := newState(node("n"), group("g", 1))
			s.Apply(&PodSeen{Pod: kept})
			snapshot := snap(t, s, start)
			task, n := taskIn(snapshot, "p"), snapshot.Node("n")
			if task.Job != ns("g") || task.Invalid == nil || task.Invalid.Code != model.InvalidRequest ||
				!strings.HasPrefix(task.Invalid.Detail, "pod ns/p: the scheduler would keep ") || !strings.Contains(task.Invalid.Detail, " for "+field+",") {
				t.Errorf("%s: %+v", field, task.Invalid)
			}
			if len(task.Invalid.Detail) > 300 {
				t.Errorf("%s: the message has %d bytes", field, len(task.Invalid.Detail))
			}
			if used := 10_000 - n.Idle(model.CPU); bound && used != 3000 || !bound && used != 0 {
				t.Errorf("%s: %d of CPU are used, bound is %v", field, used, bound)
			}
			if ports := kept.Spec.Containers[0].Ports; len(ports) != 1 || ports[0].HostPort != 80 {
				t.Errorf("%s: host ports %v", field, ports)
			}
			if gpus := kept.Spec.Containers[0].Resources.Requests["example.com/gpu"]; gpus.Value() != 2 {
				t.Errorf("%s: %v of GPUs", field, gpus)
			}
		}
	}
}

// TestVolumesOfALargePodAreSmall: those with large templates are not kept, the others are.
func TestVolumesOfALargePodAreSmall(t *testing.T) {
	kept := KeptPod(pod("p", on("n"), func(p *corev1.Pod) {
		for i := range 60 {
			text := map[string]string{"a": strings.Repeat("x", 20<<10*(i%2))}
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					ObjectMeta: metav1.ObjectMeta{Annotations: text}}}}})
		}
	}))
	if memory := memoryBehind(reflect.ValueOf(kept).Elem()); Malformed(kept) == "" || memory > maxMemory/2 {
		t.Errorf("%d bytes of memory are kept, mark %q", memory, Malformed(kept))
	}
	if n := len(kept.Spec.Volumes); n != 30 {
		t.Errorf("%d volumes are kept, want 30", n)
	}
}

// TestWhatIsNotReadIsNoReasonToRefuse: a list of environment variables of a megabyte is legal, and so is any annotation of others
// on a pod that is bound.
func TestWhatIsNotReadIsNoReasonToRefuse(t *testing.T) {
	text := strings.Repeat("x", megabyte)
	p := pod("p", on("n"), annotation("example.com/text", text), func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(text)}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "e", Value: text}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: text}}}}}
	})
	if why := Malformed(KeptPod(p)); why != "" {
		t.Error(why)
	}
	sixty := pod("p", func(p *corev1.Pod) {
		for i := range 60 {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "registry.example.com/a/b:v1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}})
		}
	})
	if why := Malformed(KeptPod(sixty)); why != "" {
		t.Errorf("a pod of 60 containers: %s", why)
	}
}

// TestLargeObjectsOfOtherKinds keep little, and what others are decided by.
func TestLargeObjectsOfOtherKinds(t *testing.T) {
	text := strings.Repeat("x", megabyte)
	small := func(what string, object any, most int) {
		t.Helper()
		if memory := memoryBehind(reflect.ValueOf(object).Elem()); memory > most {
			t.Errorf("%s: %d bytes of memory are kept", what, memory)
		}
	}
	described := metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "x", Annotations: map[string]string{"a": text}, Labels: map[string]string{"b": text}}

	noted := &v1alpha1.PodGroup{ObjectMeta: described, Spec: v1alpha1.PodGroupSpec{MinMember: 2}}
	small("group with labels", stripGroup(noted), 1000)
	if why := Malformed(stripGroup(noted)); !strings.Contains(why, " for metadata.labels,") {
		t.Error(why)
	}
	noted.Labels = nil
	small("group with annotations", stripGroup(noted), 1000)
	if why := Malformed(stripGroup(noted)); why != "" {
		t.Error(why)
	}
	noted.Labels, noted.OwnerReferences = map[string]string{"team": "vision"}, []metav1.OwnerReference{{Kind: "Job", Name: "of", Controller: new(true)}, {Kind: "Other", Name: "no"}}
	if kept := stripGroup(noted); kept.Labels["team"] != "vision" || len(kept.OwnerReferences) != 1 || kept.OwnerReferences[0].Name != "of" {
		t.Errorf("a group keeps the labels %v and the owners %v", kept.Labels, kept.OwnerReferences)
	}
	whole := group("g", 2, named("tutti"))
	whole.Spec.Roles = []v1alpha1.Role{{Name: text, MinMember: 1}}
	whole.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Message: text}}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:onMemberLoss":{}}}`)}}
	kept := stripGroup(whole)
	if sources.Removed(kept) == "" || kept.ManagedFields != nil {
		t.Error("a group does not say that a field of it is not read")
	}
	small("group with a role and a status", kept, 2000)
	s := newState(kept)
	job := snap(t, s, start).Job(ns("g"))
	if !job.Whole || job.MinMember != 2 || job.Invalid == nil || job.Invalid.Code != model.Malformed ||
		!strings.HasPrefix(job.Invalid.Detail, "PodGroup ns/g could not be read: the scheduler would keep ") || !strings.Contains(job.Invalid.Detail, "for spec.roles,") {
		t.Errorf("%+v: %v", job, job.Invalid)
	}
	if !reflect.DeepEqual(kept, stripGroup(kept)) {
		t.Error("a group is not the same when it is done twice")
	}
	wide := group("wide", 2)
	wide.Status.Reservation = &v1alpha1.Reservation{Nodes: make([]v1alpha1.ReservedNode, maxReservedNodes)}
	for i := range wide.Status.Reservation.Nodes {
		wide.Status.Reservation.Nodes[i].Name = text[:63]
	}
	if kept := stripGroup(wide); Malformed(kept) != "" || kept.Status.Reservation == nil {
		t.Error("a reservation that the API takes is not kept")
	}
	wide.Status.Reservation.Nodes = append(wide.Status.Reservation.Nodes, v1alpha1.ReservedNode{})
	if stripGroup(wide).Status.Reservation != nil {
		t.Error("a reservation of more nodes than the API takes is kept")
	}

	one := budget("b", "x", 1)
	one.Annotations = described.Annotations
	if got := stripBudget(one); budgetOf(got).Allowed != 1 || budgetOf(got).Selector.String() != budgetOf(one).Selector.String() {
		t.Errorf("a budget is %+v", budgetOf(got))
	}
	one.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": text}}
	if got := stripBudget(one); budgetOf(got).Allowed != 0 || !budgetOf(got).Selector.Empty() {
		t.Errorf("a large budget is %+v", budgetOf(got))
	}
	small("budget", stripBudget(one), 1000)
	small("namespace", stripNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: described.Annotations}}), 1000)

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: described, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}
	claim.Annotations = map[string]string{"a": text, "pv.kubernetes.io/bind-completed": "yes"}
	if got := boundVolumeClaim(claim); Malformed(got) == "" || got.Spec.VolumeName != "v" || got.Annotations["pv.kubernetes.io/bind-completed"] == "" {
		t.Errorf("a large claim is %+v", got)
	}
	small("claim", boundVolumeClaim(claim), 2000)
	devices := &resourceapi.ResourceClaim{ObjectMeta: described, Status: resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "gpu-0"}},
		}}}}
	if got := boundResourceClaim(devices); Malformed(got) == "" || got.Status.Allocation.Devices.Results[0].Device != "gpu-0" {
		t.Errorf("a large claim of devices is %+v", got)
	}
	small("claim of devices", boundResourceClaim(devices), 2000)
}

// ruleKinds gives a pod so many rules of placement, of each kind.
func ruleKinds() map[string]func(p *corev1.Pod, rules int) {
	expressions := func(n int) (all []metav1.LabelSelectorRequirement) {
		for i := range n {
			all = append(all, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpExists})
		}
		return all
	}
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("k", i)] = "x"
		}
		return all
	}
	return map[string]func(p *corev1.Pod, rules int){
		"node selectors": func(p *corev1.Pod, n int) { p.Spec.NodeSelector = labels(n) },
		"node affinity": func(p *corev1.Pod, n int) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: make([]corev1.NodeSelectorRequirement, n-3), MatchFields: make([]corev1.NodeSelectorRequirement, 1)}}},
				PreferredDuringSchedulingIgnoredDuringExecution: make([]corev1.PreferredSchedulingTerm, 1),
			}}
		},
		"expressions": func(p *corev1.Pod, n int) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchExpressions: expressions(n - 2)}, NamespaceSelector: &metav1.LabelSelector{MatchExpressions: expressions(1)}}}}}
		},
		"labels": func(p *corev1.Pod, n int) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: labels(n - 1)}}}}}}
		},
		"terms": func(p *corev1.Pod, n int) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: make([]corev1.PodAffinityTerm, n)}}
		},
		"constraints": func(p *corev1.Pod, n int) {
			p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, n-2)
			p.Spec.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{MatchExpressions: expressions(1)}
			p.Spec.TopologySpreadConstraints[1].MatchLabelKeys = []string{"k"}
		},
		"tolerations": func(p *corev1.Pod, n int) { p.Spec.Tolerations = make([]corev1.Toleration, n) },
	}
}

// TestAPodWithTooManyRulesIsRefusedAndCounted: none of its rules is kept, since each may cost something for every node and every
// pod. It waits, and says how many there are; bound, it takes what it takes, and rules of other pods count it.
func TestAPodWithTooManyRulesIsRefusedAndCounted(t *testing.T) {
	for kind, give := range ruleKinds() {
		for _, rules := range []int{256, 257} {
			for _, bound := range []bool{false, true} {
				p := pod("p", of("g"), label("app", "x"), asking("cpu", "3"))
				give(p, rules)
				if bound {
					p.Spec.NodeName = "n"
				}
				before := p.DeepCopy()
				kept := KeptPod(p)
				if !reflect.DeepEqual(before, p) {
					t.Errorf("%s: the pod was changed", kind)
				}
				if !reflect.DeepEqual(kept, KeptPod(kept)) {
					t.Errorf("%s: not the same when it is done twice", kind)
				}
				if kept.Labels["app"] != "x" {
					t.Errorf("%s: labels %v", kind, kept.Labels)
				}
				s := newState(node("n"), group("g", 1))
				s.Apply(&PodSeen{Pod: kept})
				snapshot := snap(t, s, start)
				spec := &kept.Spec
				none := len(spec.NodeSelector)+len(spec.Tolerations)+len(spec.TopologySpreadConstraints) == 0 && spec.Affinity == nil
				refused := taskIn(snapshot, "p").Invalid
				const want = "pod ns/p: it has 257 rules of placement: selectors, affinity, spread constraints and tolerations; at most 256 are supported"
				switch {
				case rules == 256 && (refused != nil || none):
					t.Errorf("%s: %v, kept %+v", kind, refused, spec)
				case rules > 256 && (refused == nil || refused.Code != model.InvalidRequest || refused.Detail != want || !none):
					t.Errorf("%s: %v, kept %+v", kind, refused, spec)
				}
				if used := 10_000 - snapshot.Node("n").Idle(model.CPU); bound && used != 3000 || !bound && used != 0 {
					t.Errorf("%s: %d of CPU are used, bound is %v", kind, used, bound)
				}
			}
		}
	}
}

// TestConditionsOfALargeGroupAreKept, without their messages: a restart reads that the gang was whole.
func TestConditionsOfALargeGroupAreKept(t *testing.T) {
	g := group("g", 2)
	for i := range 6000 {
		g.Spec.Roles = append(g.Spec.Roles, v1alpha1.Role{Name: fmt.Sprint("role-with-a-long-name-", i), MinMember: 1})
	}
	g.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled", Message: strings.Repeat("x", 2500)},
		{Type: "Other", Status: metav1.ConditionTrue, Reason: "Other", Message: strings.Repeat("x", 2500)},
	}
	if job := snap(t, newState(stripGroup(g)), start).Job(ns("g")); !job.Whole || job.Invalid == nil {
		t.Errorf("whole %t, invalid %v; want whole and invalid", job.Whole, job.Invalid)
	}
}

// TestClaimsWithLargeAnnotationsAreNotKeptWhole: 200 KiB are less than maxMemory, and more than maxSent.
func TestClaimsWithLargeAnnotationsAreNotKeptWhole(t *testing.T) {
	about := metav1.ObjectMeta{Namespace: "default", Name: "c", Annotations: map[string]string{"example.com/text": strings.Repeat("x", 200<<10)}}
	for _, kept := range []metav1.Object{
		boundVolumeClaim(&corev1.PersistentVolumeClaim{ObjectMeta: about}), boundResourceClaim(&resourceapi.ResourceClaim{ObjectMeta: about}),
	} {
		if size := memoryBehind(reflect.ValueOf(kept).Elem()); size > maxField || Malformed(kept) == "" {
			t.Errorf("%T: %d bytes of memory are kept, mark %q", kept, size, Malformed(kept))
		}
	}
}
