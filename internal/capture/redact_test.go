package capture

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// cities are what everything is named by.
var cities = []string{
	"Alexandria", "babylon", "carthage", "damascus", "ephesus", "florence", "granada", "heidelberg", "istanbul", "jerusalem", "lisbon", "marseille",
	"nagasaki", "olympia", "palermo", "quebec", "ravenna", "salzburg", "toulouse", "uppsala", "valencia", "warsaw",
}

// namedMoment is a moment in which each name, value of a label and text is of a city of its own.
func namedMoment() *scheduler.Moment {
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}, AgentLeases: cluster.LeasesWatched})
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "7b6f0b9c-0001", CreationTimestamp: metav1.Unix(1_799_999_000, 0), ResourceVersion: "7",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "olympia", UID: "9c1a-2", Controller: ptr.To(true)}},
		}
	}
	node := &corev1.Node{
		ObjectMeta: meta("", "babylon-1"),
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/for", Value: "carthage", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("10")},
			Images:      []corev1.ContainerImage{{Names: []string{"example.com/damascus:v1"}, SizeBytes: 1000}},
		},
	}
	node.Labels = map[string]string{"example.com/rack": "ephesus", corev1.LabelHostname: "babylon-1", "example.com/gpu": "true"}
	state.Apply(&cluster.NamespaceSeen{Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "florence", UID: "1", ResourceVersion: "1", Labels: map[string]string{"phase": "granada", "kubernetes.io/metadata.name": "florence"},
	}}})
	state.Apply(&cluster.PriorityClassSeen{Class: &schedulingv1.PriorityClass{ObjectMeta: meta("", "heidelberg"), Value: 7}})
	state.Apply(&cluster.QueueSeen{Queue: &v1alpha1.Queue{ObjectMeta: meta("", "istanbul")}})
	state.Apply(&cluster.LeaseSeen{Lease: &coordinationv1.Lease{ObjectMeta: meta("tutti-system", isolated.LeasePrefix+"babylon-1"), Spec: coordinationv1.LeaseSpec{
		RenewTime: &metav1.MicroTime{Time: time.Unix(1_800_000_000, 0)}, LeaseDurationSeconds: ptr.To(int32(40)),
	}}})
	state.Apply(&cluster.BudgetSeen{Budget: &policyv1.PodDisruptionBudget{
		ObjectMeta: meta("florence", "jerusalem"),
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"lisbon", "marseille"}},
		}}},
	}})
	state.Apply(&cluster.GroupSeen{Group: &v1alpha1.PodGroup{
		ObjectMeta: meta("florence", "nagasaki"),
		Spec: v1alpha1.PodGroupSpec{
			MinMember: 2, Queue: "istanbul", PriorityClassName: "heidelberg", Roles: []v1alpha1.Role{{Name: "palermo", MinMember: 1}},
			Topology: []v1alpha1.TopologyConstraint{{Level: "example.com/rack", Roles: []string{"palermo"}}},
		},
		Status: v1alpha1.PodGroupStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: "InsufficientResources", Message: "uppsala is full",
		}}},
	}})
	state.Apply(&cluster.NodeSeen{Node: node})
	terms := []corev1.PodAffinityTerm{{
		TopologyKey: "example.com/rack", Namespaces: []string{"florence"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "lisbon"}},
	}}
	pod := &corev1.Pod{
		ObjectMeta: meta("florence", "nagasaki-0"),
		Spec: corev1.PodSpec{
			SchedulerName: "tutti", PriorityClassName: "heidelberg", Priority: ptr.To(int32(7)),
			Containers: []corev1.Container{{
				Name: "toulouse", Image: "example.com/damascus:v1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
			}},
			NodeSelector: map[string]string{"example.com/rack": "ephesus"},
			Tolerations:  []corev1.Toleration{{Key: "example.com/for", Operator: corev1.TolerationOpEqual, Value: "carthage", Effect: corev1.TaintEffectNoSchedule}},
			Affinity: &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "example.com/rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"ephesus"}}}},
				}}},
			},
			Volumes: []corev1.Volume{{Name: "valencia", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "warsaw"},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "ravenna is full",
		}}},
	}
	pod.Labels = map[string]string{
		v1alpha1.LabelPodGroup: "nagasaki", v1alpha1.LabelRole: "palermo", v1alpha1.LabelQueue: "istanbul", "app": "Alexandria",
	}
	pod.Annotations = map[string]string{v1alpha1.AnnotationTopology: `[{"level":"example.com/rack","roles":["palermo"]}]`}
	state.Apply(&cluster.PodSeen{Pod: pod})
	state.Lead()
	state.Snapshot(time.Unix(1_800_000_000, 0))
	delays := backoff.NewDelays()
	delays.Binds.Fail(backoff.Job{Key: model.JobKey{Namespace: "florence", Name: "nagasaki"}}, &model.Refusal{
		Code: model.BindFailed, Detail: "pod nagasaki-0 could not be bound to salzburg",
	}, time.Unix(1_800_000_000, 0))
	return &scheduler.Moment{Contents: state.Contents(), Delays: delays, Gangs: lifecycle.New(0, delays), Cycle: 7, Leading: true}
}

