package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/pkg/model"
)

// rehearsed is a cluster of gangs whose pods are made again by their controllers, which is played to rest.
type rehearsed struct {
	*environment
	t *rapid.T
	d *random
	// lines has the words of each pod by its name, and again how often it was made.
	lines map[string]string
	again map[string]int
	lost  map[string]int
	text  string
}

// do applies lines, and keeps the words of pods.
func (r *rehearsed) do(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	r.text += text + "\n"
	if err := r.world.apply(text); err != nil {
		r.t.Fatal(err)
	}
	if name, words, found := strings.Cut(strings.TrimPrefix(text, "pod "), " "); found && strings.HasPrefix(text, "pod ") {
		r.lines[name] = words
	}
}

func (r *rehearsed) gang(name string) (members int, words string) {
	members = r.d.n(1, 3)
	words = fmt.Sprintf("group=%s cpu=%d priority=%d grace=%ds owner=Job/%s", name, r.d.n(1, 3), r.d.n(0, 2), r.d.n(1, 3)*10, name)
	return members, words
}

// play lets the real cycle decide until nothing moves. It reports false when that takes too long.
func (r *rehearsed) play() bool {
	quiet := 0
	for range 60 {
		o, err := r.cycle()
		if err == nil {
			err = r.confirm()
		}
		bound := r.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending })
		if err == nil {
			err = r.applyEvents("run", bound, nil)
		}
		if err != nil {
			r.t.Fatalf("%v\n%s", err, r.text)
		}
		r.world.now = r.world.now.Add(time.Second)
		leaving := r.world.podNames(func(pod *corev1.Pod) bool {
			return pod.DeletionTimestamp != nil && !pod.DeletionTimestamp.After(r.world.now)
		})
		r.leave(leaving)
		waits := r.world.podNames(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(o.decisions)+len(leaving)+len(waits) > 0 {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return true
		}
	}
	return false
}

// leave lets pods go, and their controllers make them again.
func (r *rehearsed) leave(names []string) {
	if len(names) == 0 {
		return
	}
	words := map[string]string{}
	for _, name := range names {
		words[name] = r.lines[strings.TrimPrefix(name, "default/")]
		r.lost[groupNamed(words[name])]++
	}
	if err := r.world.remove("pod", names); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		first, _, _ := strings.Cut(strings.TrimPrefix(name, "default/"), "~")
		r.again[first]++
		r.do("pod %s~%d %s", first, r.again[first]+1, words[name])
	}
}

func groupNamed(words string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(words, "group="), " ")
	return name
}

// whole reports which gangs have their minimum.
func (r *rehearsed) whole() map[string]bool {
	whole := map[string]bool{}
	for _, job := range r.state.Snapshot(r.world.now).Jobs {
		if len(job.Tasks) > 0 {
			whole[job.Key.Name] = job.FirstUnmetMinimum((*model.Task).IsBound) == nil
		}
	}
	return whole
}

