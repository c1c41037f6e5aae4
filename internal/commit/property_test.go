package commit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// world is a model API server with faults, the owner of a machine, and checks of both.
type world struct {
	t       *rapid.T
	machine *Machine
	workers int
	now     time.Time

	// nodes is the node of each pod that the server has bound; deleted pods are not in it.
	nodes    map[types.UID]string
	deleted  map[types.UID]bool
	inFlight []Call
	// frozen are binds whose reply was lost and that the server may still carry out, for as long as a request may take.
	frozen []Call
	sentAt map[CallID]time.Time
	// undoing counts the pods of undos without outcome, by pod.
	undoing map[types.UID]int

	// open counts the submitted binds, nominations and evictions without outcome, by decision, kind and pod.
	open  map[string]int
	bound map[types.UID]int
	// before counts, for a pod whose bind was confirmed, the jobs submitted until then.
	before map[types.UID]int
	// committed counts expected Committed outcomes, by job.
	committed map[string]int
	jobs      int
	// aside is the state of what was reserved, by job and pod: "set", "prepared", "releasing" or "released". needs is the
	// decision's, begun reports whether one of its binds was sent.
	aside     map[string]string
	needs     map[string]int
	begun     map[string]bool
	preparing int
	// ended are the jobs whose minimum was raised beyond their members before their first bind.
	ended map[string]bool
	// spare is how many more of a decision's binds may fail before the first one is sent, if any is to be.
	spare map[string]int
	plans plans
	// toDelete are the groups whose deletion was asked for after their last status.
	toDelete map[types.UID]bool
}

func (w *world) pod() model.PodRef {
	return pod(fmt.Sprintf("p%d", rapid.IntRange(0, 11).Draw(w.t, "pod")))
}

func key(job model.JobKey, what string, pod model.PodRef) string {
	return job.Name + " " + what + " " + pod.Name
}

func (w *world) submit() {
	w.jobs++
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: fmt.Sprintf("j%d", w.jobs)}}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 11), 0, 5, rapid.ID).Draw(w.t, "binds") {
		pod := pod(fmt.Sprintf("p%d", n))
		bind := model.Bind{Pod: pod, Node: "node-of-" + decision.Job.Name, NeedsPreBind: rapid.IntRange(0, 3).Draw(w.t, "prepare") == 0}
		if bind.NeedsPreBind {
			w.aside[key(decision.Job, "bind", pod)] = "set"
		}
		decision.Binds = append(decision.Binds, bind)
		w.open[key(decision.Job, "bind", pod)]++
	}
	decision.MinBinds = rapid.IntRange(0, len(decision.Binds)).Draw(w.t, "needs")
	w.needs[decision.Job.Name] = decision.MinBinds
	w.spare[decision.Job.Name] = len(decision.Binds) - decision.MinBinds
	w.plan(&decision)
	if len(decision.Binds) > 0 {
		w.committed[decision.Job.Name] = len(decision.Binds)
	}
	w.machine.Submit(w.now, decision)
	w.send()
}

func (w *world) write() {
	name := w.pod().Name
	write := rapid.SampledFrom([]Write{
		group(name, 1), condition(name, "x"), event(name, "Scheduled", "x"), deletion(name), queueStatus(name, 1), foreign(name, "x"),
	}).Draw(w.t, "write")
	switch write := write.(type) {
	case *GroupStatus:
		delete(w.toDelete, write.UID)
	case *GroupDeletion:
		w.toDelete[write.UID] = true
	}
	w.machine.Write(w.now, write)
	w.send()
}

func (w *world) send() {
	calls := w.machine.Calls(w.now)
	w.inFlight = append(w.inFlight, calls...)
	preparing, writes := 0, 0
	for _, call := range w.inFlight {
		switch {
		case call.Kind.prepares():
			preparing++
		case !call.Kind.isDecision():
			writes++
		}
	}
	if writes > (w.workers+1)/2 {
		w.t.Fatalf("%d writes in flight, %d workers", writes, w.workers)
	}
	if len(w.inFlight)-preparing > w.workers || preparing > w.preparing {
		w.t.Fatalf("%d calls in flight, %d workers; %d prepare, of %d", len(w.inFlight), w.workers, preparing, w.preparing)
	}
	busy := map[target]bool{}
	for _, call := range w.inFlight {
		t := (&entry{call: call}).target()
		if busy[t] {
			w.t.Fatalf("two calls in flight for %v", t)
		}
		busy[t] = true
	}
	for _, call := range calls {
		w.sentAt[call.ID] = w.now
		var job int
		fmt.Sscanf(call.Job.Name, "j%d", &job)
		if call.Kind == CallBind && job <= w.before[call.Pod.UID] {
			w.t.Fatalf("bind of %s sent although another was confirmed while it waited", call.Pod)
		}
		w.judgeOrder(call)
		w.judgePlan(call)
		if call.Kind == CallDeleteGroup && (call.Attempt != 1 || !w.toDelete[call.Write.(*GroupDeletion).UID]) {
			w.t.Fatalf("deletion of %s sent although it has a newer status, or again: attempt %d", call.Write.(*GroupDeletion).Name, call.Attempt)
		}
	}
}

