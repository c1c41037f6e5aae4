package rehearse

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// course is what happens to each job in a play.
type course struct {
	until time.Time
	fates map[model.JobKey]*fate
	// order has the jobs that wait at the beginning, as they have their turns.
	order []model.JobKey
	// ends are those that the jobs of the play had, in their order; basis is the weakest of them.
	ends  []debugapi.JobEnd
	basis string
	// silent counts the pods on nodes of which it is not known when they end.
	silent int
	// touched are the jobs to which something has happened in the last step.
	touched map[model.JobKey]bool
}

// fate is what happens to one job.
type fate struct {
	// runs reports that it had its minimum at the beginning.
	runs   bool
	starts time.Time
	nodes  map[string]int
	basis  string
	after  []debugapi.JobEnd
	// evicts counts the pods that go for it, loses its own; lostAt is when the first of these went, and again when it had its
	// minimum after that.
	evicts, loses int
	lostAt, again time.Time
	ends          time.Time
	// waits reports that it has not its minimum at the end of the play, and refusal why; nil when that is not known.
	waits   bool
	refusal *model.Refusal
}

// newCourse takes down what there is at the beginning.
func newCourse(state *cluster.State, profile *engine.Profile) *course {
	c := &course{fates: map[model.JobKey]*fate{}}
	snapshot := state.LastSnapshot()
	var waiting []*model.Job
	for _, job := range snapshot.Jobs {
		if len(job.Tasks) == 0 {
			continue
		}
		f := &fate{runs: isWhole(job) || isOver(job)}
		if c.fates[keyOf(job.Key)] = f; !f.runs {
			waiting = append(waiting, job)
		}
	}
	for _, job := range engine.Order(snapshot, profile, &engine.Cache{}, waiting) {
		c.order = append(c.order, job.Key)
	}
	ends := model.NewEnds(snapshot)
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if ends.Of(task, false) == model.UnknownEnd {
				c.silent++
			}
		}
	}
	return c
}

// isWhole reports whether the job has the minimum that it needs.
func isWhole(job *model.Job) bool {
	return len(job.Tasks) > 0 && job.FirstUnmetMinimum((*model.Task).IsBound) == nil && job.Count((*model.Task).IsBound) > 0
}

// isOver reports whether all pods of the job have ended.
func isOver(job *model.Job) bool {
	return job.Count(model.Succeeded.Is)+job.Count(model.Failed.Is) == len(job.Tasks)
}

// keyOf returns the key of a job, and for a pod that the stage has made again the key of the first one.
func keyOf(job model.JobKey) model.JobKey {
	if job.IsPod() {
		job.Name, _, _ = strings.Cut(job.Name, "~")
	}
	return job
}

func (c *course) fate(job model.JobKey) *fate {
	key := keyOf(job)
	if c.fates[key] == nil {
		c.fates[key] = &fate{}
	}
	return c.fates[key]
}

// follow takes down what has happened in a step, and looks at the jobs to which something has happened in the step before: the
// state knows of it since. It plans the ends of pods that have started.
func (c *course) follow(happened []event, snapshot *model.Snapshot, stage *stage) {
	touched := c.touched
	c.touched = map[model.JobKey]bool{}
	for _, one := range happened {
		if c.touched[one.job] = true; one.kind == lost {
			f := c.fate(one.job)
			if f.loses++; f.lostAt.IsZero() {
				f.lostAt = snapshot.Now
			}
			if one.cause != (model.JobKey{}) && one.cause != one.job {
				c.fate(one.cause).evicts++
			}
		}
		if one.kind == ended && c.basis != byEstimate {
			c.basis = one.basis
		}
	}
	if len(touched) == 0 {
		return
	}
	ends := model.NewEnds(snapshot)
	for _, key := range slices.SortedFunc(maps.Keys(touched), model.JobKey.Compare) {
		job := snapshot.Job(key)
		if job == nil || len(job.Tasks) == 0 {
			continue
		}
		f := c.fate(key)
		if stage.endsPods {
			for _, task := range job.Tasks {
				stage.planEnd(ends, task)
			}
		}
		whole, over := isWhole(job), isOver(job)
		switch {
		case over && f.ends.IsZero():
			f.ends = snapshot.Now
			c.ends = append(c.ends, debugapi.JobEnd{Job: keyOf(key).Describe(), Ends: snapshot.Now})
		case whole && !f.runs && f.starts.IsZero():
			f.starts, f.basis, f.after, f.nodes = snapshot.Now, c.basis, slices.Clone(c.ends), map[string]int{}
			for _, task := range job.Tasks {
				if task.Status.HasNode() {
					f.nodes[task.Node]++
				}
			}
		case whole && f.loses > 0 && f.again.IsZero() && job.Count(model.Releasing.Is) == 0:
			f.again = snapshot.Now
		}
	}
}

// close takes down which jobs wait at the end of the play, and why.
func (c *course) close(refusals map[model.JobKey]*model.Refusal, snapshot *model.Snapshot, until time.Time) {
	c.until = until
	for _, job := range snapshot.Jobs {
		if len(job.Tasks) == 0 {
			continue
		}
		f := c.fate(job.Key)
		f.refusal = refusals[job.Key]
		if f.waits = !isWhole(job) && !isOver(job); f.waits {
			f.again = time.Time{}
		}
	}
}

// show returns what becomes of a job, nil when the play had none.
func (f *fate) show() debugapi.Fate {
	if f == nil {
		return debugapi.Fate{State: debugapi.FateNotThere}
	}
	shown := debugapi.Fate{State: debugapi.FateWaits, Evicts: f.evicts, Loses: f.loses}
	switch {
	case !f.starts.IsZero() && !f.waits:
		shown.State, shown.At, shown.Basis, shown.After, shown.Nodes = debugapi.FateStarts, f.starts.UTC(), f.basis, f.after, f.nodes
	case f.loses > 0:
		shown.State, shown.At = debugapi.FateEvicted, f.lostAt.UTC()
		if !f.again.IsZero() {
			shown.Again = f.again.UTC()
		}
	case !f.ends.IsZero():
		shown.State, shown.At = debugapi.FateEnds, f.ends.UTC()
	case f.runs && !f.waits:
		shown.State = debugapi.FateRuns
	}
	waits := shown.State == debugapi.FateWaits || shown.State == debugapi.FateEvicted && shown.Again.IsZero()
	if refusal := f.refusal; waits && refusal != nil {
		shown.Code, shown.Reason = string(refusal.Code), refusal.String()
	}
	return shown
}
