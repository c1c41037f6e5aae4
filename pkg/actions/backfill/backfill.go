package backfill

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// Name is the action's name in the configuration.
const Name = "backfill"

type action struct {
	// reserveAfter is how long a gang waits before it gets a reservation, in seconds.
	reserveAfter int64
	// reserveFor is how long a gang keeps a reservation without a start, in seconds.
	reserveFor int64
	// reserveShare is how much of each resource may be reserved in all, in percent.
	reserveShare int64
	// reservations is how many there are at most at a time.
	reservations int
	// budget is what planning, and what looking for borrowers, may each look at in one cycle.
	budget int
	// run is that of the session at hand, for Resume; nil where there is nothing to do in it.
	run *run
}

// Name returns "backfill".
func (*action) Name() string { return Name }

// Execute looks after the reservations there are, makes new ones for gangs whose time has come, and lends what is reserved.
func (a *action) Execute(session *engine.Session) {
	a.run = nil
	var waiting, holders []*model.Job
	for _, job := range session.Snapshot.Jobs {
		if job.NothingPending {
			continue
		}
		if held, _ := session.Reservation(job); held != nil {
			holders = append(holders, job)
		}
		if session.Refusal(job) != nil {
			waiting = append(waiting, job)
		}
	}
	if len(holders) == 0 && (len(waiting) == 0 || a.reserveAfter == never) {
		return
	}
	r := a.newRun(session)
	r.waiting = waiting
	r.reviewReservations(holders)
	r.reserveForOverdueGangs(waiting)
	if len(r.holders) > 0 {
		r.lend(waiting)
	}
	for _, holder := range r.holders {
		holder.explain(session)
	}
	r.explainGivenUp(waiting)
	r.explainHeadroom(waiting)
	a.run = r // an action behind this one may defer jobs, too
}

func (a *action) newRun(session *engine.Session) *run {
	return &run{
		action: a, session: session, now: session.Snapshot.Now.Unix(), ends: model.NewEnds(session.Snapshot), largest: place.Largest(session.Snapshot),
		work: a.budget, searches: place.Budget,
	}
}

// Resume lends what is reserved to the deferred jobs, and adds to their refusals what Execute does.
func (a *action) Resume(session *engine.Session, deferred []*model.Job) {
	r := a.run
	if r == nil || r.session != session {
		return
	}
	r.holders = slices.DeleteFunc(r.holders, func(holder *reservedJob) bool { return session.JobReady(holder.job, framework.Pipelined) == nil })
	if len(r.holders) > 0 {
		r.lend(slices.DeleteFunc(slices.Clone(deferred), func(job *model.Job) bool { return session.Refusal(job) == nil }))
	}
	for _, holder := range r.holders {
		if slices.Contains(deferred, holder.job) {
			holder.explain(session) // it was refused once more
		}
	}
	r.explainGivenUp(deferred)
	r.explainHeadroom(deferred)
}

// run is one execution of the action.
type run struct {
	*action
	session *engine.Session
	// now is the time of the snapshot, in seconds since 1970.
	now int64
	// waiting are the jobs that were refused before the action.
	waiting []*model.Job
	// holders have a reservation, in job order.
	holders []*reservedJob
	// starting have one, too, and capacity to start in since; their minimum is not bound yet.
	starting []*reservedJob
	// ends says when tasks are expected to leave.
	ends *model.Ends
	// largest is what place.Largest returns.
	largest func() model.Resources
	// allocatable is what all valid nodes offer, ordinary CPU apart from isolated; nil until it is asked for. A node with less CPU
	// than isolated CPUs has a negative amount of ordinary CPU, and offers none.
	allocatable model.Resources
	// givenUp is what lastGivenUp returns; nil until it is asked for.
	givenUp map[string]time.Time
	// work is what planning may still look at, searches what its exact searches may.
	work, searches int
}

// reservedJob is a job with a reservation.
type reservedJob struct {
	job         *model.Job
	reservation *model.Reservation
	// nodes are those of the reservation; nil until they are asked for.
	nodes []*model.Node
}

// usableNodes returns the nodes on which capacity is reserved.
func (h *reservedJob) usableNodes(snapshot *model.Snapshot) []*model.Node {
	if h.nodes == nil {
		for i := range h.reservation.Nodes {
			if node := snapshot.Node(h.reservation.Nodes[i].Node); node != nil {
				h.nodes = append(h.nodes, node)
			}
		}
	}
	return h.nodes
}

// explain says on the holder's refusal which capacity is kept for it.
func (h *reservedJob) explain(session *engine.Session) {
	if refusal := session.Refusal(h.job); refusal != nil {
		note := "capacity is reserved on " + h.reservation.NodeNames() + " " + h.reservation.Describe()
		if held, _ := session.Reservation(h.job); held != nil && !held.GaveWay.IsZero() {
			note += ", gave way to another queue at " + held.GaveWay.UTC().Format(time.RFC3339)
		}
		session.Refuse(h.job, refusal.WithNote(note))
	}
}

func (r *run) trial(ask engine.Ask) *place.Placer { return place.New(ask, r.largest, &r.searches) }
