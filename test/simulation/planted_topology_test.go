package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// misreadGroups lets the scheduler read something else in the PodGroups than what they say.
func misreadGroups(alter func(*v1alpha1.PodGroupSpec)) FaultInjection {
	return hide(func(event *cluster.GroupSeen) bool {
		event.Group = event.Group.DeepCopy()
		alter(&event.Group.Spec)
		return false
	})
}

// misreadEntries lets the scheduler read something else in the PodGroups than what they say of domains.
func misreadEntries(alter func([]v1alpha1.TopologyConstraint) []v1alpha1.TopologyConstraint) FaultInjection {
	return misreadGroups(func(spec *v1alpha1.PodGroupSpec) { spec.Topology = alter(spec.Topology) })
}

// misreadEach does so with each entry.
func misreadEach(alter func(*v1alpha1.TopologyConstraint)) FaultInjection {
	return misreadEntries(func(entries []v1alpha1.TopologyConstraint) []v1alpha1.TopologyConstraint {
		for i := range entries {
			alter(&entries[i])
		}
		return entries
	})
}

// omitted lets it read no such entry.
func omitted(such func(*v1alpha1.TopologyConstraint) bool) FaultInjection {
	return misreadEntries(func(entries []v1alpha1.TopologyConstraint) []v1alpha1.TopologyConstraint {
		return slices.DeleteFunc(entries, func(entry v1alpha1.TopologyConstraint) bool { return such(&entry) })
	})
}

// misreadPods lets the scheduler read something else on the pods.
func misreadPods(alter func(*corev1.Pod)) FaultInjection {
	return hide(func(event *cluster.PodSeen) bool {
		event.Pod = event.Pod.DeepCopy()
		alter(event.Pod)
		return false
	})
}

// plantedTopologyBugs are bugs about levels that a scheduler may have, each with the invariant that it breaks.
func plantedTopologyBugs() []planted {
	return []planted{
		{"what groups say of domains is not read", "T1", Config{Seed: 6, Sabotage: omitted(func(*v1alpha1.TopologyConstraint) bool { return true })}},
		{"a rack is read as its block", "T1", Config{Seed: 3, Sabotage: misreadEach(func(entry *v1alpha1.TopologyConstraint) {
			entry.Level = strings.ReplaceAll(entry.Level, levelRack, levelBlock)
		})}},
		{"what must be is read as a preference", "T1", Config{Seed: 8, Sabotage: misreadEach(func(entry *v1alpha1.TopologyConstraint) {
			entry.Mode, entry.SliceSize = v1alpha1.TopologyPreferred, 0
		})}},
		{"entries for roles are not read", "T1", Config{Seed: 29, Sabotage: omitted(func(entry *v1alpha1.TopologyConstraint) bool { return len(entry.Roles) > 0 })}},
		{"slices are read as smaller ones", "T1", Config{Seed: 46, Sabotage: misreadEach(func(entry *v1alpha1.TopologyConstraint) {
			entry.SliceSize = min(entry.SliceSize, 2)
		})}},
		{"racks of one name in two blocks are one rack", "T1", Config{Seed: 3, Scheduler: []byte(string(config.DefaultYAML()) +
			strings.Replace(topologies, "}, {name: rack", "}]\n- name: racks\n  levels: [{name: rack", 1))}},
		{"it is not read in which domain a member was bound", "I22", Config{Seed: 1, Sabotage: misreadPods(func(pod *corev1.Pod) {
			delete(pod.Annotations, v1alpha1.AnnotationDomain)
		})}},
		{"capacity is nominated in two domains", "T1", Config{Seed: 3, Sabotage: nominatesApart()}},
		{"capacity is reserved in two domains", "T1", Config{Seed: 3, Sabotage: reservesApart()}},
		{"pods are evicted in another domain", "T2", Config{Seed: 3, Sabotage: evictsElsewhere()}},
		{"members start in another order than that of their indexes", "T5", Config{Seed: 3, Sabotage: startsOutOfOrder()}},
		{"pods are evicted for a preference", "T7", Config{Sabotage: evictsForAPreference()}},
		{"a preference is read as what must be", "I18", Config{Sabotage: misreadEach(func(entry *v1alpha1.TopologyConstraint) {
			entry.Mode, entry.WaitSeconds = v1alpha1.TopologyRequired, 0
		})}},
		{"a domain that is preferred is waited for without end", "I18", Config{Sabotage: misreadEach(func(entry *v1alpha1.TopologyConstraint) {
			if entry.Mode == v1alpha1.TopologyPreferred {
				entry.WaitSeconds = 1_000_000
			}
		})}},
		{"that labels come back is missed", "I18", Config{Seed: 22, Sabotage: missesReturns()}},
		{"a level that is not known is left out", "T8", Config{Sabotage: omitted(func(entry *v1alpha1.TopologyConstraint) bool {
			return entry.Level == unknownLevel
		})}},
		{"the domain is not written with a bind", "T11", Config{Sabotage: FaultInjection{Refuse: func(call commit.Call) error {
			delete(call.Place, v1alpha1.AnnotationDomain)
			return nil
		}}}},
		{"the index that was written with a bind is not read", "I22", Config{Seed: 2, Sabotage: misreadPods(func(pod *corev1.Pod) {
			delete(pod.Annotations, v1alpha1.LabelIndex)
		})}},
	}
}