// change draws a change, and returns what makes it for real.
func (r *rehearsed) change() (change []debugapi.Change, make func()) {
	switch r.d.n(0, 4) {
	case 0:
		count := r.d.n(1, 2)
		return []debugapi.Change{{AddNodes: &debugapi.AddNodes{Count: count, Like: "n0"}}}, func() {
			for i := range count {
				r.do("node n0-what-if-%d cpu=%d", i+1, r.world.nodes["n0"].Status.Allocatable.Cpu().Value())
			}
		}
	case 1:
		name := r.d.one("g0", "g1", "g2")
		return []debugapi.Change{{Without: &debugapi.JobName{Namespace: "default", Name: name}}}, func() {
			pods := r.world.podNames(func(pod *corev1.Pod) bool { return groupNamed(r.lines[pod.Name]) == name })
			if err := r.world.remove("pod", pods); err != nil {
				r.t.Fatal(err)
			}
			if err := r.world.remove("group", []string{name}); err != nil {
				r.t.Fatal(err)
			}
		}
	case 2:
		name := r.d.one("n0", "n1")
		return []debugapi.Change{{Drain: &debugapi.Drain{Node: name}}}, func() {
			if err := r.world.cordon([]string{name}, true); err != nil {
				r.t.Fatal(err)
			}
			for _, pod := range r.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == name }) {
				grace := time.Duration(*r.world.pods[pod].Spec.TerminationGracePeriodSeconds) * time.Second
				if err := r.world.changePods([]string{pod}, func(pod *corev1.Pod) { deletedAt(pod, r.world.now, grace) }); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	case 3:
		name, minimum := r.d.one("g0", "g1", "g2"), r.d.n(1, 2)
		return []debugapi.Change{{Set: &debugapi.Patch{
				Kind: "PodGroup", Namespace: "default", Name: name, Spec: fmt.Appendf(nil, `{"minMember":%d}`, minimum),
			}}}, func() {
				r.do("group %s min=%d", name, minimum)
			}
	}
	members, words := r.gang("new")
	changes := []debugapi.Change{{Submit: fmt.Appendf(nil,
		`{"kind":"PodGroup","apiVersion":"scheduling.tutti.dev/v1alpha1","metadata":{"namespace":"default","name":"new"},"spec":{"minMember":%d}}`, members)}}
	// What the words say, as the object that a user submits.
	trial := newStage()
	for i := range members {
		if err := trial.world.apply(fmt.Sprintf("pod new-%d %s", i, words)); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(trial.world.pods)) {
		pod := trial.world.pods[name].DeepCopy()
		pod.Kind, pod.APIVersion, pod.UID = "Pod", "v1", ""
		text, err := json.Marshal(pod)
		if err != nil {
			r.t.Fatal(err)
		}
		changes = append(changes, debugapi.Change{Submit: text})
	}
	return changes, func() {
		r.do("group new min=%d", members)
		for i := range members {
			r.do("pod new-%d %s", i, words)
		}
	}
}

func asJSON(t *rapid.T, answer *debugapi.Answer) string {
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhatIsPredictedHappens: in a random cluster at rest a change is supposed, and then made. Each job then has its minimum, or
// waits, as the answer said, and it has lost as many pods. The same question has the same answer, byte by byte.
func TestWhatIsPredictedHappens(t *testing.T) {
	newStage, differences, moved := openLister(t), 0, map[debugapi.FateState]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := &rehearsed{environment: newStage(), t: t, d: &random{t: t}, lines: map[string]string{}, again: map[string]int{}, lost: map[string]int{}}
		r.configuration = pipeline.ReplaceAll(r.configuration, []byte(`actions: "allocate, preempt"`))
		for i := range r.d.n(2, 4) {
			r.do("node n%d cpu=%d", i, r.d.n(1, 6))
		}
		for i := range r.d.n(3, 5) {
			name := "g" + strconv.Itoa(i)
			members, words := r.gang(name)
			r.do("group %s min=%d", name, members)
			for j := range members {
				r.do("pod %s-%d %s", name, j, words)
			}
		}
		if !r.play() {
			return
		}
		before := r.whole()
		clear(r.lost)
		changes, makeReal := r.change()
		digest := r.state.Snapshot(r.world.now).Digest()
		answer, err := rehearse.NewDesk(r, r.setting(), stillClock{}).Ask(context.Background(), &debugapi.Question{Changes: changes})
		if err != nil {
			t.Fatalf("%v\n%s", err, r.text)
		}
		if r.state.Snapshot(r.world.now).Digest() != digest {
			t.Fatal("the question has changed the cluster")
		}
		again, err := rehearse.NewDesk(r, r.setting(), stillClock{}).Ask(context.Background(), &debugapi.Question{Changes: changes})
		if err != nil || asJSON(t, again) != asJSON(t, answer) {
			t.Fatalf("another answer to the same question: %v\n%s\n%s", err, asJSON(t, answer), asJSON(t, again))
		}
		predicted, loses := maps.Clone(before), map[string]int{}
		for i := range answer.Jobs {
			name := answer.Jobs[i].Job[strings.LastIndexByte(answer.Jobs[i].Job, '/')+1:]
			fate := answer.Jobs[i].Then
			moved[fate.State]++
			predicted[name], loses[name] = fate.State == debugapi.FateRuns || fate.State == debugapi.FateStarts || !fate.Again.IsZero(), fate.Loses
			if fate.State == debugapi.FateNotThere {
				delete(predicted, name)
			}
			differences++
		}
		makeReal()
		if !r.play() {
			return
		}
		after := r.whole()
		if said, err := json.Marshal(answer.Jobs); !maps.Equal(predicted, after) || err != nil {
			t.Fatalf("predicted %v, and it is %v; before %v\nlost %v, predicted %v\n%s\n%s\n%s", predicted, after, before, r.lost, loses, answer.Supposed, said, r.text)
		}
		for name, n := range r.lost {
			if n != loses[name] {
				t.Fatalf("%s has lost %d pods, and %d were predicted\n%s\n%s", name, n, loses[name], answer.Supposed, r.text)
			}
		}
	})
	t.Logf("%d jobs differed: %v", differences, moved)
}

