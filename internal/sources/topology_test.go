package sources

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// said is a member with annotations, KEY=VALUE each.
func said(name, role string, annotations ...string) *model.Task {
	task := &model.Task{PodRef: model.PodRef{Namespace: "ns", Name: name}, Role: role, Pod: &corev1.Pod{}}
	for _, one := range annotations {
		key, value, _ := strings.Cut(one, "=")
		metav1.SetMetaDataAnnotation(&task.Pod.ObjectMeta, key, value)
	}
	task.Member = (&Members{}).Of(task.Pod)
	return task
}

// placedByKueue lets Kueue have given a member its place.
func placedByKueue(task *model.Task) {
	task.Pod.Labels = map[string]string{KueueGivesPlace: "true"}
	task.Member = (&Members{}).Of(task.Pod)
}

// sharedIn is what a job shares as a line, or why it cannot be read.
func sharedIn(job *model.Job) string {
	if job.Invalid != nil {
		return fmt.Sprintf("%s: %s", job.Invalid.Code, job.Invalid.Detail)
	}
	var all []string
	for _, one := range job.Topology {
		text := one.Level
		if one.Preferred {
			text += "~"
		}
		if one.Roles != nil {
			text += fmt.Sprintf("@%q", one.Roles)
		}
		if one.SliceSize > 0 {
			text += fmt.Sprintf(":%d", one.SliceSize)
		}
		if one.WaitSeconds > 0 {
			text += fmt.Sprintf("!%d", one.WaitSeconds)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

const ours = v1alpha1.AnnotationTopology + "="

func TestMembersSayWhatTheyShare(t *testing.T) {
	ended := said("old", "w", ours+"x")
	ended.Status = model.Failed
	leaving := said("leaving", "w", KueueRequired+"=row")
	leaving.Placement = model.Placement{Status: model.Releasing, Node: "n"}
	placed := said("placed", "w", KueueRequired+"=a/b/c")
	placedByKueue(placed)
	for name, c := range map[string]struct {
		tasks []*model.Task
		want  string
	}{
		"nothing":                {[]*model.Task{said("a", "")}, ""},
		"an empty list":          {[]*model.Task{said("a", "", ours+"[]")}, ""},
		"a list":                 {[]*model.Task{said("a", "", ours+`[{"level":"rack"},{"level":"block","mode":"Preferred","waitSeconds":9}]`)}, "rack, block~!9"},
		"slices of a role":       {[]*model.Task{said("a", "w", ours+`[{"level":"rack","sliceSize":4,"roles":["w"]}]`)}, `rack@["w"]:4`},
		"the oldest that says":   {[]*model.Task{said("a", "w"), said("b", "w", ours+`[{"level":"rack"}]`), said("c", "v", ours+`[{"level":"rack"}]`)}, "rack"},
		"two lists":              {[]*model.Task{said("a", "w", ours+`[{"level":"rack"}]`), said("b", "v", ours+`[{"level":"block"}]`)}, "InvalidGroup: annotation scheduling.tutti.dev/topology of pod ns/b is not that of pod ns/a, which is older"},
		"one that has ended":     {[]*model.Task{ended, said("b", "w")}, ""},
		"one that leaves":        {[]*model.Task{leaving, said("b", "w", KueueRequired+"=rack")}, "label:rack"},
		"one that Kueue places":  {[]*model.Task{placed}, ""},
		"a role that is not one": {[]*model.Task{said("a", "w", ours+`[{"level":"rack","roles":["x"]}]`)}, `InvalidGroup: annotation scheduling.tutti.dev/topology: role "x" is none of the group's roles`},

		"KAI, both":         {[]*model.Task{said("a", "", KAIRequired+"=zone", KAIPreferred+"=example.com/rack")}, "zone, example.com/rack~"},
		"KAI, an empty one": {[]*model.Task{said("a", "", KAIRequired+"=", KAIPreferred+"=rack")}, "rack~"},
		"KAI, all roles":    {[]*model.Task{said("a", "v", KAIRequired+"=rack"), said("b", "w", KAIRequired+"=rack")}, "rack"},
		"KAI, one role":     {[]*model.Task{said("a", "v"), said("b", "w", KAIRequired+"=rack")}, `rack@["w"]`},
		"KAI, two levels":   {[]*model.Task{said("a", "v", KAIRequired+"=block"), said("b", "w", KAIRequired+"=rack")}, `block@["v"], rack@["w"]`},
		"KAI, in one role":  {[]*model.Task{said("a", "v", KAIRequired+"=block"), said("b", "v", KAIRequired+"=rack")}, "InvalidGroup: annotation kai.scheduler/topology-required-placement of pod ns/b is not that of pod ns/a, which is older"},

		"Kueue":                        {[]*model.Task{said("a", "", KueueRequired+"=rack")}, "label:rack"},
		"Kueue, a key with a prefix":   {[]*model.Task{said("a", "", KueuePreferred+"=example.com/rack")}, "example.com/rack~"},
		"Kueue, unconstrained":         {[]*model.Task{said("a", "", "kueue.x-k8s.io/podset-unconstrained-topology=true")}, ""},
		"Kueue, each role has its own": {[]*model.Task{said("a", "v", KueueRequired+"=rack"), said("b", "w", KueueRequired+"=rack")}, `label:rack@["v"], label:rack@["w"]`},
		"Kueue, roles together": {[]*model.Task{said("a", "v", KueueRequired+"=rack", KueueRoles+"=x"), said("b", "w", KueueRequired+"=rack", KueueRoles+"=x"), said("c", "u")},
			`label:rack@["v" "w"]`},
		"Kueue, all roles together": {[]*model.Task{said("a", "v", KueueRequired+"=rack", KueueRoles+"=x"), said("b", "w", KueueRequired+"=rack", KueueRoles+"=x")}, "label:rack"},
		"Kueue, slices":             {[]*model.Task{said("a", "", KueueRequired+"=block", KueueSlice+"=rack", KueueSliceSize+"=4")}, "label:block, label:rack:4"},
		"Kueue, slices of one":      {[]*model.Task{said("a", "", KueueSlice+"=rack", KueueSliceSize+"=1")}, ""},
		"Kueue, slices in slices":   {[]*model.Task{said("a", "", KueueSlices+`=[{"topology":"block","size":8},{"topology":"rack","size":4}]`)}, "label:block:8, label:rack:4"},
		"two dialects":              {[]*model.Task{said("a", "", KueueRequired+"=rack", ours+`[{"level":"block"},{"level":"label:rack"}]`)}, "block, label:rack"},
	} {
		job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "g", Source: model.SourceImplicit}, Tasks: c.tasks}
		if FillImplicit(job, nil, model.Minima{}); sharedIn(job) != c.want {
			t.Errorf("%s: %s, want %s", name, sharedIn(job), c.want)
		}
	}
}

// TestWhatCannotBeReadNamesTheAnnotation, and the pod that has it.
func TestWhatCannotBeReadNamesTheAnnotation(t *testing.T) {
	entries := strings.TrimSuffix(strings.Repeat(`{"level":"rack"},`, 9), ",")
	for annotation, want := range map[string]string{
		ours:                                 "scheduling.tutti.dev/topology: it is \"\", it must be a list in JSON",
		ours + "null":                        `scheduling.tutti.dev/topology: it is "null", it must be a list in JSON`,
		ours + "{}":                          `scheduling.tutti.dev/topology: it is "{}", it must be a list in JSON`,
		ours + `[{"level":"rack"}] x`:        "scheduling.tutti.dev/topology: it cannot be read: invalid character 'x' after top-level value",
		ours + `[{"levle":"rack"}]`:          `scheduling.tutti.dev/topology: it cannot be read: unknown field "[0].levle"`,
		ours + `[{"Level":"rack"}]`:          `scheduling.tutti.dev/topology: it cannot be read: unknown field "[0].Level"`,
		ours + `[{"level":"a","level":"b"}]`: `scheduling.tutti.dev/topology: it cannot be read: duplicate field "[0].level"`,
		ours + "[" + entries + "]":           "scheduling.tutti.dev/topology: it has 9 entries, at most 8 are supported",
		ours + `[{"level":"rack"},{"level":"rack","mode":"Required"}]`: "scheduling.tutti.dev/topology: entry 2: there is one like it before",
		ours + `[{}]`: "scheduling.tutti.dev/topology: entry 1: level must have 1 to 317 characters",
		ours + `[{"level":"rack","mode":"Maybe"}]`:                      `scheduling.tutti.dev/topology: entry 1: mode is "Maybe", it must be Required or Preferred`,
		ours + `[{"level":"rack","roles":[]}]`:                          "scheduling.tutti.dev/topology: entry 1: roles must be 1 to 32 names, or left out",
		ours + `[{"level":"rack","roles":["a","a"]}]`:                   `scheduling.tutti.dev/topology: entry 1: role "a" is listed twice, or cannot be a name`,
		ours + `[{"level":"rack","roles":[""]}]`:                        `scheduling.tutti.dev/topology: entry 1: role "" is listed twice, or cannot be a name`,
		ours + `[{"level":"rack","sliceSize":1}]`:                       "scheduling.tutti.dev/topology: entry 1: sliceSize is 1, it must be from 2 up to 100000",
		ours + `[{"level":"rack","sliceSize":2,"mode":"Preferred"}]`:    "scheduling.tutti.dev/topology: entry 1: sliceSize needs mode: Required",
		ours + `[{"level":"rack","waitSeconds":5}]`:                     "scheduling.tutti.dev/topology: entry 1: waitSeconds needs mode: Preferred",
		ours + `[{"level":"rack","waitSeconds":-5,"mode":"Preferred"}]`: "scheduling.tutti.dev/topology: entry 1: waitSeconds is -5, it must be from 1 up to 604800",
		ours + strings.Repeat(" ", 40000):                               "scheduling.tutti.dev/topology: it has 40000 bytes, at most 32768 are supported",

		KAIRequired + "=" + strings.Repeat("x", 400):     `kai.scheduler/topology-required-placement is "` + strings.Repeat("x", 40) + `…", which cannot be a level`,
		KueueRequired + "=":                              `kueue.x-k8s.io/podset-required-topology: "" cannot be the key of a label`,
		KueuePreferred + "=a/b/c":                        `kueue.x-k8s.io/podset-preferred-topology: "a/b/c" cannot be the key of a label`,
		KueueSlices + "=[{}]":                            `kueue.x-k8s.io/podset-slice-required-topology-constraints: "" cannot be the key of a label`,
		KueueSlices + `=[{"topology":"rack"}]`:           "kueue.x-k8s.io/podset-slice-required-topology-constraints: the size of a slice is 0, it must be from 1 up to 100000",
		KueueSlices + `=[{"topology":"rack","count":2}]`: `kueue.x-k8s.io/podset-slice-required-topology-constraints: it cannot be read: unknown field "[0].count"`,
	} {
		job := &model.Job{Tasks: []*model.Task{said("a", "", annotation)}}
		if FillImplicit(job, nil, model.Minima{}); sharedIn(job) != "InvalidGroup: pod ns/a: annotation "+want {
			t.Errorf("%.80q:\n%s, want\n%s", annotation, sharedIn(job), want)
		}
	}
	for want, annotations := range map[string][]string{
		"there may be one of the annotations kueue.x-k8s.io/podset-required-topology and kueue.x-k8s.io/podset-preferred-topology":    {KueueRequired + "=rack", KueuePreferred + "=rack"},
		"there may be one of the annotations kueue.x-k8s.io/podset-group-name and kueue.x-k8s.io/podset-slice-required-topology":      {KueueRoles + "=x", KueueSlice + "=rack", KueueSliceSize + "=2"},
		"the annotations kueue.x-k8s.io/podset-slice-required-topology and kueue.x-k8s.io/podset-slice-size need each other":          {KueueSlice + "=rack"},
		`annotation kueue.x-k8s.io/podset-slice-size is "two", it must be a whole number from 1 up`:                                   {KueueSlice + "=rack", KueueSliceSize + "=two"},
		"annotation kueue.x-k8s.io/podset-slice-required-topology: the size of a slice is 4294967298, it must be from 1 up to 100000": {KueueSlice + "=rack", KueueSliceSize + "=4294967298"},
	} {
		job := &model.Job{Tasks: []*model.Task{said("a", "", annotations...)}}
		if FillImplicit(job, nil, model.Minima{}); sharedIn(job) != "InvalidGroup: pod ns/a: "+want {
			t.Errorf("%s:\n%s, want\n%s", annotations, sharedIn(job), want)
		}
	}
}

// TestAnObjectSaysWhatItsPodsShare: one of a group its label, one that owns pods by annotations; beside what the pods say.
func TestAnObjectSaysWhatItsPodsShare(t *testing.T) {
	set := func(annotations map[string]any) *Spec {
		jobs := []any{map[string]any{"name": "v"}, map[string]any{"name": "w"}}
		return jobSet.Watch().Decode(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "s", "namespace": "ns", "annotations": annotations}, "spec": map[string]any{"replicatedJobs": jobs}}})
	}
	for name, c := range map[string]struct {
		spec  *Spec
		tasks []*model.Task
		want  string
	}{
		"a label, and what pods say": {&Spec{Topology: []model.TopologyConstraint{{Level: "label:row"}}}, []*model.Task{said("a", "", ours+`[{"level":"rack"}]`)}, "label:row, rack"},
		"the same twice":             {&Spec{Topology: []model.TopologyConstraint{{Level: "rack"}}}, []*model.Task{said("a", "", ours+`[{"level":"rack"}]`)}, "rack"},
		"a JobSet":                   {set(map[string]any{v1alpha1.AnnotationTopology: `[{"level":"rack","roles":["w"]}]`, KAIRequired: "block"}), nil, `rack@["w"], block`},
		"a role that it lacks": {set(map[string]any{v1alpha1.AnnotationTopology: `[{"level":"rack","roles":["x"]}]`}), nil,
			`InvalidGroup: annotation scheduling.tutti.dev/topology: role "x" is none of the group's roles`},
		"what cannot be read": {set(map[string]any{v1alpha1.AnnotationTopology: "rack"}), nil,
			`InvalidGroup: JobSet ns/s: annotation scheduling.tutti.dev/topology: it is "rack", it must be a list in JSON`},
		"a role that comes later": {set(nil), []*model.Task{said("a", "v", ours+`[{"level":"rack","roles":["w"]}]`)}, `rack@["w"]`},
		"a role made later": {&Spec{MinMember: 2, Roles: []model.Role{{Name: "v", MinMember: 1}, {Name: "w", MinMember: 1, MadeLater: true}}},
			[]*model.Task{said("a", "v", ours+`[{"level":"rack","roles":["w"]}]`)}, `rack@["w"]`},
		"a role that is done": {&Spec{MinMember: 2, Roles: []model.Role{{Name: "v", MinMember: 1}, {Name: "w", MinMember: 1}}, Done: []string{"v"}},
			[]*model.Task{said("a", "w", ours+`[{"level":"rack","roles":["v"]}]`)}, `rack@["v"]`},
	} {
		job := &model.Job{Key: c.spec.Key(), Tasks: c.tasks}
		if FillForeign(job, c.spec, model.Minima{}); sharedIn(job) != c.want {
			t.Errorf("%s: %s, want %s", name, sharedIn(job), c.want)
		}
	}
}

func TestSameTopology(t *testing.T) {
	plain, rack, other := said("a", "", "app=x"), said("a", "", KueueRequired+"=rack"), said("a", "", KueueRequired+"=rack", "app=y")
	done := said("a", "", KueueRequired+"=rack")
	placedByKueue(done)
	for _, c := range []struct {
		a, b *model.Task
		want bool
	}{{plain, rack, false}, {rack, other, true}, {rack, done, false}, {plain, done, true}, {rack, said("a", "", KueueRequired+"=block"), false}} {
		a, b := c.a.Says().Topology, c.b.Says().Topology
		if sameTopology(a, b) != c.want || sameTopology(b, a) != c.want {
			t.Errorf("%v and %v", c.a.Pod.ObjectMeta, c.b.Pod.ObjectMeta)
		}
	}
}
