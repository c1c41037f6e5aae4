package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// parent is an object that says which members of a group are made later.
type parent struct {
	// gang makes the group and all members but those.
	gang func(*world)
	// object is the parent, where its members are late and where they are not.
	object func(late bool) *sources.Spec
	// guessed reports that without the object the members say which are late.
	guessed bool
}

// show lets the parent be read.
func (p parent) show(w *world, late bool) {
	spec := p.object(late)
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
}

// hide lets the parent be gone.
func (p parent) hide(w *world) {
	spec := p.object(true)
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec, Gone: true})
}

// unread lets no object of the parent's kind be read.
func (p parent) unread(w *world) {
	w.mailbox.Event(&cluster.ReadingChanged{Source: p.object(true).Source, Reading: cluster.NotAllowed})
}

// parents are those of a group object and of a group whose pods say the rest.
func parents() map[string]parent {
	return map[string]parent{
		"MPIJob of a group": {
			gang: func(w *world) {
				w.foreignGroup(model.SourceCoscheduling, "mpi", func(spec *sources.Spec) {
					spec.MinMember = 4
					spec.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: "mpi", Controller: new(true)}}
				})
				w.cannotRead(cluster.IsRead)
				for i := range 3 {
					w.member("mpi", i)
					w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) {
						marked(model.SourceCoscheduling, pod, "mpi", i)
						pod.Labels["training.kubeflow.org/job-role"] = "worker"
					})
				}
			},
			object: func(late bool) *sources.Spec {
				spec := &sources.Spec{Source: model.SourceMPIJob, MinMember: 4, Roles: []model.Role{
					{Name: "launcher", MinMember: 1, MadeLater: late}, {Name: "worker", MinMember: 3},
				}}
				spec.Namespace, spec.Name, spec.UID = "default", "mpi", "owner"
				return spec
			},
		},
		"LeaderWorkerSet": {
			guessed: true,
			gang: func(w *world) {
				w.member("mpi", 0)
				w.change("mpi-0", func(pod *corev1.Pod) {
					marked(model.SourceLeaderWorkerSet, pod, "mpi-0", 0)
					pod.Labels[sources.LWSName], pod.Labels[sources.LWSGroupIndex] = "mpi", "0"
				})
			},
			object: func(late bool) *sources.Spec {
				spec := &sources.Spec{Source: model.SourceLeaderWorkerSetObject, MinMember: 1, NoGang: true}
				if late {
					spec.Roles = []model.Role{{Name: sources.RoleWorker, MinMember: 1, MadeLater: true}}
				}
				spec.Namespace, spec.Name, spec.UID = "default", "mpi", "owner"
				return spec
			},
		},
	}
}

// changes are those by which the members that are made later belong to the minimum.
var changes = map[string]func(parent, *world){
	"needs all":    func(p parent, w *world) { p.show(w, false) },
	"gone":         parent.hide,
	"not readable": parent.unread,
}

// TestAParentThatChangesWhileVolumesArePrepared is not missed: nothing is bound of a gang that needs more members by then.
func TestAParentThatChangesWhileVolumesArePrepared(t *testing.T) {
	for name, of := range parents() {
		for how, happens := range changes {
			k := newKeeper(t)
			k.node("n1", "8")
			of.show(k.world, true)
			of.gang(k.world)
			if of.guessed && how != "needs all" {
				continue // a leader that has a node, and no workers: they are taken to be late
			}
			k.keep["mpi-0"] = commit.Call{}
			k.play(t.Context(), time.Minute)
			held := len(k.held)
			happens(of, k.world)
			calls := order(k.play(t.Context(), time.Minute))
			if held == 0 || strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != held {
				t.Errorf("%s, %s: calls: %s, want the %d that were set aside given back and no bind", name, how, calls, held)
			}
		}
	}
}

// TestAParentThatChangesWhileTheSessionGoesOn holds back what that has decided.
func TestAParentThatChangesWhileTheSessionGoesOn(t *testing.T) {
	for name, of := range parents() {
		for how, happens := range changes {
			w := newWorld(t)
			w.loop.profile.Actions = append([]engine.Action{&intruder{does: func() { happens(of, w) }}}, w.loop.profile.Actions...)
			w.node("n1", "8")
			of.show(w, true)
			of.gang(w)
			if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 0 {
				t.Errorf("%s, %s: bound %q", name, how, got)
			}
		}
	}
}

// TestASourceThatIsNotReadAnyMoreWhileTheSessionGoesOn holds back all that the session decides of it, not only what it decides
// next.
func TestASourceThatIsNotReadAnyMoreWhileTheSessionGoesOn(t *testing.T) {
	w := newWorld(t)
	w.loop.profile.Actions = append([]engine.Action{&intruder{does: func() { w.cannotRead(cluster.NotServed) }}}, w.loop.profile.Actions...)
	w.node("n1", "8")
	w.cannotRead(cluster.IsRead)
	w.coscheduling("a", 3, 3)
	w.coscheduling("b", 3, 3)
	if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 0 {
		t.Errorf("bound %q", got)
	}
}