// judgeOrder expects a decision's binds after all of its preparations, and no release of a pod that is still to be bound.
func (w *world) judgeOrder(call Call) {
	k := key(call.Job, "bind", call.Pod)
	aside := w.aside[k]
	switch call.Kind {
	case CallPrepare:
		if aside != "set" || call.Attempt != 1 {
			w.t.Fatalf("%s of %s, which is %q, attempt %d", call.Kind, call.Pod, aside, call.Attempt)
		}
	case CallRelease:
		if aside != "set" && aside != "prepared" {
			w.t.Fatalf("%s of %s, which is %q", call.Kind, call.Pod, aside)
		}
		w.aside[k] = "releasing"
	case CallBind:
		if aside != "" && aside != "prepared" {
			w.t.Fatalf("%s of %s, which is %q", call.Kind, call.Pod, aside)
		}
		w.judgeFirstBind(call.Job)
	}
}

// judgeFirstBind expects a decision that needs all of its binds to be fully prepared, and none begun that cannot be
// completed.
func (w *world) judgeFirstBind(job model.JobKey) {
	if w.begun[job.Name] || w.needs[job.Name] == 0 {
		return
	}
	w.begun[job.Name] = true
	if w.ended[job.Name] {
		w.t.Fatalf("%s begins to be bound although it needs more by then", job)
	}
	if w.spare[job.Name] < 0 {
		w.t.Fatalf("%s begins to be bound although too many of it have failed", job)
	}
	for n := range 12 {
		pod := pod(fmt.Sprintf("p%d", n))
		if w.deleted[pod.UID] || w.bound[pod.UID] > 0 {
			continue // it may have been prepared, and have failed since
		}
		if aside := w.aside[key(job, "bind", pod)]; aside != "" && aside != "prepared" {
			w.t.Fatalf("%s is bound while %s is %s", job, pod, aside)
		}
	}
}

// answerPreparer carries out a call that prepares or releases, or fails to.
func (w *world) answerPreparer(call Call, err error) {
	k := key(call.Job, "bind", call.Pod)
	switch {
	case call.Kind == CallRelease: // it counts as released, also when the server got no request
		w.aside[k] = "released"
	case err == nil:
		w.aside[k] = "prepared"
	}
	w.judge(w.machine.Reply(w.now, Reply{ID: call.ID, Err: err}))
	w.send()
}

// carryOut is the server's answer to a call that reaches it.
func (w *world) carryOut(call Call) error {
	uid := call.Pod.UID
	switch {
	case !call.Kind.isDecision():
		return nil
	case w.deleted[uid]:
		return errGone
	case call.Kind == CallGetPod:
		switch w.nodes[uid] {
		case call.Node:
			return nil
		case "":
			return ErrNotBound
		}
		return ErrElsewhere
	case call.Kind == CallDeleteStarted:
		w.deleted[uid] = true
		return nil
	case call.Kind == CallNominate:
		w.plans.nominated[uid] = call.Node
		return nil
	case call.Kind == CallSetCondition:
		w.plans.marked[uid] = true
		return nil
	case call.Kind.evicts():
		w.plans.evicted[uid] = true
		return nil
	case w.nodes[uid] != "":
		return errTaken
	}
	w.nodes[uid] = call.Node
	return nil
}

