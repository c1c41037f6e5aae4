package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestShapes(t *testing.T) {
	affinity := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}},
		}}
	}
	volume := func(source corev1.VolumeSource) podOption {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	takes := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	for name, c := range map[string]struct {
		option podOption
		same   bool
	}{
		"name":            {func(p *corev1.Pod) { p.Name, p.UID = "q", "q" }, true},
		"namespace":       {func(p *corev1.Pod) { p.Namespace = "other" }, true},
		"label":           {label("a", "b"), true},
		"group":           {of("g"), true},
		"priority":        {priority(5), true},
		"written request": {asking("cpu", "1000m"), true},
		"zero request":    {asking("cpu", "1", "nvidia.com/gpu", "0"), true},
		"empty dir":       {volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), true},
		"port":            {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}} }, true},
		"host port":       {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = takes }, false},
		"request":         {asking("cpu", "2"), false},
		"node":            {on("n"), false},
		"selector":        {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, false},
		"affinity":        {affinity, false},
		"toleration":      {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }, false},
		"image":           {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, false},
		"os":              {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, false},
		"claim":           {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}), false},
		"ephemeral claim": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), false},
		"image volume":    {volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i"}}), false},
		"devices":         {func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }, false},
		"declared feature": {func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(pod("p"), pod("other", c.option))
			a, b := s.pods.record("p"), s.pods.record("q")
			if b == nil {
				b = s.pods.record("other")
			}
			if (a.task.Shape == b.task.Shape) != c.same {
				t.Errorf("shapes\n%s\n%s\nwant the same: %t", a.task.Shape.Value(), b.task.Shape.Value(), c.same)
			}
		})
	}
}

// The port of an init container that ends is not taken from any job, that of a sidecar is.
func TestShapeHasThePortsThatAreTaken(t *testing.T) {
	initial := func(c corev1.Container) podOption {
		return func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{c} }
	}
	always, port := corev1.ContainerRestartPolicyAlways, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	s := newState(
		pod("plain", initial(corev1.Container{})), pod("ends", initial(corev1.Container{Ports: port})),
		pod("stays", initial(corev1.Container{Ports: port, RestartPolicy: &always})),
	)
	plain, ends, stays := s.pods.record("plain").task.Shape, s.pods.record("ends").task.Shape, s.pods.record("stays").task.Shape
	if plain != ends || ends == stays {
		t.Errorf("shapes\n%s\n%s\n%s\nwant the first two the same and the third not", plain.Value(), ends.Value(), stays.Value())
	}
}

// A shape must not depend on which resource the scheduler met first.
func TestShapeIsIndependentOfPositions(t *testing.T) {
	a := newState(pod("x", asking("b/r", "1")), pod("p", asking("a/r", "1", "b/r", "2")))
	b := newState(pod("x", asking("a/r", "1")), pod("p", asking("a/r", "1", "b/r", "2")))
	if a.pods.record("p").task.Shape != b.pods.record("p").task.Shape {
		t.Errorf("shapes %s and %s", a.pods.record("p").task.Shape.Value(), b.pods.record("p").task.Shape.Value())
	}
}

// TestAShapeIsShort, however much of a pod it is made of: it is kept beside the pod.
func TestAShapeIsShort(t *testing.T) {
	shapes := map[model.Shape]bool{}
	for i := range 3 {
		s := newState(pod("p", func(p *corev1.Pod) {
			for j := range 200 {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: strings.Repeat("x", 100), Value: fmt.Sprint(j, i%2)})
			}
		}))
		shape := s.pods.record("p").task.Shape
		if shapes[shape] = true; len(shape.Value()) > 2000 {
			t.Errorf("a shape of %d bytes", len(shape.Value()))
		}
	}
	if len(shapes) != 2 {
		t.Errorf("%d shapes of pods of two kinds", len(shapes))
	}
}

// TestShapeHasTheSelectors: pods that ask for as many devices of a class have one shape if the selectors of their claims are the
// same, and only then.
func TestShapeHasTheSelectors(t *testing.T) {
	objects := []any{deviceClass("gpu", ""), node("n"), devicesOn("n", 4, "gpu")}
	for name, expression := range map[string]string{"big": "true", "large": "true", "small": "false", "any": ""} {
		claim := claimOf(name, "gpu", 1)
		if expression != "" {
			claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		}
		objects = append(objects, claim, pod(name, claiming(name)))
	}
	snapshot := snap(t, newState(objects...), start)
	shape := func(name string) model.Shape { return taskIn(snapshot, name).Shape }
	if shape("big") != shape("large") {
		t.Errorf("two shapes: %s and %s", shape("big").Value(), shape("large").Value())
	}
	if shape("big") == shape("small") || shape("any") == shape("small") || shape("any") == shape("big") {
		t.Errorf("one shape: %s, %s, %s", shape("big").Value(), shape("small").Value(), shape("any").Value())
	}
}