// unlabelled shows nodes without the labels of levels.
func unlabelled(names ...string) FaultInjection {
	return hide(func(event *cluster.NodeSeen) bool {
		if slices.Contains(names, event.Node.Name) {
			event.Node = event.Node.DeepCopy()
			for _, label := range []string{blockLabel, rackLabel, cliqueLabel} {
				delete(event.Node.Labels, label)
			}
		}
		return false
	})
}

// missesReturns hides all changes of nodes that have been seen without the label of a rack.
func missesReturns() FaultInjection {
	seen := map[string]bool{}
	return hide(func(event *cluster.NodeSeen) bool {
		without := event.Node.Labels[rackLabel] == "" && !event.Gone
		hides := seen[event.Node.Name] && !without
		seen[event.Node.Name] = without || hides
		return hides
	})
}

// apart returns a group all of whose members must share a rack, two of them that wait, none that has a node, and two nodes in
// two racks.
func apart(p *process) (members []*corev1.Pod, nodes [2]*corev1.Node) {
	told := p.asTold()
	for _, one := range told.Nodes {
		for _, other := range told.Nodes {
			if a, b := domainOf(one, levelRack), domainOf(other, levelRack); a != "" && b != "" && a != b {
				nodes = [2]*corev1.Node{one, other}
			}
		}
	}
	if nodes[0] == nil {
		return nil, nodes
	}
	for _, job := range p.snapshot.Jobs {
		t, _ := told.togetherOf(job.Key)
		if job.Invalid != nil || len(t.required) != 1 || t.size > 0 || t.required[0].Level != levelRack {
			continue
		}
		members = waitingOf(p, job.Key)
		if only, _ := told.standsIn(job.Key, &t); len(members) > 1 && only == "" {
			return members, nodes
		}
	}
	return nil, nodes
}

// nominatesApart nominates the members of a gang that must share a rack to nodes of two.
func nominatesApart() FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		members, nodes := apart(p)
		for i, pod := range members {
			decision.Job = jobKeyOf(pod)
			decision.Nominations = append(decision.Nominations, model.Nomination{Pod: refOf(pod), Node: nodes[i%2].Name})
		}
		return decision, len(members) > 0
	})
}

// reservesApart reserves capacity in two racks for such a gang.
func reservesApart() FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		members, nodes := apart(p)
		if len(members) == 0 {
			return decision, false
		}
		decision.Job, decision.Reservation = jobKeyOf(members[0]), &model.Reservation{Since: p.clock.Now()}
		for _, node := range nodes {
			decision.Reservation.Nodes = append(decision.Reservation.Nodes, model.ReservedNode{Node: node.Name, Members: 1})
		}
		return decision, true
	})
}

