package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// misread lets the scheduler read something else in the Queues than what they say.
func misread(alter func(*v1alpha1.QueueSpec)) FaultInjection {
	return hide(func(event *cluster.QueueSeen) bool {
		event.Queue = event.Queue.DeepCopy()
		alter(&event.Queue.Spec)
		return false
	})
}

// crossing evicts a pod of one queue for a job of another one, if the condition holds, and says by which right; or, where
// crosses is false, one of the same queue.
func crossing(crosses bool, right model.Right) FaultInjection {
	return rogue(func(p *process) (model.Decision, bool) {
		told := p.asTold()
		victim, holder := pair(p, func(a, b *corev1.Pod) bool {
			return len(told.Queues) > 0 && *a.Spec.Priority < *b.Spec.Priority && jobKeyOf(a) != jobKeyOf(b) &&
				(told.QueueOf(jobKeyOf(a)) != told.QueueOf(jobKeyOf(b))) == crosses
		})
		if victim == nil {
			return model.Decision{}, false
		}
		decision := evict(victim, holder)
		decision.Evictions[0].Right = right
		return decision, true
	})
}

// claiming evicts a pod of one queue for a job of another one by a right of which just that is wrong.
func claiming(right model.Right, wrong string) FaultInjection {
	return rogue(func(p *process) (decision model.Decision, found bool) {
		told := p.asTold()
		victim, _ := pair(p, func(a, b *corev1.Pod) bool {
			if told.Refuses(jobKeyOf(b)) != "" || !jobKeyOf(a).IsPod() || !jobKeyOf(b).IsPod() || told.QueueOf(jobKeyOf(a)) == told.QueueOf(jobKeyOf(b)) {
				return false
			}
			decision = evict(a, b)
			decision.Evictions[0].Right = right
			e := p.takes(decision)
			if e == nil {
				return false
			}
			e.setDemand()
			err := e.Check()
			return err != nil && strings.HasSuffix(err.Error(), wrong)
		})
		return decision, victim != nil
	})
}