// second lets what is due happen: gangs end that have run for as long as they say, a cycle decides, and pods run that it has
// bound. It takes down when gangs have their minimum for the first time.
func (r *rehearsed) second(runs map[string]time.Duration, starts map[string]time.Time) {
	ended := r.world.podNames(func(pod *corev1.Pod) bool {
		last, known := runs[groupNamed(r.lines[pod.Name])]
		return known && pod.Status.Phase == corev1.PodRunning && !pod.Status.StartTime.Add(last).After(r.world.now)
	})
	err := r.applyEvents("finish", ended, nil)
	if err == nil {
		_, err = r.cycle()
	}
	if err == nil {
		err = r.confirm()
	}
	bound := r.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending })
	if err == nil {
		err = r.applyEvents("run", bound, nil)
	}
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.text)
	}
	for name, whole := range r.whole() {
		if _, known := starts[name]; whole && !known {
			starts[name] = r.world.now
		}
	}
}

// TestAPredictedStartIsTheStart, to the second, where gangs run for exactly as long as they say; where it is unknown, the gang
// has not started by then.
func TestAPredictedStartIsTheStart(t *testing.T) {
	const horizon = 40 * time.Second
	newStage, known, unknown := openLister(t), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := &rehearsed{environment: newStage(), t: t, d: &random{t: t}, lines: map[string]string{}, again: map[string]int{}, lost: map[string]int{}}
		r.configuration = pipeline.ReplaceAll(r.configuration, []byte(`actions: "allocate"`))
		for i := range r.d.n(1, 3) {
			r.do("node n%d cpu=%d", i, r.d.n(2, 5))
		}
		runs, starts := map[string]time.Duration{}, map[string]time.Time{}
		for i := range r.d.n(3, 7) {
			name := "g" + strconv.Itoa(i)
			members := r.d.n(1, 3)
			says := ""
			if r.d.n(0, 5) > 0 {
				runs[name] = time.Duration(r.d.n(2, 15)) * time.Second
				says = fmt.Sprintf("expected=%s", runs[name])
			}
			r.do("group %s min=%d age=%dm %s", name, members, r.d.n(1, 9), says)
			for j := range members {
				r.do("pod %s-%d group=%s cpu=%d", name, j, name, r.d.n(1, 3))
			}
		}
		r.second(runs, starts)
		began, before := r.world.now, maps.Clone(starts)
		question := &debugapi.Question{}
		question.For.Duration = horizon
		answer, err := rehearse.NewDesk(r, r.setting(), stillClock{}).Ask(context.Background(), question)
		if err != nil {
			t.Fatalf("%v\n%s", err, r.text)
		}
		for r.world.now.Before(began.Add(horizon)) {
			r.world.now = r.world.now.Add(time.Second)
			r.second(runs, starts)
		}
		for i := range answer.Jobs {
			name, fate := answer.Jobs[i].Job[strings.LastIndexByte(answer.Jobs[i].Job, '/')+1:], &answer.Jobs[i].Now
			start, started := starts[name]
			if _, was := before[name]; was {
				t.Fatalf("%s runs already", name)
			}
			if start.Equal(began.Add(horizon)) {
				continue // in the second in which the play ends: its cycle may be some milliseconds later
			}
			if fate.State == debugapi.FateStarts {
				known++
			} else {
				unknown++
			}
			if started != (fate.State == debugapi.FateStarts) || started && !start.Equal(fate.At.Truncate(time.Second)) {
				t.Fatalf("%s starts at %s (%t), and %s at %s was predicted; it is %s now\n%s", name, start, started, fate.State, fate.At, began, r.text)
			}
		}
	})
	t.Logf("%d starts were predicted, and %d were unknown", known, unknown)
}
