package debugapi

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// readQueues makes the document of all queues, each before those below it.
func readQueues(shown Inspected, _ string) (list *QueueList, finish func()) {
	list = &QueueList{ListMeta: shown.about("QueueList"), Items: []Queue{}, Paused: shown.Paused}
	if len(shown.Snapshot.Queues) == 0 {
		return list, nil
	}
	order, counts := readOrder(shown), shown.Counts()
	list.Misplaced = misplaced(shown.Snapshot, order.waiting)
	guaranteed := map[int]bool{} // positions
	for _, queue := range shown.Snapshot.Queues {
		for _, amount := range queue.Guarantee {
			guaranteed[amount.Position] = true
		}
	}
	below, waiting := map[string][]Queue{}, map[string][]model.JobKey{}
	for i, queue := range shown.Snapshot.Queues {
		item := showQueue(queue, guaranteed, shown.Snapshot.Dimensions)
		item.Turn, item.QueueCounts = order.queues[i].turn, counts[queue]
		waiting[queue.Name] = keysOf(order.queues[i].waiting)
		below[queue.Parent] = append(below[queue.Parent], item)
	}
	var add func(parent string)
	add = func(parent string) {
		all := below[parent]
		delete(below, parent) // a queue may be above itself
		for _, queue := range all {
			list.Items = append(list.Items, queue)
			add(queue.Name)
		}
	}
	add("")
	for _, parent := range slices.Sorted(maps.Keys(below)) { // those whose parent does not exist, and those above themselves
		add(parent)
	}
	return list, func() {
		for i := range list.Items {
			for _, key := range waiting[list.Items[i].Name] {
				list.Items[i].Waiting = append(list.Items[i].Waiting, key.Describe())
			}
		}
	}
}

func keysOf(jobs []*model.Job) []model.JobKey {
	keys := make([]model.JobKey, len(jobs))
	for i, job := range jobs {
		keys[i] = job.Key
	}
	return keys
}

// misplaced says of the first of the jobs that no queue takes why.
func misplaced(snapshot *model.Snapshot, waiting []*model.Job) (texts []string) {
	const most = 10
	for _, job := range waiting {
		queue := job.InQueue()
		if refusal := snapshot.QueueRefusal(job); refusal != nil && (queue == nil || queue.Inner) && len(texts) < most {
			texts = append(texts, fmt.Sprintf("%s: %s: %s", job.Key.Describe(), refusal.Code, refusal.Detail))
		}
	}
	return texts
}

// queueOrder is the order in which jobs are tried, and queues have their turns.
type queueOrder struct {
	// queues are in the order of the snapshot.
	queues []queueTurn
	// waiting are all jobs that wait to start, with and without queues.
	waiting []*model.Job
}

// queueTurn is when the jobs of a queue are tried.
type queueTurn struct {
	*model.Queue
	// turn is the place of the queue among those with the same parent that have a turn, from 1, and beside how many these are.
	turn, beside int
	waiting      []*model.Job
}

func readOrder(shown Inspected) *queueOrder {
	o := &queueOrder{queues: make([]queueTurn, len(shown.Snapshot.Queues)), waiting: shown.Waiting()}
	turns := map[*model.Queue]int{} // by the queue above
	for _, job := range o.waiting {
		queue := job.InQueue()
		if queue == nil {
			continue
		}
		o.queues[queue.Index].waiting = append(o.queues[queue.Index].waiting, job)
		for ; queue != nil && o.queues[queue.Index].turn == 0; queue = queue.Above() {
			turns[queue.Above()]++
			o.queues[queue.Index].turn = turns[queue.Above()]
		}
	}
	for i, queue := range shown.Snapshot.Queues {
		o.queues[i].Queue, o.queues[i].beside = queue, turns[queue.Above()]
	}
	return o
}

// line is jobs that wait for each other's turn, the first one to be tried first, and the queue that they are in, in words.
type line struct {
	where   string
	waiting []model.JobKey
}

// lines returns the jobs of each queue; without queues all are in one line.
func (o *queueOrder) lines() (lines []line) {
	if len(o.queues) == 0 {
		return []line{{waiting: keysOf(o.waiting)}}
	}
	for i := range o.queues {
		if queue := &o.queues[i]; len(queue.waiting) > 0 {
			lines = append(lines, line{o.inTurn(queue.Queue), keysOf(queue.waiting)})
		}
	}
	return lines
}

// writeTurns writes into jobs, of these keys, where each is in its line, and what comes before it.
func writeTurns(lines []line, jobs []Job, keys []model.JobKey) {
	byKey := make(map[model.JobKey]*Job, len(jobs))
	for i := range jobs {
		byKey[keys[i]] = &jobs[i]
	}
	for _, line := range lines {
		for place, key := range line.waiting {
			if job := byKey[key]; job != nil {
				job.Turn = inTurn(place, len(line.waiting)) + line.where
				for _, other := range line.waiting[max(0, place-maxBehind):place] {
					job.Behind = append(job.Behind, other.Describe())
				}
			}
		}
	}
}

// inTurn names the queue, and says where it, and each queue above it, is among those with the same parent that have a turn; this
// is left out where it is the only one.
func (o *queueOrder) inTurn(queue *model.Queue) string {
	text := " of queue " + queue.Name
	for ; queue != nil; queue = queue.Above() {
		if at := o.queues[queue.Index]; at.turn > 0 && at.beside > 1 {
			text += fmt.Sprintf("; %s is %s of %d queues in turn", queue.Name, ordinal(at.turn), at.beside)
			if queue.Parent != "" {
				text += " below " + queue.Parent
			}
		}
	}
	return text
}

// showQueue shows a queue, without its turn and its jobs. guaranteed are the positions of what is guaranteed to any queue.
func showQueue(q *model.Queue, guaranteed map[int]bool, dimensions *model.ResourceIndex) Queue {
	queue := Queue{
		ObjectMeta: metav1.ObjectMeta{Name: q.Name}, Parent: q.Parent, Weight: q.Weight, Inactive: q.Inactive, Used: dimensions.List(q.Used),
		Guarantee: dimensions.ListOf(q.Guarantee), Limit: dimensions.ListOf(q.Limit), Demand: dimensions.ListOf(q.Demand()),
		Share: dimensions.ListOf(q.ContendedShares()), Levels: map[corev1.ResourceName]float64{}, Oversubscribed: q.Oversubscribed,
	}
	var floors, borrowed []model.ListedAmount
	for _, part := range q.Parts {
		if part.Contended {
			queue.Levels[dimensions.Name(part.Position)] = part.Level
		}
		if part.Floor > 0 {
			floors = append(floors, model.ListedAmount{Position: part.Position, Amount: part.Floor})
		}
		if beyond := q.Used.At(part.Position) - part.Guarantee; guaranteed[part.Position] && beyond > 0 {
			borrowed = append(borrowed, model.ListedAmount{Position: part.Position, Amount: beyond})
		}
	}
	queue.Floor, queue.Borrowed = dimensions.ListOf(floors), dimensions.ListOf(borrowed)
	if started := q.LastStart; !started.IsZero() {
		queue.LastStart = &started
	}
	if q.Invalid != nil {
		queue.Message = q.Invalid.Detail
	}
	if q.Unmet != nil {
		queue.Unmet = q.Unmet.Reason + ": " + q.Unmet.Message
	}
	return queue
}
