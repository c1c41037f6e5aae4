package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// refusing is an action that refuses every job with a reason of its own; "forgiving" takes it back.
type refusing string

func (r refusing) Name() string { return string(r) }

func (r refusing) Execute(session *Session) {
	for _, job := range session.Snapshot.Jobs {
		if r == "forgiving" {
			session.Refuse(job, nil)
			session.Refuse(job, nil)
			continue
		}
		session.Refuse(job, no(model.Code(string(r)+"Says")))
	}
}

// TestTrail_hasEachRefusalWithItsAction: the trail is that of the last session that ran, in order; the last step is the reason.
func TestTrail_hasEachRefusalWithItsAction(t *testing.T) {
	snapshot := house(1)
	snapshot.Version = 1
	join(snapshot, "a", 1, 1, model.Resources{2})
	profile := &Profile{Actions: []Action{refusing("first"), refusing("second")}}
	var cache Cache
	for range 3 {
		result := Run(snapshot, profile, Options{Cache: &cache})
		var steps []string
		for _, step := range cache.Trail() {
			steps = append(steps, fmt.Sprint(step.Action, " ", step.Job.Key, " ", step.Refusal.Code))
		}
		if want := []string{"first default/a firstSays", "second default/a secondSays"}; !slices.Equal(steps, want) {
			t.Errorf("the trail is %q, want %q", steps, want)
		}
		if last := cache.Trail()[1].Refusal; result.Refusals[snapshot.Jobs[0].Key] != last {
			t.Errorf("the reason is %v, and not the last step", result.Refusals[snapshot.Jobs[0].Key])
		}
	}
}

// TestTrail_hasWhatIsTakenBack: a job that a later action starts does not look as if it waited.
func TestTrail_hasWhatIsTakenBack(t *testing.T) {
	snapshot := house(1)
	join(snapshot, "a", 1, 1, model.Resources{2})
	var cache Cache
	Run(snapshot, &Profile{Actions: []Action{refusing("forgiving"), refusing("first"), refusing("forgiving")}}, Options{Cache: &cache})
	var steps []string
	for _, step := range cache.Trail() {
		code, reason := step.Describe()
		steps = append(steps, fmt.Sprintf("%s %q %q", step.Action, code, reason))
	}
	if want := []string{`first "firstSays" "firstSays"`, `forgiving "" "does not wait any more"`}; !slices.Equal(steps, want) {
		t.Errorf("the trail is %q, want %q", steps, want)
	}
}

// TestTrail_hasTheRefusalOfTheEngine: a job without a turn in a cycle that a panic has ended.
func TestTrail_hasTheRefusalOfTheEngine(t *testing.T) {
	for open, want := range map[bool]string{true: "engine default/a CycleFailed", false: "first default/a firstSays"} {
		snapshot := house(1)
		join(snapshot, "a", 1, 1, model.Resources{2})
		profile := &Profile{Actions: []Action{refusing("first")}, Tiers: []Tier{{always(usher{"usher", open})}}}
		var cache Cache
		Run(snapshot, profile, Options{Cache: &cache, OnPanic: func(RecoveredPanic) {}})
		var steps []string
		for _, step := range cache.Trail() {
			steps = append(steps, fmt.Sprint(step.Action, " ", step.Job.Key, " ", step.Refusal.Code))
		}
		if !slices.Equal(steps, []string{want}) {
			t.Errorf("panic at the opening %t: the trail is %q, want %q", open, steps, want)
		}
	}
}