// evictsElsewhere evicts a pod in one rack for a gang that starts in another.
func evictsElsewhere() FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		members, nodes := apart(p)
		for _, victim := range p.pods() {
			if len(members) == 0 || !ours(victim) || victim.Status.Phase != corev1.PodRunning || victim.Spec.NodeName != nodes[0].Name {
				continue
			}
			return nominated(evict(victim, members[0]), members, nodes[1].Name), true
		}
		return decision, false
	})
}

// evictsForAPreference evicts a pod for a gang that only prefers a domain, and has capacity outside.
func evictsForAPreference() FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		told := p.asTold()
		if len(p.snapshot.Held()) > 0 || p.snapshot.HasBackoff() {
			return decision, false
		}
		for _, job := range p.snapshot.Jobs {
			t, judged := told.togetherOf(job.Key)
			members := waitingOf(p, job.Key)
			if !judged || !t.prefers || len(members) == 0 {
				continue
			}
			victim, _ := pair(p, func(a, _ *corev1.Pod) bool { return jobKeyOf(a) != job.Key })
			if room, _ := told.roomFor(members[0], len(members)); room >= len(members) && victim != nil {
				return nominated(evict(victim, members[0]), members, victim.Spec.NodeName), true
			}
		}
		return decision, false
	})
}

// waitingOf returns the members of a job that wait.
func waitingOf(p *process, job model.JobKey) (members []*corev1.Pod) {
	for _, pod := range p.pods() {
		if jobKeyOf(pod) == job && waits(pod) && p.place(pod) == "" && p.task(pod) != nil {
			members = append(members, pod)
		}
	}
	return members
}

// nominated is the decision with nominations of all of these to a node.
func nominated(decision model.Decision, members []*corev1.Pod, node string) model.Decision {
	decision.Nominations = nil
	for _, pod := range members {
		decision.Nominations = append(decision.Nominations, model.Nomination{Pod: refOf(pod), Node: node})
	}
	return decision
}

// startsOutOfOrder binds the members of a gang that names a rack or a block to two nodes in turn.
func startsOutOfOrder() FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		told := p.asTold()
		for _, job := range p.snapshot.Jobs {
			topology := sharedBy(job.Key, told.Pods, told.Group)
			if len(told.Nodes) < 2 || len(topology) != 1 || topology[0].SliceSize > 0 || topology[0].Level != levelRack || len(job.Roles) > 0 {
				continue
			}
			decision = model.Decision{Job: job.Key}
			for _, pod := range waitingOf(p, job.Key) {
				decision.Binds = append(decision.Binds, model.Bind{Pod: refOf(pod), Node: told.Nodes[len(decision.Binds)%2].Name})
			}
			if decision.MinBinds = len(decision.Binds); len(decision.Binds) > 2 && len(decision.Binds) == len(job.Tasks) {
				return decision, true
			}
		}
		return decision, false
	})
}

// twoRacks has two racks of two nodes with 3 CPUs each, and a gang that must share one of them.
func twoRacks(t *testing.T, filters *Filters, sabotage FaultInjection, members, cpu int) *Simulation {
	t.Helper()
	c := Config{Seed: 1, Plan: []Step{}, Faults: &Faults{}, Replicas: 1, Queues: true, Topology: true, Punctual: true}
	c.Scheduler, c.Sabotage = []byte(string(config.DefaultYAML())+topologies), sabotage
	s := newSimulation(filters, c)
	if _, err := filters.build(s.text); err != nil {
		t.Fatal(err)
	}
	s.queue.after(0, "two racks and a gang in one", func() {
		borrowing{}.found(s.world, 4)
		for i := range 4 {
			s.world.changeNode(fmt.Sprint("n", i), func(node *corev1.Node) { setRack(node, i) })
		}
		s.world.submit(s.world.random, &job{
			namespace: firstNamespace, name: "gang", gang: true, members: members, min: members, requests: amounts(cpu, 0), recreate: true,
			topology: []v1alpha1.TopologyConstraint{{Level: levelRack}},
		})
	})
	return s
}

