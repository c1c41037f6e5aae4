package preempt

import (
	"hash/maphash"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// failureCache is what the action knows from earlier cycles: for which jobs there is no plan, and why, for as long as nothing
// is different that could change it.
type failureCache struct {
	snapshot *model.Snapshot
	mark     model.Cursor
	// seed is of this process; sum stands for everything that plans are made from, but for what nodes are themselves.
	seed  maphash.Seed
	sum   uint64
	known map[model.JobKey]cachedFailure
	// drafts are the searches that were cut short.
	drafts map[model.JobKey]*savedSearch
	// early are those who are looked at before others in this cycle, since the budget had come to an end before their turn in
	// the one before; late are those for whom it has come to an end now.
	early, late map[model.JobKey]bool
}

// cachedFailure is why there is no plan for one version of a job.
type cachedFailure struct {
	version     uint64
	nominations uint64
	why         string
}

// invalidate forgets everything when anything is different. It looks at all pods that run, which costs far less than to search
// for victims among them.
func (p *failureCache) invalidate(snapshot *model.Snapshot) {
	if p.seed == (maphash.Seed{}) {
		p.seed = maphash.MakeSeed()
	}
	sum := p.fingerprint(snapshot)
	if p.snapshot != snapshot || !snapshot.Journal.SameNodes(p.mark) || !snapshot.Journal.SameLabels(p.mark) || p.sum != sum {
		p.known, p.drafts = map[model.JobKey]cachedFailure{}, map[model.JobKey]*savedSearch{}
	}
	p.snapshot, p.mark, p.sum = snapshot, snapshot.Journal.Cursor(), sum
}

func (p *failureCache) fingerprint(snapshot *model.Snapshot) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			h.WriteString(string(task.UID))
			maphash.WriteComparable(&h, task.Pod) // a pod that has changed is another one: its request, its labels
			h.WriteByte(byte(task.Status))
			if task.TerminationOverdue || snapshot.EvictionBackoff[task.UID] != nil {
				h.WriteByte('!')
			}
		}
		h.WriteByte('\n')
	}
	for _, job := range snapshot.Jobs {
		if !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status.HasNode() }) {
			continue // it has no pod to give, and what is kept for it comes below
		}
		maphash.WriteComparable(&h, job.Version)
		if held := snapshot.JobBackoff[job.Key]; held != nil && held.Code == model.Quarantined {
			h.WriteByte('!') // plugins may not be asked about it, so none of its pods is evicted
		}
	}
	for i := range snapshot.Budgets {
		budget := &snapshot.Budgets[i]
		h.WriteString(budget.Namespace + "/" + budget.Name + " " + budget.Selector.String())
		maphash.WriteComparable(&h, budget.Allowed)
	}
	for _, hold := range snapshot.Held() {
		h.WriteString(hold.Node + " " + string(hold.Pod.UID))
		maphash.WriteComparable(&h, hold.Job)
		maphash.WriteComparable(&h, hold.Priority)
		maphash.WriteComparable(&h, hold.LentUntil)
		for _, amount := range hold.Request {
			maphash.WriteComparable(&h, amount)
		}
	}
	return h.Sum64()
}

// beginCycle begins a cycle. A job whose search takes all of the budget, in every cycle again, must not keep those behind it
// from theirs indefinitely. A session that is the measure of another takes the turns of that one.
func (p *failureCache) beginCycle(session *framework.Session) {
	if !session.Uncached() {
		p.early, p.late = p.late, map[model.JobKey]bool{}
	}
}

// recordSkipped takes down that a job was not looked at.
func (p *failureCache) recordSkipped(session *framework.Session, job *model.Job) {
	if !session.Uncached() {
		p.late[job.Key] = true
	}
}

// lookup returns why there is no plan for a job, if it is what it was.
func (p *failureCache) lookup(r *run, job *model.Job) (why string, ok bool) {
	before, ok := p.known[job.Key]
	if !ok || before.version != job.Version || job.Version == 0 || r.session.Uncached() || !r.moved && before.nominations != r.nominationsHash() {
		return "", false
	}
	return before.why, true
}

// put keeps why there is no plan, unless objects that are in no snapshot decide: the cache would not notice when these change.
func (p *failureCache) put(session *framework.Session, f *unplanned) {
	if !slices.ContainsFunc(f.job.Tasks, func(task *model.Task) bool { return !session.FiltersDependOnSnapshotOnly(task) }) {
		p.known[f.job.Key] = cachedFailure{version: f.job.Version, nominations: f.scene, why: f.why}
	}
}

// toggleNomination takes note that a job was given a nomination for more than this cycle, or gave it back.
func (r *run) toggleNomination() {
	r.moved, r.seen = true, false
	clear(r.hopeless) // what they say of the cluster is true no more
	clear(r.drafts)
}

// nominationsHash stands for what was promised to whom for this cycle only, as the session stands. What a search finds out
// holds for that, which may be different in a job's next turn although nothing in the cluster is: others may have had theirs
// before it.
func (r *run) nominationsHash() uint64 {
	if r.seen || r.moved { // once a job was given a nomination nothing is compared any more
		return r.scene
	}
	var h maphash.Hash
	h.SetSeed(r.tieBreakSeed)
	for _, node := range r.session.Snapshot.Nodes {
		if !slices.ContainsFunc(node.Pipelined, func(amount int64) bool { return amount != 0 }) {
			continue
		}
		for _, task := range node.Tasks {
			if isPipelined(task) {
				h.WriteString(string(task.UID) + " ")
			}
		}
		h.WriteString(node.Name + "\n")
	}
	r.scene, r.seen = h.Sum64(), true
	return r.scene
}
