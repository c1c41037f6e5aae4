package scenario

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// crowded draws a cluster in which gangs wait, and plays one cycle.
func crowded(t *rapid.T, newStage func() *environment) *rehearsed {
	r := &rehearsed{environment: newStage(), t: t, d: &random{t: t}, lines: map[string]string{}, again: map[string]int{}, lost: map[string]int{}}
	r.configuration = pipeline.ReplaceAll(r.configuration, []byte(`actions: "allocate, preempt"`))
	for i, value := range []int{1, 2, 5} {
		r.do("class c%d value=%d", i, value)
	}
	for i := range r.d.n(1, 4) {
		r.do("node n%d cpu=%d%s%s", i, r.d.n(1, 6), r.d.seldom(3, "unschedulable"), r.d.seldom(4, "taints=gpu=true:NoSchedule"))
	}
	for i := range r.d.n(2, 5) {
		name := "g" + fmt.Sprint(i)
		members, words := r.gang(name)
		members += r.d.n(0, 2)
		r.do("group %s min=%d", name, max(1, members-r.d.n(-1, 1)))
		for j := range members {
			r.do("pod %s-%d %s", name, j, words)
		}
	}
	if _, err := r.cycle(); err != nil {
		t.Fatalf("%v\n%s", err, r.text)
	}
	if err := r.confirm(); err != nil {
		t.Fatalf("%v\n%s", err, r.text)
	}
	if _, err := r.cycle(); err != nil {
		t.Fatalf("%v\n%s", err, r.text)
	}
	return r
}

// startsAlone reports whether a session binds or nominates the job while no other has a turn.
func (r *rehearsed) startsAlone(job model.JobKey) bool {
	r.held = map[model.JobKey]time.Time{}
	for _, other := range r.state.Snapshot(r.world.now).Jobs {
		if other.Key != job && len(other.Pending()) > 0 {
			r.held[other.Key] = r.world.now.Add(time.Hour)
		}
	}
	defer clear(r.held)
	return slices.ContainsFunc(r.session(engine.Options{}).decisions, func(decision model.Decision) bool {
		nominates := slices.ContainsFunc(decision.Nominations, func(n model.Nomination) bool { return !n.Releases() })
		return decision.Job == job && (len(decision.Binds) > 0 || nominates)
	})
}

// makeReal makes a change of advice for real, and returns what makes it one short of enough; nil where it has no number.
func (r *rehearsed) makeReal(of *scheduler.Refused, change *v1alpha1.Change) (short, enough func()) {
	nodes := func(from, to int32) {
		for i := from; i < to; i++ {
			node := r.world.nodes[change.Nodes[0].Name].DeepCopy()
			words := fmt.Sprintf("node %s-more-%d cpu=%d", node.Name, i, node.Status.Allocatable.Cpu().Value())
			if len(node.Spec.Taints) > 0 {
				words += " taints=gpu=true:NoSchedule"
			}
			r.do("%s", words)
		}
	}
	switch change.Kind {
	case v1alpha1.AddNodes:
		return func() { nodes(0, change.Count-1) }, func() { nodes(change.Count-1, change.Count) }
	case v1alpha1.UncordonNodes:
		return nil, func() {
			for _, node := range change.Nodes {
				if err := r.world.cordon([]string{node.Name}, false); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	case v1alpha1.LowerMinMember:
		return func() { r.do("group %s min=%d", of.Key.Name, *change.To+1) }, func() { r.do("group %s min=%d", of.Key.Name, *change.To) }
	case v1alpha1.RaisePriority:
		return nil, func() {
			pods := r.world.podNames(func(pod *corev1.Pod) bool { return groupNamed(r.lines[pod.Name]) == of.Key.Name })
			if err := r.world.changePods(pods, func(pod *corev1.Pod) { pod.Spec.Priority = change.To }); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.t.Fatalf("an unknown kind: %s", change.Kind)
	return nil, nil
}

// TestAdviceIsTrue: in a random cluster what is said is done, and the job starts; with one node fewer, or one member more,
// it does not.
func TestAdviceIsTrue(t *testing.T) {
	newStage, said := openLister(t), map[v1alpha1.ChangeKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := crowded(t, newStage)
		moment := r.moment()
		advice, err := rehearse.Advise(moment, r.setting(), moment.Refused, func() bool { return false })
		if err != nil {
			t.Fatalf("%v\n%s", err, r.text)
		}
		var refused []scheduler.Refused
		for _, of := range moment.Refused {
			if advice[of.Key] != nil {
				refused = append(refused, of)
			}
		}
		if len(refused) == 0 {
			said["none"]++
			return
		}
		of := refused[r.d.n(0, len(refused)-1)]
		alternatives := advice[of.Key].Alternatives
		change := &alternatives[r.d.n(0, len(alternatives)-1)].Changes[0]
		said[change.Kind]++
		short, enough := r.makeReal(&of, change)
		if r.startsAlone(of.Key) {
			t.Fatalf("%s starts without %q\n%s", of.Key, change.Message, r.text)
		}
		if short != nil {
			if short(); r.startsAlone(of.Key) {
				t.Fatalf("%s starts with one less than %q\n%s", of.Key, change.Message, r.text)
			}
		}
		if enough(); !r.startsAlone(of.Key) {
			t.Fatalf("%s does not start with %q, of %q\n%s", of.Key, change.Message, advice[of.Key].Message, r.text)
		}
	})
	t.Logf("said: %v", said)
}

// TestTheSameAdvice and answer, byte by byte, however many processors there are.
func TestTheSameAdvice(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		r := crowded(t, newStage)
		var texts []string
		for _, processors := range []int{1, 8} {
			runtime.GOMAXPROCS(processors)
			moment := r.moment()
			advice, err := rehearse.Advise(moment, r.setting(), moment.Refused, func() bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, of := range moment.Refused {
				text, err := json.Marshal(advice[of.Key])
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "%s %s\n", of.Key, text)
			}
			answer, err := rehearse.NewDesk(r, r.setting(), stillClock{}).Ask(t.Context(), &debugapi.Question{Changes: []debugapi.Change{
				{AddNodes: &debugapi.AddNodes{Count: 1, Like: "n0"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, b.String()+asJSON(t, answer))
		}
		if texts[0] != texts[1] {
			t.Fatalf("with 1 processor\n%s\nwith 8\n%s\n%s", texts[0], texts[1], r.text)
		}
	})
}
