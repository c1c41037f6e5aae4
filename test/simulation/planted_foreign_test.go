package simulation

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// misreads changes what the scheduler reads of objects of other projects; true hides it.
func misreads(alter func(spec *sources.Spec, gone bool) bool) FaultInjection {
	return hide(func(event *cluster.ForeignSeen) bool {
		spec := *event.Spec
		event.Spec = &spec
		return alter(&spec, event.Gone)
	})
}

// lowestMinima lets the scheduler miss that a minimum is raised.
func lowestMinima() FaultInjection {
	lowest := map[string]int32{}
	return misreads(func(spec *sources.Spec, gone bool) bool {
		if !gone {
			if before, known := lowest[string(spec.UID)]; known && len(spec.Roles) == 0 {
				spec.MinMember = min(spec.MinMember, before)
			}
			lowest[string(spec.UID)] = spec.MinMember
		}
		return false
	})
}

// undoesWhole undoes a gang of another project that has had its minimum for a while, and of which no container runs.
func undoesWhole(p *process) {
	undoes(p, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodPending })
}

// undoesWhatRuns undoes what is made first of a JobSet when what is made later has begun and does not run.
func undoesWhatRuns(p *process) {
	undoes(p, func(pod *corev1.Pod) bool {
		begins := func(other *corev1.Pod) bool {
			return jobKeyOf(other) == jobKeyOf(pod) && stepOf(other) == secondStep && nodeOf(other) != "" && other.Status.Phase == corev1.PodPending
		}
		return stepOf(pod) == firstStep && slices.ContainsFunc(p.pods(), begins)
	})
}

// undoes undoes such a pod of what is made first of a gang that has had its minimum for a while.
func undoes(p *process, such func(*corev1.Pod) bool) {
	for _, pod := range p.pods() {
		job := jobKeyOf(pod)
		whole := p.gangs[partKey{job: job}].whole
		if job.IsForeign() && !whole.IsZero() && p.queue.now.Sub(whole) > 5*time.Second && nodeOf(pod) != "" && such(pod) {
			victim := []model.Eviction{{Pod: refOf(pod), Job: job, Node: pod.Spec.NodeName, Method: model.ByDeletion}}
			p.machine.Undo(p.clock.Now(), job, victim)
			p.state.Assume(model.Decision{Job: job, Evictions: victim})
			return
		}
	}
}

// setsBack writes a phase for which operators make no pods.
func setsBack(p *process) {
	for _, job := range p.server.foreignGroups() {
		if p.calm && job.Source == model.SourceVolcano {
			watch := sources.WatchOf(job.Source)
			group := p.server.groupOf(job)
			p.machine.Write(p.clock.Now(), &commit.ForeignStatus{
				Resource: watch.Resource, Group: job, UID: group.UID, HasStatus: true, Phase: sources.VolcanoPending,
			})
		}
	}
}

// hidingPlan is jobs for more capacity than there is, whose kinds can no longer be read when there is more.
func hidingPlan() (plan []Step) {
	d := newRandom(1, "hiding plan")
	for i := range 60 {
		step := Step{At: time.Duration(i) * time.Second, What: "submit a job", Random: d.Uint64()}
		if i >= 30 {
			step.What = pick(d, "a kind cannot be read", "a kind cannot be read", "add a node")
		}
		plan = append(plan, step)
	}
	for i := range 10 {
		plan = append(plan, Step{At: time.Duration(120+i) * time.Second, What: "add a node", Random: d.Uint64()})
	}
	return plan
}

// plantedForeignBugs are those about groups of other projects.
func plantedForeignBugs() []planted {
	ofOthers := refuseOneOf("g")
	return []planted{
		{"a minimum that is raised is missed", "I1", Config{Sabotage: lowestMinima()}},
		{"it is missed that a kind can no longer be read", "I1", Config{Plan: hidingPlan(), Sabotage: hide(func(event *cluster.ReadingChanged) bool {
			return event.Reading != cluster.IsRead
		})}},
		{"a member is never let in, nor what is bound undone", "I2", Config{Faults: &Faults{}, Sabotage: FaultInjection{
			Refuse: func(call commit.Call) error {
				if !call.Job.MarkedByOthers() {
					return nil
				}
				return ofOthers.Refuse(call)
			},
		}}},
		{"a gang that is whole is taken for an interrupted start", "I2", Config{Sabotage: FaultInjection{Rogue: undoesWhole}}},
		{"no phase is written of what is not seen", "I7", Config{Faults: &Faults{}, Sabotage: misreads(func(spec *sources.Spec, _ bool) bool {
			return spec.Source == model.SourceVolcano
		})}},
		{"a phase goes back", "I7", Config{Sabotage: FaultInjection{Rogue: setsBack}}},
		{"the objects of a kind are never read", "I16", Config{Faults: &Faults{}, Sabotage: misreads(func(spec *sources.Spec, _ bool) bool {
			return spec.Source == model.SourceCoscheduling
		})}},
		{"the end of an object is missed", "I1", Config{Sabotage: misreads(func(_ *sources.Spec, gone bool) bool { return gone })}},
		{"the marks of a project are not read", "I26", Config{Sabotage: misreadPods(func(pod *corev1.Pod) {
			delete(pod.Labels, coschedulingMark)
		})}},
		{"of a role of an object none is needed", "I1", Config{Plan: calmPlanOf(1, 50), Sabotage: misreads(func(spec *sources.Spec, _ bool) bool {
			if !spec.HasLate() {
				spec.Roles = nil
			}
			return false
		})}},
		{"a role counts before its first member is made", "I18", Config{Faults: &Faults{}, Sabotage: misreads(func(spec *sources.Spec, _ bool) bool {
			spec.Roles = slices.Clone(spec.Roles)
			for i := range spec.Roles {
				spec.Roles[i].MadeLater = false
			}
			return false
		})}},
		{"what runs is undone with what is made later", "I2", Config{Sabotage: FaultInjection{Rogue: undoesWhatRuns}}},
	}
}

func TestPlantedBugsAboutForeignGroupsAreCaught(t *testing.T) {
	catchPlanted(t, plantedForeignBugs, func(c *Config) { c.Foreign = true })
}

// TestRestBeginsWhenAllFaultsHaveEnded, however long nothing has changed by then: a kind of another project that cannot be
// read is asked for within a minute.
func TestRestBeginsWhenAllFaultsHaveEnded(t *testing.T) {
	c := Config{Seed: 1, Plan: []Step{{At: 3 * time.Minute, What: "open gates"}}, Faults: &Faults{}, Replicas: 1, Foreign: true}
	s := newSimulation(open(t), c)
	s.queue.after(time.Second, "a gang whose kind is not served", func() {
		s.server.unread[kindOf(model.SourceCoscheduling)] = cluster.NotServed
		s.world.submit(s.world.random, &job{
			namespace: firstNamespace, name: "gang", gang: true, source: model.SourceCoscheduling, members: 1, min: 2, requests: amounts(1, 0),
		})
		s.server.remove(kindOf(model.SourceCoscheduling), key(firstNamespace, "gang"))
	})
	s.play()
	for _, v := range s.result.Violations {
		t.Error(v)
	}
}
