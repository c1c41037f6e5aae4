package inprocess

import (
	"fmt"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind is what the pods that wait are like.
type Kind string

// The kinds. What waits in all of them has capacity, but for the hopeless and those who need victims.
const (
	// Identical pods.
	Identical Kind = "identical"
	// Shapes are 150 different requests; the next pod has the same as the one before in runs of 1.35, as in a real trace.
	Shapes Kind = "shapes"
	// Zone gangs must have all their members in one zone.
	Zone Kind = "zone"
	// Host gangs must have no two members on one node.
	Host Kind = "host"
	// Spread gangs must have their members spread evenly over the zones.
	Spread Kind = "spread"
	// Hopeless gangs, of 100 shapes, have capacity for some of their members only. They are older than 500 gangs that start.
	Hopeless Kind = "hopeless"
	// Minima are hopeless gangs of one shape and 500 different minima.
	Minima Kind = "minima"
	// Victims: every GPU has a plain pod of a low priority; what waits has a high one and asks for one GPU each.
	Victims Kind = "victims"
	// VictimGangs are the same, but that those who run are gangs, of which none may be left with a part.
	VictimGangs Kind = "victim gangs"
	// VictimsHost, VictimsSpread and VictimsZone are victims for gangs with the constraints of Host, Spread and Zone.
	VictimsHost   Kind = "victims host"
	VictimsSpread Kind = "victims spread"
	VictimsZone   Kind = "victims zone"
	// Reclaim: every GPU has a pod of a gang of four, one after the other in another queue; what waits is within the guarantee of one
	// queue more.
	Reclaim Kind = "reclaim"
	// Singles are pods that have one GPU each.
	Singles Kind = "one GPU each"
	// WholeNodes are pods that have all GPUs of a node each, or half of them where the topology says so.
	WholeNodes Kind = "whole nodes"
	// NothingToTake: the same, but what waits are gangs in those queues, of which each has its share already.
	NothingToTake Kind = "nothing to take"
)

// Kinds are all of them, in the order of their tables.
func Kinds() []Kind {
	return []Kind{
		Identical, Shapes, Zone, Host, Spread, Hopeless, Minima, Victims, VictimGangs, VictimsHost, VictimsSpread, VictimsZone,
		Reclaim, NothingToTake, Singles, WholeNodes,
	}
}

// full reports whether every GPU has a pod, and all that wait ask for one.
func (k Kind) full() bool {
	switch k {
	case Victims, VictimGangs, VictimsHost, VictimsSpread, VictimsZone, Reclaim, NothingToTake:
		return true
	case Identical, Shapes, Zone, Host, Spread, Hopeless, Minima, Singles, WholeNodes:
	}
	return false
}

// evicts reports whether others must end for those who wait.
func (k Kind) evicts() bool { return k.full() && k != NothingToTake }

// waits reports whether most of what waits has no capacity.
func (k Kind) waits() bool { return k == Hopeless || k == Minima || k == NothingToTake }

// queues is how many queues a kind has where no number is given: none but for those that are about queues.
func (k Kind) queues() int {
	if k == Reclaim || k == NothingToTake {
		return 100
	}
	return 0
}

// runs is how many members the gangs have that run on full nodes.
func (k Kind) runs() int {
	switch k {
	case VictimGangs:
		return runningGang
	case Reclaim, NothingToTake:
		return smallGang
	case Victims, VictimsHost, VictimsSpread, VictimsZone, Identical, Shapes, Zone, Host, Spread, Hopeless, Minima, Singles, WholeNodes:
	}
	return 1
}

// What the clusters are made of. Capacity is no matter but where a workload says so.
const (
	zones       = 10
	manyShapes  = 150
	runLength   = 1.35
	runningGang = 50
	smallGang   = 4
	namespace   = "bench"
	// Of the gangs that wait behind hopeless ones.
	startable, startableSize = 500, 8
	hopelessShapes           = 100
	// Of hopeless gangs with different minima, one in so many has another one than most.
	differentMinima, everyOther = 500, 20
	gpu                         = "nvidia.com/gpu"
	// urgent is the priority of those for whom others are evicted.
	urgent = 1000
	// Of the nodes, these few offer one piece each of what the hopeless ask for.
	rareNodes = 5
	rare      = "example.com/rare"
)

// epoch is when everything was created, later things some seconds later.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Workload is a cluster and what waits in it. The same workload is the same objects, byte for byte.
type Workload struct {
	Kind Kind
	// Nodes, Existing and Pending are how many nodes, pods on them and pods that wait there are. Of the pods on nodes half
	// are members of gangs of ours, half another scheduler's.
	Nodes, Existing, Pending int
	// GangSize is how many members each gang that waits has, and needs.
	GangSize int
	// Queues is how many queues share the cluster, in a tree: six at the top, and six under each while there are any. The gangs are
	// in its leaves in turn. Those of Reclaim and NothingToTake have no parents.
	Queues int
	// Source is whose groups the gangs that wait are; zero means PodGroups of ours.
	Source model.Source
	// Roles gives these PodGroups the roles of a PyTorchJob, one master and workers.
	Roles bool
	// Claims says that devices are in ResourceSlices, and that pods ask for them by claims; else nodes report them, as with a device
	// plugin.
	Claims bool
	// Topology is what the cluster is labelled with, and what the gangs that wait say about it, but for those that start behind
	// hopeless ones.
	Topology Topology
}

// String is the workload as a row of a table names it.
func (w Workload) String() string {
	return fmt.Sprintf("%s, %d nodes, %d existing, %d pending in gangs of %d%s%s%s%s",
		w.Kind, w.Nodes, w.Existing, w.Pending, w.GangSize, w.inQueues(), w.ofSource(), w.byClaims(), w.inDomains())
}

// byClaims says so.
func (w Workload) byClaims() string {
	if w.Claims {
		return ", by claims"
	}
	return ""
}

// ofSource names the source of the groups, if they are not ours.
func (w Workload) ofSource() string {
	if w.Source == model.SourcePodGroup {
		return ""
	}
	return ", " + w.Source.Kind()
}

// inQueues names the queues, if there are any.
func (w Workload) inQueues() string {
	if w.Queues == 0 {
		return ""
	}
	return fmt.Sprintf(", %d queues", w.Queues)
}

// inDomains names the topology, if there is any.
func (w Workload) inDomains() string {
	if w.Topology == Unlabelled {
		return ""
	}
	return ", topology: " + string(w.Topology)
}

// Gangs is how many gangs wait, the last of them maybe smaller than the others.
func (w Workload) Gangs() int { return (w.Pending + w.GangSize - 1) / w.GangSize }

// Starts is how many of the pods that wait have capacity, or are given that of others.
func (w Workload) Starts() int {
	switch w.Kind {
	case Hopeless, Minima:
		return startable * startableSize
	case NothingToTake:
		return 0
	case Identical, Shapes, Zone, Host, Spread, Victims, VictimGangs, VictimsHost, VictimsSpread, VictimsZone, Reclaim, Singles, WholeNodes:
	}
	return w.Pending
}
