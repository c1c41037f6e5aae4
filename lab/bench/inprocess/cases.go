package inprocess

import (
	"fmt"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Measure is what is timed.
type Measure string

// The measures.
const (
	// First is the cycle in which what waits has just come, with nothing remembered of an earlier one.
	First Measure = "cycle"
	// Kept is a cycle like that, of a scheduler that has run it before: all has left again, and the same has come once more.
	Kept Measure = "cycle, the same again"
	// Again is the cycle after that, in which nothing has changed.
	Again Measure = "cycle, nothing changed"
	// OneGang is a cycle like that, but for a gang that waits: one of its members is not what it was.
	OneGang Measure = "cycle, one waiting gang changed"
	// OneNode is a cycle like that, but for a small pod of another scheduler that has come to a node, or has gone from it.
	OneNode Measure = "cycle, one node changed"
	// Loop is what the scheduler's real loop uses of the processor when it is woken at rest by what changes no answer. It
	// must write nothing, and run no cycle.
	Loop Measure = "loop, woken by a heartbeat"
	// Unchanged and Changed are the snapshot alone: after nothing, and after a change of each hundredth node and pod.
	Unchanged Measure = "snapshot, nothing changed"
	Changed   Measure = "snapshot, 1 % of nodes and pods changed"
)

// Table groups rows.
type Table string

// The tables. All but Goals, Queued, Foreign, Levels and Claimed are curves: their rows differ in one size.
const (
	Goals    Table = "goals"
	Nodes    Table = "nodes"
	Existing Table = "existing pods"
	Pending  Table = "pending pods"
	Gangs    Table = "gangs of the same pods"
	// Evicting is a curve of nodes, all full.
	Evicting Table = "nodes full of victims"
	// Queued compares cycles with those of the same workload without queues.
	Queued Table = "queues"
	// Foreign compares cycles with those of the same workload in PodGroups of ours.
	Foreign Table = "groups of others"
	// Levels compares cycles with those of the same workload without levels in the configuration, and without gangs that name one.
	Levels Table = "topologies"
	// Claimed compares cycles with those of the same workload with devices that nodes report.
	Claimed Table = "claims"
)

// What queues, groups of others and topologies may cost: so many times as much processor time for a cycle, and so many times as
// much live heap after it.
const (
	maxQueuedTime, maxQueuedHeap   = 1.10, 1.05
	maxForeignTime, maxForeignHeap = 1.10, 1.10
	maxLevelsTime, maxLevelsHeap   = 1.10, 1.05
	// Where gangs name levels.
	maxDomainsTime = 1.20
	// Of claims for devices: where most waits, where others are evicted, and where pods are placed, for which each claim has a
	// time of its own, too.
	maxClaimsWait, maxClaimsVictims, maxClaimsPlaced, maxClaimsHeap = 1.10, 1.50, 2.00, 1.10
	timeOfClaim                                                     = 60 * time.Microsecond
)

// compares reports whether the rows of the table are compared with those of another workload.
func (t Table) compares() bool { return t == Queued || t == Foreign || t == Levels || t == Claimed }

// base is what a workload of such a table is compared with.
func (t Table) base(w Workload) Workload {
	switch t {
	case Queued:
		w.Queues = 0
	case Levels:
		w.Topology = Labelled
	case Claimed:
		w.Claims = false
	default:
		w.Roles, w.Source = w.Source.OwnsPods(), model.SourcePodGroup
	}
	return w
}

// Sources are those whose groups are compared with PodGroups of ours: one without a status that we write, one with it, and one of
// objects that own pods.
func Sources() []model.Source {
	return []model.Source{model.SourceCoscheduling, model.SourceVolcano, model.SourcePyTorchJob}
}

// Curves are the tables that are curves, in the order shown.
func Curves() []Table { return []Table{Nodes, Existing, Pending, Gangs, Evicting} }

// size is what the rows of a curve differ in.
func (t Table) size(w Workload) float64 {
	switch t {
	case Nodes, Evicting:
		return float64(w.Nodes)
	case Existing:
		return float64(w.Existing)
	case Pending:
		return float64(w.Pending)
	case Gangs:
		return float64(w.Gangs())
	}
	return 0
}

// maxSize is the largest exponent that is good enough; zero means that there is no such goal.
func (t Table) maxSize() float64 {
	switch t {
	case Existing:
		return 0.10
	case Gangs:
		return 0.15
	case Evicting:
		return 1.3
	}
	return 0
}

// Case is one row.
type Case struct {
	Table    Table
	Measure  Measure
	Workload Workload
	// Rounds is how often it is measured; the median counts.
	Rounds int
	// Goal is the most it should take; zero means that there is no goal.
	Goal time.Duration
}

// String names the case in progress and errors.
func (c Case) String() string { return fmt.Sprintf("%s: %s: %s", c.Table, c.Measure, c.Workload) }

func identical(nodes, existing, pending, gangSize int) Workload {
	return Workload{Kind: Identical, Nodes: nodes, Existing: existing, Pending: pending, GangSize: gangSize}
}

// Selection is what is measured by default, in a few minutes.
func Selection() []Case {
	constrained := func(kind Kind) Case {
		return Case{Goals, First, Workload{Kind: kind, Nodes: 5000, Pending: 1000, GangSize: 1000}, 5, time.Second}
	}
	hopeless := Workload{Kind: Hopeless, Nodes: 5000, Pending: 80_000, GangSize: 8}
	minima := Workload{Kind: Minima, Nodes: 5000, Pending: 184_750, GangSize: rareNodes + 1} // 10,000 gangs
	large := identical(20_000, 200_000, 50, 50)
	nothing := evicting(NothingToTake, 1000, 8000, 8)
	nothing.Queues = 1000
	reclaim := evicting(Reclaim, 1000, 1000, 1000)
	reclaim.Queues = 100
	cases := []Case{
		{Goals, First, identical(10_000, 0, 10_000, 10_000), 9, 250 * time.Millisecond},
		{Goals, First, Workload{Kind: Shapes, Nodes: 10_000, Pending: 100_000, GangSize: 50}, 5, 3 * time.Second},
		constrained(Zone), constrained(Host), constrained(Spread),
		{Goals, First, hopeless, 3, 0},
		{Goals, Again, hopeless, 9, 5 * time.Millisecond},
		{Goals, OneGang, hopeless, 9, 0},
		{Goals, Loop, hopeless, 1, 5 * time.Millisecond},
		{Goals, First, minima, 3, 0},
		{Goals, OneGang, minima, 9, 0},
		{Goals, First, evicting(Victims, 5000, 1000, 1000), 3, time.Second},
		{Goals, First, evicting(VictimGangs, 5000, 1000, 1000), 3, time.Second},
		{Goals, First, evicting(VictimsHost, 5000, 1000, 1000), 3, time.Second},
		{Goals, First, evicting(VictimsSpread, 5000, 1000, 1000), 3, time.Second},
		{Goals, First, evicting(VictimsZone, 5000, 1000, 1000), 3, time.Second},
		{Goals, First, evicting(Victims, 500, 4000, 1), 3, time.Second},
		{Goals, First, reclaim, 3, 500 * time.Millisecond},
		{Goals, First, nothing, 9, 0},
		{Goals, Again, nothing, 9, 5 * time.Millisecond},
		{Goals, Unchanged, large, 99, 100 * time.Microsecond},
		{Goals, Changed, large, 9, 10 * time.Millisecond},
	}
	cases = append(cases, queued()...)
	cases = append(cases, foreign()...)
	cases = append(cases, topologies()...)
	cases = append(cases, claimed()...)
	for _, nodes := range []int{1000, 5000, 10_000, 20_000} {
		cases = append(cases, Case{Table: Nodes, Measure: First, Workload: identical(nodes, 0, 10_000, 50), Rounds: 11})
	}
	for _, existing := range []int{0, 10_000, 50_000, 200_000} {
		cases = append(cases, Case{Table: Existing, Measure: First, Workload: identical(10_000, existing, 10_000, 50), Rounds: 11})
	}
	for _, pending := range []int{1000, 10_000, 100_000} {
		cases = append(cases, Case{Table: Pending, Measure: First, Workload: identical(10_000, 0, pending, 50), Rounds: 5})
	}
	for _, size := range []int{10_000, 1000, 100, 10, 1} {
		cases = append(cases, Case{Table: Gangs, Measure: First, Workload: identical(10_000, 0, 10_000, size), Rounds: 11})
	}
	for _, nodes := range []int{500, 1000, 2000, 5000} {
		cases = append(cases, Case{Table: Evicting, Measure: First, Workload: evicting(Victims, nodes, 1000, 1000), Rounds: 3})
	}
	return cases
}

// queued are the rows with queues.
func queued() (cases []Case) {
	for _, size := range []int{10, 1} {
		small := identical(10_000, 0, 10_000, size)
		small.Queues = 1000
		cases = append(cases, Case{Table: Queued, Measure: First, Rounds: 10, Workload: small})
	}
	for _, size := range []int{50, 1} {
		cases = append(cases, Case{Table: Queued, Measure: First, Rounds: 5, Workload: Workload{
			Kind: Shapes, Nodes: 10_000, Pending: 100_000, GangSize: size, Queues: 1000,
		}})
	}
	return cases
}

// claimed are the rows with devices by claims.
func claimed() []Case {
	row := func(rounds int, w Workload) Case {
		w.Claims = true
		return Case{Table: Claimed, Measure: First, Rounds: rounds, Workload: w}
	}
	return []Case{
		row(9, Workload{Kind: Singles, Nodes: 1000, Pending: 8000, GangSize: 8}),
		row(9, Workload{Kind: Singles, Nodes: 5000, Pending: 8000, GangSize: 8}),
		row(9, Workload{Kind: Singles, Nodes: 10_000, Pending: 10_000, GangSize: 10_000}),
		row(9, Workload{Kind: WholeNodes, Nodes: 10_000, Pending: 1000, GangSize: 1000, Topology: InBlock}),
		row(5, Workload{Kind: Hopeless, Nodes: 5000, Pending: 80_000, GangSize: 8}),
		row(5, evicting(Victims, 5000, 1000, 1000)),
	}
}

// mostClaimed is how much processor time a row with claims may take.
func (r Result) mostClaimed() time.Duration {
	without := r.Without.Processor.Seconds()
	switch kind := r.Case.Workload.Kind; {
	case kind.waits():
		without *= maxClaimsWait
	case kind.evicts():
		without *= maxClaimsVictims
	default:
		without *= maxClaimsPlaced
		without += float64(r.Case.Workload.Pending) * timeOfClaim.Seconds()
	}
	return time.Duration(without * float64(time.Second))
}

// foreign are the rows in groups of others.
func foreign() (cases []Case) {
	for _, source := range Sources() {
		w := Workload{Kind: Identical, Nodes: 5000, Pending: 100_000, GangSize: 10, Source: source}
		cases = append(cases, Case{Table: Foreign, Measure: First, Workload: w, Rounds: 5})
		w.Kind = Hopeless
		cases = append(cases, Case{Table: Foreign, Measure: OneGang, Workload: w, Rounds: 5})
	}
	return cases
}

// topologies are the rows with levels: 10 blocks of 50 racks of 20 nodes, and 556 cliques of 18.
func topologies() []Case {
	whole := func(pending, gangSize int, topology Topology) Workload {
		return Workload{Kind: WholeNodes, Nodes: 10_000, Pending: pending, GangSize: gangSize, Topology: topology}
	}
	hopeless := Workload{Kind: Hopeless, Nodes: 10_000, Pending: 80_000, GangSize: 8, Topology: InRacks}
	victims, single, large := evicting(Victims, 10_000, 1000, 1000), identical(10_000, 0, 10_000, 1), identical(20_000, 200_000, 10_000, 50)
	victims.Topology, single.Topology, large.Topology = InBlock, Declared, Declared
	return []Case{
		{Goals, First, whole(1000, 1000, InBlock), 9, 50 * time.Millisecond},
		{Goals, Kept, whole(1000, 1000, InBlock), 9, 10 * time.Millisecond},
		{Goals, First, whole(992, 992, InCliques), 9, 50 * time.Millisecond},
		{Goals, Kept, whole(992, 992, InCliques), 9, 10 * time.Millisecond},
		{Goals, First, whole(1000, 1000, InRoles), 9, 100 * time.Millisecond},
		{Goals, First, whole(10_000, 20, InRacks), 5, 300 * time.Millisecond},
		{Goals, Again, hopeless, 9, 5 * time.Millisecond},
		{Goals, OneNode, hopeless, 9, 100 * time.Millisecond},
		{Goals, First, victims, 3, 500 * time.Millisecond},
		{Table: Levels, Measure: First, Workload: hopeless, Rounds: 5},
		{Table: Levels, Measure: First, Workload: single, Rounds: 9},
		{Table: Levels, Measure: First, Workload: large, Rounds: 5},
	}
}

// evicting is a cluster whose GPUs all have a pod, eight on each node.
func evicting(kind Kind, nodes, pending, gangSize int) Workload {
	return Workload{Kind: kind, Nodes: nodes, Existing: 8 * nodes, Pending: pending, GangSize: gangSize}
}

// Full is the selection, and every size of nodes, existing and pending pods with every kind.
func Full() []Case {
	cases := Selection()
	for _, kind := range Kinds() {
		for _, nodes := range []int{1000, 5000, 10_000, 20_000} {
			for _, existing := range []int{0, 50_000, 200_000} {
				for _, pending := range []int{1000, 10_000, 100_000} {
					w := Workload{Kind: kind, Nodes: nodes, Existing: existing, Pending: pending, GangSize: 50}
					if w.fits() {
						cases = append(cases, Case{Table: matrix, Measure: First, Workload: w, Rounds: 3})
					}
				}
			}
		}
	}
	return cases
}

// matrix is the table of all sizes with all kinds.
const matrix Table = "matrix"

// fits reports whether the nodes have capacity for all pods, and whether any reader would want to know.
func (w Workload) fits() bool {
	switch w.Kind {
	case Shapes:
		return w.Existing <= 200*w.Nodes && w.Pending <= 20*w.Nodes
	case Identical, Hopeless, Minima:
		return w.Existing+w.Pending <= 300*w.Nodes
	case Victims, VictimGangs, VictimsHost, VictimsSpread, VictimsZone, Reclaim, NothingToTake:
		return w.Existing == 8*w.Nodes && w.Pending <= 8*w.Nodes
	case Singles:
		return w.Existing <= 300*w.Nodes && w.Pending <= 8*w.Nodes
	case WholeNodes:
		return w.Existing <= 300*w.Nodes && w.Pending <= w.Nodes
	case Zone, Host, Spread:
		return w.Existing+w.Pending <= 300*w.Nodes && w.Pending <= 10_000
	}
	return false
}

// Only keeps the cases of some kinds; no kind keeps all.
func Only(cases []Case, kinds []Kind) []Case {
	if len(kinds) == 0 {
		return cases
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !slices.Contains(kinds, c.Workload.Kind) })
}

