package allocate

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// failures remembers what jobs could not start, as long as nothing has changed: in one cycle until something is placed, and
// from one cycle to the next. A job that asks the same is not tried again, nor one that asks for more of it; where siblings or
// other pods have a say in the answer, it is that job's alone.
//
// Invariant: a job is refused from memory only if trying it would fail.
type failures struct {
	snapshot *model.Snapshot
	// mark is up to where the answers hold.
	mark  model.Cursor
	known map[question]failure
	// own has the answers that no other job is given.
	own map[model.JobKey]ownFailure
	// asks has the question of each job, which is expensive to write down.
	asks map[model.JobKey]ask
}

// failure is why jobs that ask one question fail.
type failure struct {
	// fit is how many members found room.
	fit     int64
	refusal *model.Refusal
}

// ownFailure is why one version of a job fails.
type ownFailure struct {
	version uint64
	refusal *model.Refusal
}

// question is the shape of all members, or what inFull writes. The zero question is none.
type question struct{ shape, members unique.Handle[string] }

// ask is what one version of a job asks of the cluster.
type ask struct {
	version  uint64
	question question
	// uniform tells that all members have one shape and no role: with more of them it fails all the more.
	uniform bool
}

// foretell returns the refusal that trying the job would end in, nil when that has to be seen.
func (f *failures) foretell(session *framework.Session, job *model.Job) *model.Refusal {
	if session.Uncached() || anyFaulty(session, job) {
		return nil
	}
	f.follow(session)
	if own, ok := f.own[job.Key]; ok && own.version == job.Version {
		return own.refusal
	}
	asked, ok := f.asks[job.Key]
	if !ok || asked.version != job.Version {
		asked = questionOf(job)
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

// follow forgets everything when something has changed.
func (f *failures) follow(session *framework.Session) {
	journal := &session.Snapshot.Journal
	if f.snapshot == session.Snapshot && journal.Unchanged(f.mark) {
		f.mark = journal.Cursor()
		return
	}
	f.snapshot, f.mark = session.Snapshot, journal.Cursor()
	f.known, f.own = map[question]failure{}, map[model.JobKey]ownFailure{}
	if f.asks == nil || len(f.asks) > 2*len(session.Snapshot.Jobs) {
		f.asks = map[model.JobKey]ask{}
	}
}

// anyFaulty tells whether the API server has lately refused members of the job: who is tried first is another question then.
func anyFaulty(session *framework.Session, job *model.Job) bool {
	faulty := session.Snapshot.BindBackoff
	return len(faulty) > 0 && slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return faulty[task.UID] != nil })
}

// remember keeps what a failed try of the job has shown. The try has left no trace, so what was known before is still true.
func (f *failures) remember(session *framework.Session, job *model.Job, refusal *model.Refusal) {
	if session.Uncached() || anyFaulty(session, job) {
		return
	}
	f.mark = session.Snapshot.Journal.Cursor()
	if refusal.Transient {
		return
	}
	all := func(holds func(*model.Task) bool) bool {
		return !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return !holds(task) })
	}
	if all(session.FitsByResourcesOnly) && f.share(job, refusal) {
		return
	}
	if job.Version != 0 && all(session.FiltersDependOnSnapshotOnly) {
		f.own[job.Key] = ownFailure{version: job.Version, refusal: refusal}
	}
}

// share keeps an answer for every job that asks what this one did, whose members ask for nothing but nodes and their room; false
// when it says nothing of others.
func (f *failures) share(job *model.Job, refusal *model.Refusal) bool {
	asked := f.asks[job.Key]
	if asked.question == (question{}) || len(refusal.NodeReasons) == 0 ||
		asked.uniform && refusal.Needs != int64(job.MinMember) {
		return false
	}
	f.known[asked.question] = failure{fit: refusal.Has, refusal: refusal}
	return true
}

// questionOf writes down what decides whether a job can start, whatever its name: its minima, and its members in their
// order, if they have nothing but waiting to do.
func questionOf(job *model.Job) ask {
	asked := ask{version: job.Version, uniform: len(job.Roles) == 0}
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
		asked.question = question{shape: first.Shape}
	} else {
		asked.question = question{members: unique.Make(inFull(job))}
	}
	return asked
}

// inFull writes the minima and the members, equal neighbours together.
func inFull(job *model.Job) string {
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
