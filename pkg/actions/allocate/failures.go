package allocate

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// unschedulableCache remembers what jobs could not start, as long as nothing has changed: in one cycle until something is placed, and
// from one cycle to the next. A job that asks the same is not tried again, nor one that asks for more of it; where siblings or
// other pods have a say in the answer, it is that job's alone.
//
// Invariant: a job is refused from memory only if trying it would fail.
type unschedulableCache struct {
	snapshot *model.Snapshot
	// mark is up to where the answers hold.
	mark  model.Cursor
	known map[signature]entry
	// own has the answers that no other job is given.
	own map[model.JobKey]jobEntry
	// asks has the question of each job, which is expensive to write down.
	asks map[model.JobKey]jobSignature
}

// entry is why jobs that ask one question fail.
type entry struct {
	// fit is how many members found room.
	fit     int64
	refusal *model.Refusal
}

// jobEntry is why one version of a job fails.
type jobEntry struct {
	version uint64
	refusal *model.Refusal
}

// signature is the shape of all members, or what inFull writes. The zero question is none.
type signature struct{ shape, members unique.Handle[string] }

// jobSignature is what one version of a job asks of the cluster.
type jobSignature struct {
	version  uint64
	question signature
	// uniform tells that all members have one shape and no role: with more of them it fails all the more.
	uniform bool
}

// lookup returns the refusal that trying the job would end in, nil when that has to be seen.
func (f *unschedulableCache) lookup(session *framework.Session, job *model.Job) *model.Refusal {
	if session.Uncached() || hasBindBackoff(session, job) {
		return nil
	}
	f.invalidate(session)
	if own, ok := f.own[job.Key]; ok && own.version == job.Version {
		return own.refusal
	}
	asked, ok := f.asks[job.Key]
	if !ok || asked.version != job.Version {
		asked = signatureOf(job)
		f.asks[job.Key] = asked
	}
	known, seen := f.known[asked.question]
	if !seen || asked.uniform && int64(job.MinMember) <= known.fit {
		return nil
	}
	refusal := known.refusal
	if asked.uniform {
		foretold := *refusal
		foretold.Needs = int64(job.MinMember)
		refusal = &foretold
	}
	return refusal
}

// invalidate forgets everything when something has changed.
func (f *unschedulableCache) invalidate(session *framework.Session) {
	journal := &session.Snapshot.Journal
	if f.snapshot == session.Snapshot && journal.Unchanged(f.mark) {
		f.mark = journal.Cursor()
		return
	}
	f.snapshot, f.mark = session.Snapshot, journal.Cursor()
	f.known, f.own = map[signature]entry{}, map[model.JobKey]jobEntry{}
	if f.asks == nil || len(f.asks) > 2*len(session.Snapshot.Jobs) {
		f.asks = map[model.JobKey]jobSignature{}
	}
}

// hasBindBackoff tells whether the API server has lately refused members of the job: who is tried first is another question then.
func hasBindBackoff(session *framework.Session, job *model.Job) bool {
	faulty := session.Snapshot.BindBackoff
	return len(faulty) > 0 && slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return faulty[task.UID] != nil })
}

// put keeps what a failed try of the job has shown. The try has left no trace, so what was known before is still true.
func (f *unschedulableCache) put(session *framework.Session, job *model.Job, refusal *model.Refusal) {
	if session.Uncached() || hasBindBackoff(session, job) {
		return
	}
	f.mark = session.Snapshot.Journal.Cursor()
	if refusal.Transient {
		return
	}
	all := func(holds func(*model.Task) bool) bool {
		return !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return !holds(task) })
	}
	if all(session.FitsByResourcesOnly) && f.putShared(job, refusal) {
		return
	}
	if job.Version != 0 && all(session.FiltersDependOnSnapshotOnly) {
		f.own[job.Key] = jobEntry{version: job.Version, refusal: refusal}
	}
}

// putShared keeps an answer for every job that asks what this one did, whose members ask for nothing but nodes and their room; false
// when it says nothing of others.
func (f *unschedulableCache) putShared(job *model.Job, refusal *model.Refusal) bool {
	asked := f.asks[job.Key]
	if asked.question == (signature{}) || len(refusal.NodeReasons) == 0 ||
		asked.uniform && refusal.Needs != int64(job.MinMember) {
		return false
	}
	f.known[asked.question] = entry{fit: refusal.Has, refusal: refusal}
	return true
}

// signatureOf writes down what decides whether a job can start, whatever its name: its minima, and its members in their
// order, if they have nothing but waiting to do.
func signatureOf(job *model.Job) jobSignature {
	asked := jobSignature{version: job.Version, uniform: len(job.Roles) == 0}
	if len(job.Tasks) == 0 || job.Version == 0 {
		return asked
	}
	first := job.Tasks[0]
	for _, task := range job.Tasks {
		if task.Status != model.Pending || task.SchedulingGated || task.Invalid != nil {
			return asked
		}
		asked.uniform = asked.uniform && task.Role == "" && task.Shape == first.Shape
	}
	if asked.uniform {
		asked.question = signature{shape: first.Shape}
	} else {
		asked.question = signature{members: unique.Make(encodeMembers(job))}
	}
	return asked
}

// encodeMembers writes the minima and the members, equal neighbours together.
func encodeMembers(job *model.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v", job.MinMember, job.Roles)
	count := 0
	for i, task := range job.Tasks {
		count++
		last := i == len(job.Tasks)-1
		if last || job.Tasks[i+1].Shape != task.Shape || job.Tasks[i+1].Role != task.Role ||
			job.Tasks[i+1].Priority != task.Priority {
			fmt.Fprintf(&b, "\n%d %q %d %s", count, task.Role, task.Priority, task.Shape.Value())
			count = 0
		}
	}
	return b.String()
}
