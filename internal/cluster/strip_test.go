package cluster

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestStrip(t *testing.T) {
	p := pod("p", of("g"), label("app", "x"), annotation("example.com/big", "x"), annotation("isolcpu.tutti.dev/cpus", "2"),
		annotation(v1alpha1.AnnotationKubeBatchGroup, "g"))
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.LastAppliedConfigAnnotation, "{}")
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	isController := true
	p.OwnerReferences = []metav1.OwnerReference{{Name: "other"}, {Name: "job", Controller: &isController}}
	c := &p.Spec.Containers[0]
	c.Env, c.Command, c.Args = []corev1.EnvVar{{Name: "e"}}, []string{"c"}, []string{"a"}
	c.LivenessProbe, c.VolumeMounts = &corev1.Probe{}, []corev1.VolumeMount{{Name: "v"}}
	c.Ports = []corev1.ContainerPort{{HostPort: 80}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ImageID: "x"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled}}
	before := p.DeepCopy()

	want := pod("p", of("g"), label("app", "x"), annotation("isolcpu.tutti.dev/cpus", "2"),
		annotation(v1alpha1.AnnotationKubeBatchGroup, "g"))
	want.OwnerReferences = p.OwnerReferences
	want.Spec.Containers[0].Ports = c.Ports
	want.Spec.Volumes = p.Spec.Volumes[1:]
	want.Status.Conditions, want.Status.Reason = p.Status.Conditions[1:], model.ReasonReady
	bound := want.DeepCopy()
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, "example.com/big", "x")
	if diff := cmp.Diff(want, StripPod(p)); diff != "" {
		t.Errorf("stripped pod that waits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("stripping changed the pod:\n%s", diff)
	}

	p.Spec.NodeName, bound.Spec.NodeName = "n", "n"
	if diff := cmp.Diff(bound, StripPod(p)); diff != "" {
		t.Errorf("stripped pod on a node (-want +got):\n%s", diff)
	}
	p.Status.Phase = corev1.PodSucceeded
	metav1.SetMetaDataLabel(&p.ObjectMeta, v1alpha1.LabelRole, "worker")
	metav1.SetMetaDataLabel(&p.ObjectMeta, v1alpha1.LabelQueue, "q")
	metav1.SetMetaDataLabel(&p.ObjectMeta, "volcano.sh/task-index", "3")
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.LabelIndex, "4")
	want = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "p", CreationTimestamp: metav1.NewTime(start), OwnerReferences: p.OwnerReferences[1:],
			Labels:      map[string]string{v1alpha1.LabelPodGroup: "g", v1alpha1.LabelRole: "worker", v1alpha1.LabelQueue: "q", "volcano.sh/task-index": "3"},
			Annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g", v1alpha1.LabelIndex: "4"},
		},
		Spec:   corev1.PodSpec{SchedulerName: "tutti"},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
	if diff := cmp.Diff(want, StripPod(p)); diff != "" {
		t.Errorf("stripped finished pod (-want +got):\n%s", diff)
	}
}

// The state cannot report whether a pod was stripped, and stripping twice changes nothing.
func TestStripLosesNothingThatCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, whole, stripped := newWorld(t), newState(), newState()
		w.graces = true
		for range w.number(30, "steps") {
			event := w.step()
			whole.Apply(event)
			if of, is := event.(*PodSeen); is {
				pod := StripPod(of.Pod)
				if diff := cmp.Diff(pod, StripPod(pod)); diff != "" {
					t.Fatalf("stripped twice:\n%s", diff)
				}
				event = &PodSeen{pod, of.Gone}
			}
			stripped.Apply(event)
		}
		same(t, "stripped", dump(whole.Snapshot(start)), dump(stripped.Snapshot(start)))
		same(t, "view", whole.view.String(), stripped.view.String())
	})
}

// TestLittleIsKeptOfAFinishedPod, whatever users write: a quota of pods does not count it.
func TestLittleIsKeptOfAFinishedPod(t *testing.T) {
	text := strings.Repeat("x", 60<<10)
	isController := true
	zeros := strings.Repeat("0", 60<<10) + "5"
	for name, c := range map[string]struct {
		change podOption
		owners int
		// minimum is what is kept of it; none is "none".
		minimum string
	}{
		"group name":      {annotation(v1alpha1.AnnotationKubeBatchGroup, text), 0, "none"},
		"minimum":         {annotation(v1alpha1.AnnotationMinMember, text), 0, strings.Repeat("x", 60) + "…"},
		"minimum, padded": {annotation(v1alpha1.AnnotationMinMember, zeros), 0, "5"},
		"minimum, fine":   {annotation(v1alpha1.AnnotationMinMember, "007"), 0, "007"},
		"owners": {func(p *corev1.Pod) {
			p.OwnerReferences = append(make([]metav1.OwnerReference, 5000), metav1.OwnerReference{Name: "c", UID: "c", Controller: &isController})
		}, 1, "none"},
		"large owner": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Name: "c", UID: types.UID(text), Controller: &isController}}
		}, 0, "none"},
		"scheduler": {func(p *corev1.Pod) { p.Spec.SchedulerName = text }, 0, "none"},
	} {
		p := pod("p", of("g"), annotation("isolcpu.tutti.dev/cpus", text), c.change)
		p.Status.Phase = corev1.PodFailed
		kept := KeptPod(p)
		if memory := memoryBehind(reflect.ValueOf(kept).Elem()); memory > 3000 {
			t.Errorf("%s: %d bytes of memory are kept", name, memory)
		}
		if why := Malformed(kept); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		minimum, there := kept.Annotations[v1alpha1.AnnotationMinMember]
		if !there {
			minimum = "none"
		}
		if len(kept.OwnerReferences) != c.owners || minimum != c.minimum {
			t.Errorf("%s: owners %v, minimum %q", name, kept.OwnerReferences, minimum)
		}
		if !reflect.DeepEqual(kept, KeptPod(kept)) {
			t.Errorf("%s: not the same when it is done twice", name)
		}
	}
}

// TestAPodThatSucceedsWhileItIsDeleted counts for nothing, whole or stripped, and stripped again. One that had succeeded before,
// which the API server deletes without a grace, does.
func TestAPodThatSucceedsWhileItIsDeleted(t *testing.T) {
	of := func(grace int64, conditions ...corev1.PodCondition) *corev1.Pod {
		one := pod("a", on("n"), phase(corev1.PodSucceeded), deleting(start))
		one.DeletionGracePeriodSeconds, one.Status.Conditions = &grace, conditions
		return one
	}
	evicted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"deleted while it ran": {of(30), 0},
		"deleted afterwards":   {of(0), 1},
		"evicted":              {of(0, evicted), 0},
	} {
		stripped := StripPod(c.pod)
		for _, pod := range []*corev1.Pod{c.pod, stripped, StripPod(stripped)} {
			if tasks := tasksIn(snap(t, newState(node("n"), pod), start)); len(tasks) != c.want {
				t.Errorf("%s: %d tasks, want %d, of %+v", name, len(tasks), c.want, pod.ObjectMeta)
			}
		}
	}
}