// plantedQueueBugs are bugs about Queues that a scheduler may have, each with the invariant that it breaks.
func plantedQueueBugs() []planted {
	return []planted{
		{"limits are not read", "Q5", Config{Sabotage: misread(func(spec *v1alpha1.QueueSpec) { spec.Limit = nil })}},
		{"a limit is that of each queue alone", "Q5", Config{Sabotage: misread(func(spec *v1alpha1.QueueSpec) { spec.Parent = "" })}},
		{"a bind is made of which no decision tells", "Q5", Config{Sabotage: FaultInjection{Rogue: bindsAboveALimit()}}},
		{"a pause is not read", "Q14", Config{Sabotage: misread(func(spec *v1alpha1.QueueSpec) { spec.Paused = false })}},
		{"a queue whose parent is missing is one without", "Q14", Config{Seed: 36, Sabotage: misread(func(spec *v1alpha1.QueueSpec) {
			if spec.Parent == nowhere {
				spec.Parent = ""
			}
		})}},
		{"queues are opened to all namespaces", "Q14", Config{Sabotage: misread(func(spec *v1alpha1.QueueSpec) {
			spec.NamespaceSelector = &metav1.LabelSelector{}
		})}},
		{"a pod of a queue in error is evicted for another one", "Q14", Config{Sabotage: evictPair(func(p *process, a, b *corev1.Pod) bool {
			told := p.asTold()
			_, wrong, _ := told.Queues.Path(told.QueueOf(jobKeyOf(a)))
			return wrong && told.Refuses(jobKeyOf(b)) == "" && *a.Spec.Priority < *b.Spec.Priority
		})}},
		{"a job evicts pods of another queue by its priority", "Q15", Config{Sabotage: crossing(true, "")}},
		{"a right is claimed in one queue", "Q15", Config{Sabotage: crossing(false, model.ByShare)}},
		{"guarantees are not read", "Q8", Config{Seed: 2, Sabotage: misread(func(spec *v1alpha1.QueueSpec) { spec.Guarantee = nil })}},
		{"a guarantee is more than its queue says", "Q8", Config{Seed: 3, Sabotage: misread(func(spec *v1alpha1.QueueSpec) {
			if len(spec.Guarantee) > 0 {
				spec.Guarantee = amounts(8, 4)
			}
		})}},
		{"weights are not read", "Q8", Config{Seed: 24, Sabotage: misread(func(spec *v1alpha1.QueueSpec) { spec.Weight = nil })}},
		{"a share leaves the giver below the taker", "Q8", Config{Seed: 3, Sabotage: claiming(model.ByShare, "the taker ends above the giver")}},
		{"a share takes what a guarantee covers", "Q8", Config{Sabotage: claiming(model.ByShare, "a guarantee covers it")}},
		{"a guarantee takes what another one covers", "Q8", Config{Sabotage: claiming(model.ByGuarantee, "a guarantee covers it")}},
		{"a queue without a guarantee takes by one", "Q8", Config{Sabotage: claiming(model.ByGuarantee, "it is within no guarantee")}},
		{"no pod ever goes by right of a guarantee", "Q16", Config{Seed: 22, Scheduler: []byte(strings.Replace(string(config.DefaultYAML()), "reclaim, ", "", 1))}},
		{"that a guarantee is not met is said of no queue", "Q16", Config{Seed: 9, Sabotage: FaultInjection{Rogue: func(p *process) {
			for _, queue := range p.snapshot.Queues {
				queue.Unmet = nil
			}
		}}}},
		{"no gang ever takes by right of a guarantee", "Q16", Config{Seed: 2, Sabotage: misreadGroups(func(spec *v1alpha1.PodGroupSpec) {
			never := corev1.PreemptNever
			spec.PreemptionPolicy = &never
		})}},
		{"a guarantee is read late", "Q16", Config{Seed: 8, Sabotage: readsLate()}},
		{"one member of a gang is evicted, and the others never are", "Q12", Config{Faults: &Faults{}, Sabotage: FaultInjection{Decided: evictsOneOf}}},
		{"pods are evicted although another node has capacity", "Q11", Config{Sabotage: evictPair(evictsNeedlessly)}},
		{"a pod's message names one of another namespace", "Q23", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			for _, pod := range p.pods() {
				if other := p.pods()[0]; pod.Namespace != other.Namespace {
					p.machine.Write(p.clock.Now(), &commit.PodCondition{Pod: refOf(pod), Condition: corev1.PodCondition{
						Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "waiting for evicted pods to terminate: " + keyOf(other),
					}})
				}
			}
		}}}},
		{"a queue names a job", "Q23", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			for _, name := range sortedNames(p.queues()) {
				queue := p.queues()[name]
				status := *queue.Status.DeepCopy()
				for i := range status.Conditions {
					if jobs := p.snapshot.Jobs; len(jobs) > 0 {
						status.Conditions[i].Message = jobs[0].Key.Name + " waits"
					}
				}
				p.machine.Write(p.clock.Now(), &commit.QueueStatus{Name: name, UID: queue.UID, Status: status})
			}
		}}}},
		{"what a queue holds is never written", "Q21", Config{Sabotage: FaultInjection{Refuse: func(call commit.Call) error {
			if call.Kind == commit.CallQueueStatus && len(call.Write.(*commit.QueueStatus).Status.Used) > 0 {
				return apierrors.NewForbidden(v1alpha1.Resource("queues"), call.Write.(*commit.QueueStatus).Name, nil)
			}
			return nil
		}}}},
		{"a status of a queue is written all the time", "I29", Config{Sabotage: FaultInjection{Rogue: func(p *process) {
			for _, name := range sortedNames(p.queues()) {
				queue := p.queues()[name]
				status := *queue.Status.DeepCopy()
				status.Waiting = int32(p.clock.Now().Unix() % 1000)
				p.machine.Write(p.clock.Now(), &commit.QueueStatus{Name: name, UID: queue.UID, Status: status})
			}
		}}}},
		{"pods go back and forth between two queues", "I29", Config{Seed: 63, Faults: &Faults{}, Sabotage: FaultInjection{Rogue: swapsForever}}},
		{"that a limit is higher is missed", "I18", Config{Sabotage: hide(func(e *cluster.QueueSeen) bool {
			return e.Queue.Generation > 1
		})}},
		{"that a queue is gone is missed", "I22", Config{Seed: 32, Sabotage: hide(func(e *cluster.QueueSeen) bool { return e.Gone })}},
		{"capacity that is nominated to a job of another queue goes to a higher one", "I15", Config{Sabotage: bindOnOthersRoom()}},
	}
}

// bindsAboveALimit binds a pod whose queue has not enough left, past all that judges decisions.
func bindsAboveALimit() func(*process) {
	done := false
	return func(p *process) {
		told := p.asTold()
		for _, pod := range told.Pods {
			job := jobKeyOf(pod)
			if done || !waits(pod) || !job.IsPod() || len(pod.Spec.SchedulingGates) > 0 || p.task(pod) == nil || told.Refuses(job) != "" || !told.Exceeds(job, pod, 1) {
				continue
			}
			for _, node := range told.Nodes {
				free := invariants.Free(node, told.Pods, func(other *corev1.Pod) bool { return p.place(other) == node.Name })
				if !invariants.Takes(node, pod) || free.Slots(invariants.RequestOf(pod)) == 0 {
					continue
				}
				done = true
				decision := model.Decision{Job: job, MinBinds: 1, Binds: []model.Bind{{Pod: refOf(pod), Node: node.Name}}}
				p.seen[pod.UID], p.chosen[pod.UID] = p.sight(), node.Name
				p.state.Assume(decision)
				p.machine.Submit(p.clock.Now(), decision)
				return
			}
		}
	}
}

