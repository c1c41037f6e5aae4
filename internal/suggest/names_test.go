package suggest

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestTheNearestNameIsNamed(t *testing.T) {
	snapshot := &model.Snapshot{}
	add := func(namespace, name string, group bool) {
		job := &model.Job{Key: model.JobKey{Namespace: namespace, Name: name}}
		if group {
			job.HasGroup = true
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	add("aaa", "training", true)
	add("default", "trainnig", false) // pods without a group
	add("default", "trains", true)
	add("default", "trianing", true)
	add("zzz", "trainnig", true)
	for name, want := range map[string]string{
		"trainnig":  `correct the pods' label to "trianing", which is a PodGroup, or create "trainnig"`,
		"traning":   `correct the pods' label to "trianing", which is a PodGroup, or create "traning"`,
		"elsewhere": `create PodGroup "elsewhere"`,
		"x":         `create PodGroup "x"`,
	} {
		if got, _ := Name(snapshot, model.JobKey{Namespace: "default", Name: name}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"training", "trainnig", 1},
		{"abcdefgh", "xxxxxxxx", 5},
	} {
		if got := distance(c.a, c.b, 5); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