// textOf returns the lines of a capture.
func textOf(t *testing.T, file []byte) string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNamesAreRedacted: no city is in a redacted file, while what decides is as it was; and the file is read as any other.
func TestNamesAreRedacted(t *testing.T) {
	var file, written bytes.Buffer
	header := Header{Version: "0.1.0", Configuration: "actions: allocate # https://quebec.example.com/filter", Paused: "quebec pauses"}
	if err := Write(&file, header, namedMoment(), nil); err != nil {
		t.Fatal(err)
	}
	before := textOf(t, file.Bytes())
	read, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	redacted, err := read.Redact(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := redacted.Write(&written); err != nil {
		t.Fatal(err)
	}
	after := textOf(t, written.Bytes())
	for _, city := range cities {
		if !strings.Contains(before, city) {
			t.Errorf("%s is not in the file before: the test does not show that it goes", city)
		}
		if strings.Contains(after, city) {
			at := strings.Index(after, city)
			t.Errorf("%s is in the redacted file: …%s…", city, after[max(0, at-80):min(len(after), at+80)])
		}
	}
	for _, stays := range []string{
		`"redacted":true`, `"example.com/rack":`, `"cpu":"1500m"`, `"memory":"4Gi"`, `"effect":"NoSchedule"`, `"operator":"In"`, `"level":"example.com/rack"`,
		`"kind":"Job"`, `"schedulerName":"tutti"`, `"phase":"Pending"`, `"2027-01-15T08:00:00Z"`, `https://redacted.invalid`, `"example.com/gpu":"true"`,
		`"topologyKey":"example.com/rack"`, `\"level\":\"example.com/rack\"`, `"Code":"BindFailed"`, `"selector":"app in (`,
	} {
		if !strings.Contains(after, stays) {
			t.Errorf("%s is not in the redacted file", stays)
		}
	}
	read.snapshot = "another"
	if _, err := read.Redact(nil); !errors.Is(err, ErrDiffers) {
		t.Errorf("a file that is read otherwise: %v", err)
	}
	again, err := Read(&written)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Moment(nil); err != nil || !again.Redacted {
		t.Errorf("redacted: %t, %v", again.Redacted, err)
	}
}

// TestRedactedWordsKeepTheirOrder, their prefixes and their lengths, beside words that stay.
func TestRedactedWordsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-dA-D]{1,3}([-0-9][a-d]{0,2}){0,2}`), 2, 12).Draw(t, "names")
		stay := rapid.SliceOfN(rapid.StringMatching(`[a-dA-D]{1,3}`), 0, 3).Draw(t, "words that stay")
		r := &redaction{root: &letter{}, learns: true}
		for _, word := range stay {
			r.root.add(word, true)
		}
		for _, name := range names {
			r.text(name)
		}
		r.root.assign()
		r.learns = false
		for _, word := range stay {
			if got := r.text(word); got != word {
				t.Fatalf("%s is to stay, and became %s", word, got)
			}
		}
		for _, a := range append(slices.Clone(names), stay...) {
			for _, b := range names {
				x, y := r.text(a), r.text(b)
				if strings.Compare(a, b) != strings.Compare(x, y) || model.CompareNatural(a, b) != model.CompareNatural(x, y) ||
					strings.HasPrefix(a, b) != strings.HasPrefix(x, y) || len(a) != len(x) {
					t.Fatalf("%s and %s became %s and %s", a, b, x, y)
				}
			}
		}
	})
}