func (w *world) answer() {
	if len(w.inFlight) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.inFlight)-1).Draw(w.t, "call")
	call := w.inFlight[i]
	w.inFlight = append(w.inFlight[:i:i], w.inFlight[i+1:]...)
	if call.Kind.prepares() {
		w.answerPreparer(call, rapid.SampledFrom([]error{nil, nil, nil, errServer, errBusy}).Draw(w.t, "prepared"))
		return
	}
	var err error
	switch rapid.SampledFrom([]string{"ok", "ok", "ok", "lost", "lost late", "never", "busy", "denied", "refused", "not leading"}).Draw(w.t, "fate") {
	case "ok":
		err = w.carryOut(call)
	case "lost":
		w.carryOut(call) // the answer does not arrive
		err = errLost
	case "lost late":
		err = errLost
		if call.Kind == CallBind {
			w.frozen = append(w.frozen, call)
		}
	case "never":
		err = errServer
	case "busy":
		err = errBusy
	case "denied":
		err = errDenied
	case "refused":
		err = errDenied
		if call.Kind == CallEvict {
			err = budget()
		}
	case "not leading":
		err = ErrNotLeading
	}
	w.judge(w.machine.Reply(w.now, Reply{ID: call.ID, Err: err}))
	if rapid.IntRange(0, 9).Draw(w.t, "again") == 0 {
		w.judge(w.machine.Reply(w.now, Reply{ID: call.ID})) // no longer matters
	}
	w.send()
}

// thaw lets the server carry out a bind that has timed out, if it may still do so.
func (w *world) thaw() {
	if len(w.frozen) == 0 {
		return
	}
	if w.mayThaw(w.frozen[0]) {
		w.carryOut(w.frozen[0])
	}
	w.frozen = w.frozen[1:]
}

func (w *world) mayThaw(call Call) bool { return w.now.Before(w.sentAt[call.ID].Add(requestTimeout)) }

// requestTimeout is for how long the server works on a request after it timed out.
const requestTimeout = 11 * time.Second

// undo undoes the binds of some pods.
func (w *world) undo() {
	var bound []model.Eviction
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 11), 0, 3, rapid.ID).Draw(w.t, "undo") {
		pod := pod(fmt.Sprintf("p%d", n))
		if w.bound[pod.UID] > 0 && w.undoing[pod.UID] == 0 {
			bound = append(bound, model.Eviction{Pod: pod, Node: w.nodes[pod.UID]})
			w.undoing[pod.UID]++
		}
	}
	w.machine.Undo(w.now, model.JobKey{Namespace: "ns", Name: "undo"}, bound)
	w.send()
}

// recheck raises the minimum of a job beyond its members.
func (w *world) recheck() {
	job := model.JobKey{Namespace: "ns", Name: fmt.Sprintf("j%d", rapid.IntRange(1, w.jobs+1).Draw(w.t, "job"))}
	w.ended[job.Name] = !w.begun[job.Name] && w.needs[job.Name] > 0
	w.judge(w.machine.Recheck(w.now, job, -1, "changed"))
	w.send()
}

func (w *world) judgeUndo(o Outcome) {
	if w.undoing[o.Pod.UID]--; w.undoing[o.Pod.UID] < 0 {
		w.t.Fatalf("a second outcome: %+v", o)
	}
	if o.Kind == StartUndone && !w.deleted[o.Pod.UID] {
		w.t.Fatalf("%s is said to be deleted, and is not", o.Pod)
	}
}

func (w *world) remove() {
	pod := w.pod()
	w.deleted[pod.UID] = true
	w.plans.dropEvictions(pod)
	w.judge(w.machine.Cancel(w.now, pod.UID))
	w.send()
}

func (w *world) pass() {
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 12_000).Draw(w.t, "ms")) * time.Millisecond)
	w.judge(w.machine.Tick(w.now))
	w.send()
}

func (w *world) judge(outcomes []Outcome) {
	for _, o := range outcomes {
		switch o.Kind {
		case WriteFailed, Obsolete:
		case StartUndone, UndoFailed:
			w.judgeUndo(o)
		case Committed:
			if want, owed := w.committed[o.Job.Name]; !owed || o.Bound+o.Failed+o.Uncertain != want {
				w.t.Fatalf("%+v: want %d binds, owed %t", o, want, owed)
			}
			delete(w.committed, o.Job.Name)
		case Evicted, EvictFailed, VictimsGone, Nominated, NominationFailed, NominationReleased:
			w.settlePlan(o)
		default:
			w.settle(o, "bind")
			w.judgeBind(o)
			w.judgeAside(o)
		}
	}
}

func (w *world) settle(o Outcome, what string) {
	k := key(o.Job, what, o.Pod)
	if w.open[k]--; w.open[k] < 0 {
		w.t.Fatalf("%s: a second outcome: %+v", k, o)
	}
}