// readsLate keeps guarantees from all sessions until nothing happens any more, so that plans are made late.
func readsLate() FaultInjection {
	kept := map[string][]model.ListedAmount{}
	return FaultInjection{Rogue: func(p *process) {
		for _, queue := range p.snapshot.Queues {
			if !p.calm && len(queue.Guarantee) > 0 {
				kept[queue.Name], queue.Guarantee = queue.Guarantee, nil
			} else if p.calm && len(queue.Guarantee) == 0 {
				queue.Guarantee = kept[queue.Name]
			}
		}
	}}
}

// evictsOneOf lets one member of each gang be evicted in the place of all, behind the back of all that judges decisions.
func evictsOneOf(_ *process, decision model.Decision) {
	for i := range decision.Evictions {
		if decision.Evictions[i].Job == decision.Evictions[0].Job {
			decision.Evictions[i] = decision.Evictions[0]
		}
	}
}

// forgetful kills the first leader that takes from another queue, after its evictions have left, and hides something from all
// later ones.
func forgetful(hide func(*corev1.Pod)) FaultInjection {
	killed := false
	return FaultInjection{
		Decided: func(p *process, decision model.Decision) {
			if decision.Right() != "" && !killed {
				p.after(time.Second, "the end", func() {
					killed = true
					p.end("killed")
				})
			}
		},
		Hide: misreadPods(func(pod *corev1.Pod) {
			if killed {
				hide(pod)
			}
		}).Hide,
	}
}

// evictsNeedlessly is true of a pod that fits elsewhere, and not where the other one is.
func evictsNeedlessly(p *process, running, waiting *corev1.Pod) bool {
	told := p.asTold()
	if groupOf(waiting) != "" || jobKeyOf(running) == jobKeyOf(waiting) || len(p.snapshot.Held()) > 0 || p.snapshot.HasBackoff() || told.Refuses(jobKeyOf(waiting)) != "" || told.Exceeds(jobKeyOf(waiting), waiting, 1) {
		return false
	}
	free := func(node *corev1.Node) int64 {
		return invariants.Free(node, told.Pods, func(pod *corev1.Pod) bool { return p.place(pod) == node.Name }).Slots(invariants.RequestOf(waiting))
	}
	here := p.node(running.Spec.NodeName)
	return here != nil && invariants.Takes(here, waiting) && free(here) == 0 && slices.ContainsFunc(told.Nodes, func(node *corev1.Node) bool {
		return invariants.Takes(node, waiting) && free(node) > 0
	})
}

// swapsForever evicts a pod of one queue for a waiting one of another, again and again, and tells no one.
func swapsForever(p *process) {
	told := p.asTold()
	if !p.calm || !p.machine.Idle() || len(p.inFlight) > 0 {
		return
	}
	victim, holder := pair(p, func(a, b *corev1.Pod) bool {
		mine := told.QueueOf(jobKeyOf(b))
		return p.place(a) != "" && jobKeyOf(a).IsPod() && told.Refuses(jobKeyOf(b)) == "" && told.QueueOf(jobKeyOf(a)) != mine
	})
	if victim != nil {
		decision := evict(victim, holder)
		decision.Nominations = nil
		p.state.Assume(decision)
		p.machine.Submit(p.clock.Now(), decision)
	}
}

// bindOnOthersRoom binds a pod of a higher priority where capacity is nominated to a job of another queue.
func bindOnOthersRoom() FaultInjection {
	return rogue(func(p *process) (model.Decision, bool) {
		told := p.asTold()
		for _, holder := range told.Pods {
			node := holder.Status.NominatedNodeName
			if node == "" || p.node(node) == nil || !waits(holder) || !p.keeps(holder, node) || !told.Queues.Several() {
				continue
			}
			for _, thief := range told.Pods {
				single := waits(thief) && groupOf(thief) == "" && *thief.Spec.Priority > p.priorityOf(jobKeyOf(holder))
				if single && !thief.Spec.Containers[0].Resources.Requests.Cpu().IsZero() && p.task(thief) != nil &&
					told.Refuses(jobKeyOf(thief)) == "" && !told.Exceeds(jobKeyOf(thief), thief, 1) && invariants.Takes(p.node(node), thief) {
					return model.Decision{Job: jobKeyOf(thief), MinBinds: 1, Binds: []model.Bind{{Pod: refOf(thief), Node: node}}}, true
				}
			}
		}
		return model.Decision{}, false
	})
}

func TestPlantedBugsAboutQueuesAreCaught(t *testing.T) {
	catchPlanted(t, plantedQueueBugs, func(c *Config) { c.Queues = true })
}
