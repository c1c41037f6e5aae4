package preempt

import (
	"hash/maphash"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// past is what the action knows from earlier cycles: for which jobs there is no plan, and why, for as long as nothing is
// different that could change it.
type past struct {
	snapshot *model.Snapshot
	mark     model.Mark
	// seed is of this process; sum stands for everything that plans are made from, but for what nodes are themselves.
	seed  maphash.Seed
	sum   uint64
	known map[model.JobKey]failure
	// drafts are the searches that were cut short.
	drafts map[model.JobKey]*draft
}

// failure is why there is no plan for one version of a job.
type failure struct {
	version uint64
	why     string
}

// follow forgets everything when anything is different. It looks at everybody who runs, which costs far less than to search
// for victims among them.
func (p *past) follow(snapshot *model.Snapshot) {
	if p.seed == (maphash.Seed{}) {
		p.seed = maphash.MakeSeed()
	}
	sum := p.sumUp(snapshot)
	if p.snapshot != snapshot || !snapshot.Journal.SameNodes(p.mark) || p.sum != sum {
		p.known, p.drafts = map[model.JobKey]failure{}, map[model.JobKey]*draft{}
	}
	p.snapshot, p.mark, p.sum = snapshot, snapshot.Journal.Mark(), sum
}

func (p *past) sumUp(snapshot *model.Snapshot) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			h.WriteString(string(task.UID))
			h.WriteByte(byte(task.Status))
			if task.Stuck || snapshot.Spared[task.UID] != nil {
				h.WriteByte('!')
			}
		}
		h.WriteByte('\n')
	}
	for _, job := range snapshot.Jobs {
		maphash.WriteComparable(&h, job.Version)
	}
	for i := range snapshot.Budgets {
		budget := &snapshot.Budgets[i]
		h.WriteString(budget.Namespace + "/" + budget.Name + " " + budget.Selector.String())
		maphash.WriteComparable(&h, budget.Allowed)
	}
	for _, hold := range snapshot.Holds() {
		h.WriteString(hold.Node + " " + string(hold.Pod.UID))
		maphash.WriteComparable(&h, hold.Job)
		maphash.WriteComparable(&h, hold.Priority)
		maphash.WriteComparable(&h, hold.Until)
		for _, amount := range hold.Request {
			maphash.WriteComparable(&h, amount)
		}
	}
	return h.Sum64()
}

// recall returns why there is no plan for a job, if it is what it was.
func (p *past) recall(session *framework.Session, job *model.Job) (why string, ok bool) {
	before, ok := p.known[job.Key]
	if !ok || before.version != job.Version || job.Version == 0 || session.Afresh() {
		return "", false
	}
	return before.why, true
}

func (p *past) remember(job *model.Job, why string) {
	p.known[job.Key] = failure{version: job.Version, why: why}
}
