package audit

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// chronicleOf is a chronicle of one node for two pods, which has seen what the steps say: +x is pod x bound to the node by us,
// ~x by another scheduler, >x pod x on a node that is not there, !x failed, -x gone.
func chronicleOf(steps ...string) *History {
	four := node("a", map[string]string{"cpu": "4"})
	c := NewChronicle(&four)
	c.Expect("n", "g", 2)
	for _, step := range steps {
		pod := members("g", 1, "2", "a")[0]
		pod.Name, pod.UID, pod.Labels = step[1:], types.UID(step[1:]), map[string]string{LabelGang: "g"}
		switch step[0] {
		case '~':
			pod.Spec.SchedulerName, pod.Labels = "default-scheduler", nil
		case '>':
			pod.Spec.NodeName = "b"
		case '!':
			pod.Status.Phase = corev1.PodFailed
		case '-':
			c.podLeft(pod.UID)
			continue
		}
		c.see(&pod)
	}
	return c
}

func TestChronicle(t *testing.T) {
	for name, c := range map[string]struct {
		steps                  []string
		found, overs, now, ago int
		partial                bool
	}{
		"a gang that starts":                 {steps: []string{"+x", "+x", "+y"}},
		"one member only":                    {steps: []string{"+x"}, partial: true},
		"one member only, undone":            {steps: []string{"+x", "-x"}},
		"one member only, failed":            {steps: []string{"+x", "!x"}},
		"one is lost of a gang that ran":     {steps: []string{"+x", "+y", "-x"}},
		"one is bound after all were lost":   {steps: []string{"+x", "+y", "-x", "-y", "+z"}, partial: true},
		"too much":                           {steps: []string{"+x", "+y", "+z"}, overs: 1, now: 1},
		"too much, mended":                   {steps: []string{"+x", "+y", "+z", "-x"}, overs: 1},
		"too much, refused":                  {steps: []string{"+x", "+y", "+z", "!z", "-z"}, overs: 1},
		"too much twice":                     {steps: []string{"+x", "+y", "+z", "-z", "+w"}, overs: 2, now: 1},
		"too much by another scheduler":      {steps: []string{"+x", "+y", "~z"}, overs: 1, now: 1, ago: 1},
		"too much after another scheduler's": {steps: []string{"~z", "+x", "+y"}, overs: 1, now: 1, ago: 1},
		"a pod that changes its node":        {steps: []string{"+x", "+y", ">x"}, found: 1},
		"a node that is not there":           {steps: []string{"+x", ">y"}, found: 1},
		"the last one makes capacity":        {steps: []string{"+x", "+y", "!x", "+z"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := chronicleOf(c.steps...)
			ago := 0
			for _, over := range got.Overs() {
				if over.Other != "" {
					ago++
				}
			}
			if len(got.Found()) != c.found || len(got.Overs()) != c.overs || len(got.Over()) != c.now || ago != c.ago {
				t.Errorf("found %v, overs %v, now %v", got.Found(), got.Overs(), got.Over())
			}
			if partial := got.Partial(); (len(partial) > 0) != c.partial {
				t.Errorf("in part are %v", partial)
			}
		})
	}
}

func TestChronicleTellsOfMoments(t *testing.T) {
	c := chronicleOf("+x")
	more := c.More(2)
	if c.LongestPartial() <= 0 {
		t.Error("a gang in part has been so for no time")
	}
	four := members("g", 1, "1", "a")[0]
	four.Labels = map[string]string{LabelGang: "g"}
	for _, name := range []string{"y", "z"} {
		select {
		case <-more:
			t.Fatal("the channel is closed too early")
		default:
		}
		four.Name, four.UID = name, types.UID(name)
		c.see(&four)
	}
	select {
	case <-more:
	default:
		t.Error("the channel is not closed after two more")
	}
	if binds, last := c.Binds(); binds != 3 || time.Since(last) > time.Minute || c.Bound("n", "g") != 3 {
		t.Errorf("%d binds, the last at %s, %d of the gang", binds, last, c.Bound("n", "g"))
	}
	if _, last := c.Binds(); !c.At(3).Equal(last) || c.At(1).After(c.At(2)) {
		t.Errorf("the binds were seen at %s, %s and %s", c.At(1), c.At(2), c.At(3))
	}
	if c.Gaps() != 0 || !slices.Equal(c.Partial(), nil) {
		t.Error("gaps, or a gang in part")
	}
}

// TestChronicleBelievesTheServer: the server's times say how long there was between two binds, where the watch was delayed for
// a while.
func TestChronicleBelievesTheServer(t *testing.T) {
	const second = time.Second
	seen := time.Now()
	for name, c := range map[string]struct {
		seen, stated, want time.Duration
		silent             bool
	}{
		"seen immediately":           {seen: second / 5, stated: second, want: second / 5},
		"seen late":                  {seen: 9 * second, stated: second, want: 2 * second},
		"seen late, in one second":   {seen: 9 * second, want: second},
		"long after":                 {seen: 9 * second, stated: 9 * second, want: 9 * second},
		"the server says nothing":    {seen: 9 * second, silent: true, want: 9 * second},
		"the other one is seen late": {seen: second / 5, stated: 9 * second, want: second / 5},
	} {
		bind := func(after time.Duration) time.Time {
			pod := members("g", 1, "1", "a")[0]
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(seen.Add(after)).Rfc3339Copy(),
			}}
			if c.silent {
				pod.Status.Conditions[0].Status = corev1.ConditionFalse
			}
			return boundAt(&pod)
		}
		theirs, ours := arrival{"theirs", seen, bind(0)}, arrival{"ours", seen.Add(c.seen), bind(c.stated)}
		if got := ours.since(theirs); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