// setRack gives the first two of four nodes one rack, and the others another one, whose name begins with that of the first.
func setRack(node *corev1.Node, i int) {
	node.Labels = map[string]string{blockLabel: "b1", rackLabel: []string{"r1", "r1", "r10", "r10"}[i]}
}

// TestCapacityThatIsNotCountedIsSeen is T4: the message of a gang for which no rack has capacity says for how many the best one
// has capacity, and a scheduler that reads no labels of a node is found to count fewer.
func TestCapacityThatIsNotCountedIsSeen(t *testing.T) {
	filters := open(t)
	for want, sabotage := range map[string]FaultInjection{"": {}, "T4": unlabelled("n0", "n2")} {
		s := twoRacks(t, filters, sabotage, 7, 1)
		s.play()
		got := ""
		for _, v := range s.result.Violations {
			got += v.Invariant
		}
		if got != want {
			t.Errorf("violated: %v, want %q", s.result.Violations, want)
		}
	}
}

// TestAReplacementWaitsForLabelsThatAreGone: of a gang in one rack a member is lost while no node of the rack has its labels.
// The replacement goes there when they are back, and not to another rack in the meantime, as it would if it was not read where
// members were bound.
func TestAReplacementWaitsForLabelsThatAreGone(t *testing.T) {
	filters := open(t)
	play := func(sabotage FaultInjection) *Simulation {
		s := twoRacks(t, filters, sabotage, 2, 2)
		s.queue.after(20*time.Second, "labels go, and a member", func() {
			lost := s.server.pods()[0]
			rack := domainOf(s.server.node(lost.Spec.NodeName), levelRack)
			for _, name := range s.server.names(kindNode) {
				if domainOf(s.server.node(name), levelRack) == rack {
					s.world.changeNode(name, func(node *corev1.Node) { node.Labels = nil })
				}
			}
			s.server.deletePod(keyOf(lost), 0)
		})
		s.queue.after(50*time.Second, "labels come back", func() {
			for i := range 4 {
				s.world.changeNode(fmt.Sprint("n", i), func(node *corev1.Node) { setRack(node, i) })
			}
		})
		s.play()
		return s
	}
	s := play(FaultInjection{})
	in := map[string]int{}
	for _, pod := range s.server.pods() {
		in[domainOf(s.server.node(pod.Spec.NodeName), levelRack)]++
	}
	if len(in) != 1 || len(s.server.pods()) != 2 || len(s.result.Violations) > 0 {
		t.Errorf("the members are in %v; violations: %v", in, s.result.Violations)
	}
	s = play(misreadPods(func(pod *corev1.Pod) { delete(pod.Annotations, v1alpha1.AnnotationDomain) }))
	if len(s.result.Violations) == 0 || s.result.Violations[0].Invariant != "T1" {
		t.Errorf("that it is not read where members were bound is not seen: %v", s.result.Violations)
	}
}

func TestPlantedBugsAboutTopologiesAreCaught(t *testing.T) {
	catchPlanted(t, plantedTopologyBugs, func(c *Config) { c.Topology = true })
}

// TestLevelsThatAreOnlyDeclaredChangeNothing is T10: where no group names a level, all is byte for byte as without levels; but
// not where the plugin is configured that keeps domains whole.
func TestLevelsThatAreOnlyDeclaredChangeNothing(t *testing.T) {
	filters := open(t)
	declared := strings.ReplaceAll(topologies, rackLabel, "rack")
	differs := false
	for seed := uint64(200); seed < 202; seed++ {
		text := string(newSimulation(filters, Config{Seed: seed}).text)
		hash := func(text string) uint64 { return run(t, filters, Config{Seed: seed, Scheduler: []byte(text)}).Hash }
		want := hash(text)
		if got := hash(text + declared); got != want {
			t.Errorf("seed %d: something else happens where levels are declared", seed)
		}
		scored := strings.Replace(text, "  - name: nodeorder\n", "  - name: topology\n", 1)
		differs = differs || hash(scored+declared) != want
	}
	if !differs {
		t.Error("a score by levels makes no difference, so that none would be seen")
	}
}
