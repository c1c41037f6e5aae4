package allocate_test

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tutti-sched/tutti/pkg/model"
)

// oracle finds out whether a gang can start by trying everything: the members one after the other, each in every bin. It knows
// nothing of how it is done elsewhere but that members of one shape that are in the same slices are alike.
type oracle struct {
	p       *places
	members []*model.Task
	// choice reports that members may be left out, as long as the minima are met.
	choice bool
	bins   []bin
	// shares are the groups of each member that share a domain, by entry, -1 where an entry does not cover it; domain is that
	// of each group, empty before a member has a place; last is the last member of each.
	shares map[*model.Task][]int
	domain []string
	last   []int
	placed map[*model.Task]bool
	seen   map[string]bool
}

// bin is a node, or for members of one shape all nodes that are in the same domains of all entries.
type bin struct {
	domains []string
	free    [2]int64
	node    *model.Node
}

// newOracle returns the oracle for waiting members on some of the nodes.
func newOracle(p *places, nodes []*model.Node) *oracle {
	o := &oracle{p: p, placed: map[*model.Task]bool{}, seen: map[string]bool{}}
	alike := p.alike()
	o.share()
	for _, task := range p.job.Tasks {
		if !task.Status.HasNode() {
			o.members = append(o.members, task)
			continue
		}
		o.placed[task] = true
		for i, group := range o.shares[task] {
			if group >= 0 {
				o.domain[group] = p.label(p.snapshot.Node(task.Node), p.job.Topology[i].Level)
			}
		}
	}
	if short := int(p.job.MinMember) - len(o.placed); p.interchangeable() {
		o.members = o.members[:max(0, short)]
	} else {
		o.choice = len(o.members) > short
	}
	for _, node := range nodes {
		o.addNode(node, alike)
	}
	o.order()
	return o
}

// share numbers the groups of members that share a domain.
func (o *oracle) share() {
	o.shares = map[*model.Task][]int{}
	for i := range o.p.job.Topology {
		entry := &o.p.job.Topology[i]
		number, first := 0, len(o.domain)
		for _, task := range o.p.job.Tasks {
			group := -1
			if !entry.Preferred && entry.Covers(task) {
				if group = first; entry.SliceSize > 0 {
					group += number / int(entry.SliceSize)
				}
				number++
				if group == len(o.domain) {
					o.domain, o.last = append(o.domain, ""), append(o.last, -1)
				}
			}
			o.shares[task] = append(o.shares[task], group)
		}
	}
}

// order puts those members first that fit into the fewest bins.
func (o *oracle) order() {
	bins := map[*model.Task]int{}
	for member, task := range o.members {
		for i := range o.bins {
			if o.fits(member, i) {
				bins[task]++
			}
		}
	}
	slices.SortStableFunc(o.members, func(a, b *model.Task) int { return cmp.Compare(bins[a], bins[b]) })
	for i, task := range o.members {
		for _, group := range o.shares[task] {
			if group >= 0 {
				o.last[group] = i
			}
		}
	}
}

func (o *oracle) addNode(node *model.Node, alike bool) {
	one := bin{node: node, free: [2]int64{node.Idle(0), node.Idle(1)}}
	for _, entry := range o.p.job.Topology {
		domain := ""
		if !entry.Preferred {
			domain = o.p.label(node, entry.Level)
		}
		one.domains = append(one.domains, domain)
	}
	if !alike {
		o.bins = append(o.bins, one)
		return
	}
	request, fits := o.p.job.Tasks[0].Request, int64(len(o.p.job.Tasks)) // of all: a bin has capacity for so many of them
	for position, free := range one.free {
		if asks := request.At(position); asks > 0 {
			fits = min(fits, max(0, free)/asks)
		}
	}
	one.free = [2]int64{fits * request.At(0), fits * request.At(1)}
	i := slices.IndexFunc(o.bins, func(other bin) bool {
		return slices.Equal(other.domains, one.domains) && o.bars(other.node) == o.bars(one.node)
	})
	if i < 0 {
		o.bins = append(o.bins, one)
		return
	}
	o.bins[i].free[0] += one.free[0]
	o.bins[i].free[1] += one.free[1]
}

// bars reports whether the members may not go to the node.
func (o *oracle) bars(node *model.Node) bool {
	_, is := o.p.job.Tasks[0].Pod.Annotations[node.Name]
	return is
}

func (o *oracle) possible() bool { return o.placeFrom(0, 0) }

// placeFrom places the members from one on; it goes to no bin before the first one, where that of a member like it is.
func (o *oracle) placeFrom(member, first int) bool {
	if (o.choice || member == len(o.members)) && o.p.job.FirstUnmetMinimum(func(task *model.Task) bool { return o.placed[task] }) == nil {
		return true
	}
	if member == len(o.members) {
		return false
	}
	state := o.state(member, first)
	if o.seen[state] {
		return false
	}
	for i := first; i < len(o.bins); i++ {
		if !o.fits(member, i) {
			continue
		}
		before := slices.Clone(o.domain)
		o.place(member, i)
		if o.placeFrom(member+1, o.firstOfNext(member, i)) {
			return true
		}
		task, one := o.members[member], &o.bins[i]
		one.free[0] += task.Request.At(0)
		one.free[1] += task.Request.At(1)
		o.placed[task], o.domain = false, before
	}
	if o.choice && o.placeFrom(member+1, o.firstOfNext(member, len(o.bins))) {
		return true
	}
	o.seen[state] = true
	return false
}

// firstOfNext returns the first bin for the next member: members that are alike are in the order of their bins.
func (o *oracle) firstOfNext(member, at int) int {
	if member+1 == len(o.members) {
		return 0
	}
	one, next := o.members[member], o.members[member+1]
	if one.Shape == next.Shape && one.Role == next.Role && slices.Equal(o.shares[one], o.shares[next]) {
		return at
	}
	return 0
}

// fits reports whether a member fits into a bin.
func (o *oracle) fits(member, at int) bool {
	task, one := o.members[member], &o.bins[at]
	if _, no := task.Pod.Annotations[one.node.Name]; no {
		return false
	}
	for position, free := range one.free {
		if asks := task.Request.At(position); asks > 0 && asks > free {
			return false
		}
	}
	for i, group := range o.shares[task] {
		if group >= 0 && (one.domains[i] == "" || o.domain[group] != "" && o.domain[group] != one.domains[i]) {
			return false
		}
	}
	return true
}

func (o *oracle) place(member, at int) {
	task, one := o.members[member], &o.bins[at]
	for i, group := range o.shares[task] {
		if group >= 0 {
			o.domain[group] = one.domains[i]
		}
	}
	one.free[0] -= task.Request.At(0)
	one.free[1] -= task.Request.At(1)
	o.placed[task] = true
}

// state is all that the members from one on depend on.
func (o *oracle) state(member, first int) string {
	text := strconv.AppendInt(strconv.AppendInt(nil, int64(member), 10), int64(-first-1), 10)
	for i := range o.bins {
		for _, free := range o.bins[i].free {
			text = append(strconv.AppendInt(text, free, 10), ' ')
		}
	}
	for group, domain := range o.domain {
		if o.last[group] >= member {
			text = append(append(text, domain...), ' ')
		}
	}
	if o.choice {
		for _, task := range o.p.job.Tasks {
			if o.placed[task] {
				text = append(append(text, task.Role...), '+')
			}
		}
	}
	return string(text)
}
