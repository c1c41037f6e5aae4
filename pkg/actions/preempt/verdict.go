package preempt

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"unique"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// question is what the session remembers the verdicts about jobs by. Names of budgets are shortened for readers of other
// namespaces, so that with budgets the namespace is part of it.
func (r *run) question(job *model.Job) engine.Question {
	if r.given == (unique.Handle[string]{}) {
		r.given = unique.Make(dependencies(r.session.Snapshot))
	}
	question := engine.Question{Action: Name, Class: job.Class, ByFit: true, Given: r.given}
	if len(r.session.Snapshot.Budgets) > 0 {
		question.Action += " " + job.Key.Namespace
	}
	if overstayed := r.session.Overstayed(job); len(overstayed) > 0 { // time alone makes them victims, of no job but this one
		var all strings.Builder
		for _, other := range overstayed {
			all.WriteString("\x00" + other.Key.String())
		}
		question.Class, question.Given = model.Class{}, unique.Make(r.given.Value()+all.String())
	}
	return question
}

// dependencies writes down what plans depend on that is in no revision of the snapshot: the jobs that run, with their minima, and
// what protects their pods.
func dependencies(snapshot *model.Snapshot) string {
	var all []byte
	number := func(n uint64) { all = binary.LittleEndian.AppendUint64(all, n) }
	text := func(s string) { all = append(append(all, s...), 0) }
	for _, job := range snapshot.Jobs {
		if slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status.HasNode() }) {
			number(job.Version)
			if held := snapshot.JobBackoff[job.Key]; held != nil && held.Code == model.Quarantined {
				number(0) // plugins may not be asked about it, so that none of its pods is evicted
			}
		}
	}
	number(math.MaxUint64) // no version is as high
	for i := range snapshot.Budgets {
		budget := &snapshot.Budgets[i]
		text(budget.Namespace + "/" + budget.Name + " " + budget.Selector.String())
		number(uint64(budget.Allowed))
		if budget.ReleasesUnready {
			number(math.MaxUint64)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(snapshot.EvictionBackoff)) {
		text(string(uid))
	}
	for _, task := range terminationOverdue(snapshot) {
		text(string(task.UID))
	}
	return string(all)
}

// searchKey is the same for jobs for which a search comes to the same, in the same words.
type searchKey struct {
	question  engine.Question
	viewpoint model.Viewpoint
	revision  model.Revision
	only      model.Right // the one right that was looked for; empty for all
}

// searchKey returns the job's; shares is false for a job that has nothing to share.
func (r *run) searchKey(ask engine.Ask, only model.Right) (key searchKey, shares bool) {
	job := ask.Job
	shares = job.Class != (model.Class{}) && !r.session.Uncached() && !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool {
		return task.Status.HasNode() || !ask.Rests(task, engine.OnShape)
	})
	return searchKey{r.question(job), ask.Viewpoint(), r.session.Snapshot.Journal.Revision(), only}, shares
}
