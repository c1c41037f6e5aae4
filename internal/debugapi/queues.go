package debugapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/model"
)

// QueueInspector reports what the loop's snapshot says of the queues, and the order in which jobs are tried. It is safe for
// concurrent use.
type QueueInspector struct{ *inspector[*queuesCopy] }

// NewQueueInspector returns the inspector of a loop's queues.
func NewQueueInspector(loop Loop, clock clock.PassiveClock) QueueInspector {
	return QueueInspector{newInspector(loop, clock, copyQueues)}
}

// Queues returns the document of all queues.
func (i QueueInspector) Queues(ctx context.Context) (*QueueList, error) {
	copied, err := i.copy(ctx, "")
	if err != nil {
		return nil, err
	}
	document := &QueueList{ListMeta: listMeta("QueueList", copied.at, copied.leading), Items: []Queue{}}
	copied.of.fill(document)
	return document, nil
}

// fill writes the queues into a document.
func (c *queuesCopy) fill(document *QueueList) {
	document.Paused, document.Misplaced = c.paused, c.misplaced
	below := map[string][]Queue{}
	for j := range c.queues {
		queue := c.queues[j].document(c.dimensions)
		below[queue.Parent] = append(below[queue.Parent], queue)
	}
	var add func(parent string)
	add = func(parent string) {
		all := below[parent]
		delete(below, parent) // a queue may be above itself
		for _, queue := range all {
			document.Items = append(document.Items, queue)
			add(queue.Name)
		}
	}
	add("")
	for _, parent := range slices.Sorted(maps.Keys(below)) { // those whose parent does not exist, and those above themselves
		add(parent)
	}
}

// queuesCopy is a copy of what a snapshot says of its queues.
type queuesCopy struct {
	queueOrder
	dimensions *model.ResourceIndex
	paused     string
}

// queueOrder is a copy of the order in which jobs are tried, and queues have their turns.
type queueOrder struct {
	queues []queueCopy
	// waiting are all jobs that wait to start, with and without queues.
	waiting   []model.JobKey
	misplaced []string
}

// maxMisplaced is how many jobs are named that no queue takes.
const maxMisplaced = 10

// queueCopy has vectors of its own; what else the queue refers to is never changed.
type queueCopy struct {
	model.Queue
	// above is the copy of the queue above it; nil when there is none. beside is how many queues with the same one have a turn.
	above        *queueCopy
	turn, beside int
	waiting      []model.JobKey
	counts       QueueCounts
}

func copyQueues(shown Inspected, _ string) *queuesCopy {
	queues := shown.Snapshot.Queues
	c := &queuesCopy{dimensions: shown.Snapshot.Dimensions.Clone(), paused: shown.Paused}
	if len(queues) == 0 {
		return c
	}
	c.queueOrder = copyOrder(shown)
	counts := shown.Counts()
	for i, queue := range queues {
		c.queues[i].counts, c.queues[i].Used = counts[queue], queue.Used.Clone()
	}
	return c
}

// copyOrder returns the order, with queues that share their vectors with the snapshot.
func copyOrder(shown Inspected) (c queueOrder) {
	c.queues = make([]queueCopy, len(shown.Snapshot.Queues))
	turns := map[*model.Queue]int{} // by the queue above
	for _, job := range shown.Waiting() {
		c.waiting = append(c.waiting, job.Key)
		queue := job.InQueue()
		if refusal := shown.Snapshot.QueueRefusal(job); refusal != nil && (queue == nil || queue.Inner) && len(c.misplaced) < maxMisplaced {
			c.misplaced = append(c.misplaced, fmt.Sprintf("%s: %s: %s", job.Key.Describe(), refusal.Code, refusal.Detail))
		}
		if queue == nil {
			continue
		}
		c.queues[queue.Index].waiting = append(c.queues[queue.Index].waiting, job.Key)
		for ; queue != nil && c.queues[queue.Index].turn == 0; queue = queue.Above() {
			turns[queue.Above()]++
			c.queues[queue.Index].turn = turns[queue.Above()]
		}
	}
	for i, queue := range shown.Snapshot.Queues {
		copied := &c.queues[i]
		if copied.Queue, copied.beside = *queue, turns[queue.Above()]; queue.Above() != nil {
			copied.above = &c.queues[queue.Above().Index]
		}
	}
	return c
}

// turns writes into jobs, of these keys, where they are in the order, each of its queue, and what comes before it.
func (c *queueOrder) turns(jobs []Job, keys []model.JobKey) {
	byKey := make(map[model.JobKey]*Job, len(jobs))
	for i := range jobs {
		byKey[keys[i]] = &jobs[i]
	}
	among := func(waiting []model.JobKey, where func() string) {
		for place, key := range waiting {
			if job := byKey[key]; job != nil {
				job.Turn = inTurn(place, len(waiting)) + where()
				for _, other := range waiting[max(0, place-maxBehind):place] {
					job.Behind = append(job.Behind, other.Describe())
				}
			}
		}
	}
	if len(c.queues) == 0 {
		among(c.waiting, func() string { return "" })
	}
	for i := range c.queues {
		among(c.queues[i].waiting, sync.OnceValue(c.queues[i].inTurn))
	}
}

// inTurn names the queue, and says where it, and each queue above it, is among those with the same parent that have a turn; this
// is left out where it is the only one.
func (c *queueCopy) inTurn() string {
	text := " of queue " + c.Name
	for ; c != nil; c = c.above {
		if c.turn > 0 && c.beside > 1 {
			text += fmt.Sprintf("; %s is %s of %d queues in turn", c.Name, ordinal(c.turn), c.beside)
			if c.Parent != "" {
				text += " below " + c.Parent
			}
		}
	}
	return text
}

func (c *queueCopy) document(dimensions *model.ResourceIndex) Queue {
	queue := Queue{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Parent: c.Parent, Weight: c.Weight, Inactive: c.Inactive, Turn: c.turn, Used: dimensions.List(c.Used),
		Guarantee: dimensions.ListOf(c.Guarantee), Limit: dimensions.ListOf(c.Limit), Demand: dimensions.ListOf(c.Demand()),
		Share: dimensions.ListOf(c.ContendedShares()), Levels: map[corev1.ResourceName]float64{},
		QueueCounts: c.counts,
	}
	var floors []model.ListedAmount
	for _, part := range c.Parts {
		if part.Contended {
			queue.Levels[dimensions.Name(part.Position)] = part.Level
		}
		if part.Floor > 0 {
			floors = append(floors, model.ListedAmount{Position: part.Position, Amount: part.Floor})
		}
	}
	queue.Floor = dimensions.ListOf(floors)
	if !c.LastStart.IsZero() {
		queue.LastStart = &c.LastStart
	}
	if c.Invalid != nil {
		queue.Message = c.Invalid.Detail
	}
	queue.Oversubscribed = c.Oversubscribed
	if c.Unmet != nil {
		queue.Unmet = c.Unmet.Reason + ": " + c.Unmet.Message
	}
	for _, key := range c.waiting {
		queue.Waiting = append(queue.Waiting, key.Describe())
	}
	return queue
}