// One is a first cycle of each kind, all of them when none is named, with these sizes; and of those of which most wait also the
// cycle after it. A gang size of zero makes one gang of all. With queues it is compared with the same without; with a source of
// groups, with PodGroups of ours; with levels that are declared alone, with the same that are not.
func One(kinds []Kind, workload Workload, rounds int) []Case {
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	if workload.GangSize == 0 {
		workload.GangSize = workload.Pending
	}
	var cases []Case
	for _, kind := range kinds {
		workload := workload
		workload.Kind = kind
		if kind.full() {
			workload.Existing = 8 * workload.Nodes
		}
		table := Goals
		switch {
		case workload.Source != model.SourcePodGroup:
			table = Foreign
		case workload.Topology == Declared:
			table = Levels
		case workload.Claims:
			table = Claimed
		case workload.Queues == 0:
			workload.Queues = kind.queues()
		case kind.queues() == 0:
			table = Queued
		}
		cases = append(cases, Case{Table: table, Measure: First, Workload: workload, Rounds: rounds})
		if kind.waits() && table == Foreign {
			cases = append(cases, Case{Table: table, Measure: OneGang, Workload: workload, Rounds: rounds})
			continue
		}
		if kind.waits() {
			cases = append(cases, Case{Table: Goals, Measure: Again, Workload: workload, Rounds: rounds},
				Case{Table: Goals, Measure: OneGang, Workload: workload, Rounds: rounds},
				Case{Table: Goals, Measure: OneNode, Workload: workload, Rounds: rounds})
		}
		if kind.waits() && workload.Queues == 0 { // the loop would write the status of queues, which the server does not have
			cases = append(cases, Case{Table: Goals, Measure: Loop, Workload: workload, Rounds: 1})
		}
	}
	return cases
}
