package framework

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
	var memory Cache
	for range 3 {
		refusals := Run(snapshot, profile, Options{Memory: &memory})
		var steps []string
		for _, step := range memory.Trail() {
			steps = append(steps, fmt.Sprint(step.Action, " ", step.Job.Key, " ", step.Refusal.Code))
		}
		if want := []string{"first default/a firstSays", "second default/a secondSays"}; !slices.Equal(steps, want) {
			t.Errorf("the trail is %q, want %q", steps, want)
		}
		if last := memory.Trail()[1].Refusal; refusals[snapshot.Jobs[0].Key] != last {
			t.Errorf("the reason is %v, and not the last step", refusals[snapshot.Jobs[0].Key])
		}
	}
}

// TestTrail_hasWhatIsTakenBack: a job that a later action starts does not look as if it waited.
func TestTrail_hasWhatIsTakenBack(t *testing.T) {
	snapshot := house(1)
	join(snapshot, "a", 1, 1, model.Resources{2})
	var memory Cache
	Run(snapshot, &Profile{Actions: []Action{refusing("forgiving"), refusing("first"), refusing("forgiving")}}, Options{Memory: &memory})
	var steps []string
	for _, step := range memory.Trail() {
		code, reason := step.Describe()
		steps = append(steps, fmt.Sprintf("%s %q %q", step.Action, code, reason))
	}
	if want := []string{`first "firstSays" "firstSays"`, `forgiving "" "does not wait any more"`}; !slices.Equal(steps, want) {
		t.Errorf("the trail is %q, want %q", steps, want)
	}
}