// judgeBind compares the reported outcomes with the server's state.
func (w *world) judgeBind(o Outcome) {
	uid := o.Pod.UID
	switch o.Kind {
	case Bound:
		if w.bound[uid]++; w.bound[uid] > 1 {
			w.t.Fatalf("%s is bound twice", o.Pod)
		}
		w.before[uid] = w.jobs
		if w.nodes[uid] != o.Node {
			w.t.Fatalf("reported on %s, is on %q: %s", o.Node, w.nodes[uid], o.Pod)
		}
	case BindFailed:
		if !w.begun[o.Job.Name] {
			w.spare[o.Job.Name]--
		}
		if w.nodes[uid] == o.Node && !w.deleted[uid] && w.bound[uid] == 0 {
			w.t.Fatalf("reported as failed, is on %s: %s (%s)", o.Node, o.Pod, o.Message)
		}
		for _, call := range w.frozen {
			if call.Pod.UID == uid && call.Node == o.Node && !w.deleted[uid] && w.nodes[uid] == "" && w.mayThaw(call) {
				w.t.Fatalf("reported as failed, can still be bound: %s (%s)", o.Pod, o.Message)
			}
		}
	}
}

// judgeAside expects everything released for a bind that failed, before the outcome, and nothing for one that did not.
func (w *world) judgeAside(o Outcome) {
	aside := w.aside[key(o.Job, "bind", o.Pod)]
	switch {
	case aside == "":
	case o.Kind == BindFailed && aside != "released":
		w.t.Fatalf("%s failed, and what was set aside is %s", o.Pod, aside)
	case o.Kind != BindFailed && aside != "prepared":
		w.t.Fatalf("%s is %s, and what was set aside is %s", o.Pod, o.Kind, aside)
	}
	if o.Kind == BindUncertain && o.Prepared != (aside != "") {
		w.t.Fatalf("%s is uncertain: prepared %t, %q", o.Pod, o.Prepared, aside)
	}
}

// drain answers everything until the machine is idle.
func (w *world) drain() {
	for range 10_000 {
		w.send()
		if len(w.inFlight) > 0 {
			call := w.inFlight[0]
			w.inFlight = w.inFlight[1:]
			if call.Kind.prepares() {
				w.answerPreparer(call, nil)
				continue
			}
			w.judge(w.machine.Reply(w.now, Reply{ID: call.ID, Err: w.carryOut(call)}))
			continue
		}
		at, ok := w.machine.NextWake()
		if !ok {
			return
		}
		w.now = maxTime(w.now, at)
		w.judge(w.machine.Tick(w.now))
	}
	w.t.Fatal("never comes to rest")
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestEveryBindHasOneTrueOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, now: start, workers: rapid.IntRange(1, 8).Draw(t, "workers"),
			nodes: map[types.UID]string{}, deleted: map[types.UID]bool{},
			open: map[string]int{}, bound: map[types.UID]int{}, before: map[types.UID]int{},
			committed: map[string]int{}, aside: map[string]string{}, needs: map[string]int{}, begun: map[string]bool{},
			spare: map[string]int{}, plans: newPlans(), sentAt: map[CallID]time.Time{}, undoing: map[types.UID]int{}, ended: map[string]bool{},
			toDelete:  map[types.UID]bool{},
			preparing: rapid.IntRange(1, 4).Draw(t, "preparing"),
		}
		w.machine = New(Options{Workers: w.workers, MaxEvents: 3, Preparing: w.preparing, PrepareTimeout: 20 * time.Second,
			Burst: rapid.IntRange(1, 4).Draw(t, "helping")})
		steps := []func(){w.submit, w.write, w.answer, w.answer, w.answer, w.answer, w.thaw, w.remove, w.pass, w.giveBack, w.undo, w.recheck}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
		}
		w.drain()
		for uid, n := range w.undoing {
			if n != 0 {
				t.Fatalf("undo of %s: %d without outcome", uid, n)
			}
		}
		for k, n := range w.open {
			if n != 0 {
				t.Fatalf("%s: %d without outcome", k, n)
			}
		}
		if len(w.committed)+len(w.plans.owed) != 0 {
			t.Fatalf("decisions without Committed: %v, without VictimsGone: %v", w.committed, w.plans.owed)
		}
		if err := w.machine.atRest(); err != nil {
			t.Fatal(errors.Join(errors.New("at rest"), err))
		}
	})
}
