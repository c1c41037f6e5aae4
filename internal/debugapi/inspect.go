package debugapi

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// maxReportAge is how old a document may be that answers a request: requests, however many, cost the loop one document in this
// time, and one each where they ask for another namespace than the last one.
const maxReportAge = time.Second

// Inspection reads what it is shown, and keeps none of it.
type Inspection func(shown Inspected)

// Inspected is the loop's state between two cycles.
type Inspected struct {
	Snapshot *model.Snapshot
	// Leading reports whether this process decides.
	Leading bool
	// Paused says why no job starts; empty when they may.
	Paused string
	// SchedulerNames are the values of spec.schedulerName of the pods that the loop places.
	SchedulerNames []string
	// Jobs returns the jobs of a namespace, of all namespaces when it is empty, without their turns, and the key of each.
	Jobs func(namespace string) ([]Job, []model.JobKey)
	// Waiting returns the jobs that wait to start, in the order in which a cycle would try them now.
	Waiting func() []*model.Job
	// Counts returns how many jobs of each queue hold capacity and wait.
	Counts func() map[*model.Queue]QueueCounts
	// Trees returns the levels that the configuration declares, and their domains.
	Trees func() []engine.Tree
}

// about is what a list of that kind, made of the state, says of itself.
func (s Inspected) about(kind string) ListMeta { return listMeta(kind, s.Snapshot.Now, s.Leading) }

// NewSource returns the documents of a loop's state, without its cycles and its configuration, which the loop is not asked for.
// ask has the loop's goroutine call an inspection between two cycles; any goroutine may call it.
func NewSource(ask func(Inspection), clock clock.PassiveClock) Source {
	jobs := inspector(ask, clock, readJobs)
	return Source{
		Jobs: func(ctx context.Context, namespace, labelSelector string) (*JobList, error) {
			return selectJobs(labelSelector, func() (*JobList, error) { return jobs(ctx, namespace) })
		},
		Nodes: ofAll(inspector(ask, clock, readNodes)), Queues: ofAll(inspector(ask, clock, readQueues)),
		Domains: ofAll(inspector(ask, clock, readDomains)),
	}
}

// ofAll returns the document of all namespaces.
func ofAll[L any](inspect func(context.Context, string) (L, error)) func(context.Context) (L, error) {
	return func(ctx context.Context) (L, error) { return inspect(ctx, "") }
}

// inspector returns what answers requests for a document of the loop's state, of a namespace or, where that is empty, of all.
// read makes the document, on the loop's goroutine, and finish, which may be nil, adds on the request's goroutine what would
// keep the loop for long; finish reads nothing of the loop's. A document is at most maxReportAge old and then not changed. The
// error is the context's, when it ends before the loop answers. Any goroutine may ask; at most one request at a time is put to
// the loop.
func inspector[L any](
	ask func(Inspection), clock clock.PassiveClock, read func(shown Inspected, namespace string) (list L, finish func()),
) func(context.Context, string) (L, error) {
	type document struct {
		list      L
		finish    func()
		namespace string
		at        time.Time
	}
	free := make(chan struct{}, 1) // holds one token while no request is served
	free <- struct{}{}
	var last *document // that of who has the token; nil before the first
	return func(ctx context.Context, namespace string) (none L, _ error) {
		select {
		case <-free:
			defer func() { free <- struct{}{} }()
		case <-ctx.Done():
			return none, ctx.Err()
		}
		if last != nil && last.namespace == namespace && clock.Since(last.at) < maxReportAge {
			return last.list, nil
		}
		answer := make(chan *document, 1)
		ask(func(shown Inspected) {
			list, finish := read(shown, namespace)
			answer <- &document{list, finish, namespace, shown.Snapshot.Now}
		})
		select {
		case last = <-answer:
			if last.finish != nil {
				last.finish()
			}
			return last.list, nil
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}
