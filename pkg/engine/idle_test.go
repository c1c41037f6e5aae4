package engine

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// counting is an action that counts its sessions and calls a function in them.
type counting struct {
	sessions int
	act      func(*Session)
}

func (*counting) Name() string { return "counting" }

func (c *counting) Execute(session *Session) {
	c.sessions++
	for _, job := range session.Snapshot.Jobs {
		session.Refuse(job, &model.Refusal{Code: model.InsufficientResources, Needs: 1})
		for _, task := range job.Tasks {
			session.askFor(task, model.Idle).All(task)
		}
	}
	if c.act != nil {
		c.act(session)
	}
}

// scoped is a filter that asks more of a node than its capacity, of one scope.
type scoped struct {
	named
	scope framework.FilterScope
}

func (f scoped) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != f.scope {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { return nil }}, nil
}

// contained is one that says of itself that it reads the snapshot alone, but for tasks of one name.
type contained struct {
	scoped
	but string
}

func (c contained) DependsOnSnapshotOnly(task *model.Task) bool { return task.Name != c.but }

// promise gives the first task capacity that is being released, for this session.
func promise(s *Session) {
	s.Try(func(statement *Statement) *model.Refusal {
		return statement.pipeline(s.Snapshot.Jobs[0].Tasks[0], s.Snapshot.Nodes[0])
	})
}

// bind lets a pod stand on the first node that does not run yet.
func bind(s *Session) {
	s.Snapshot.Nodes[0].Tasks = []*model.Task{{Placement: model.Placement{Status: model.Bound, Node: s.Snapshot.Nodes[0].Name}}}
}

// TestASessionAtRestIsNotRunAgain runs two sessions and something in between; only what can change an answer leads to a second
// one, and either way the same is said.
func TestASessionAtRestIsNotRunAgain(t *testing.T) {
	soon := func(snapshot *model.Snapshot) { snapshot.Now = snapshot.Now.Add(time.Second) }
	for _, c := range []struct {
		name    string
		act     func(*Session)
		plugins []framework.Plugin
		change  func(*model.Snapshot)
		again   bool
	}{
		{name: "nothing", change: func(*model.Snapshot) {}},
		{name: "time", change: soon},
		{name: "the cluster", change: func(s *model.Snapshot) { s.Version++ }, again: true},
		{name: "a version is not known", change: func(s *model.Snapshot) { s.Version = 0 }, again: true},
		{name: "a job is held back", change: func(s *model.Snapshot) {
			s.JobBackoff = map[model.JobKey]*model.Refusal{s.Jobs[0].Key: {Code: model.BindFailed}}
		}, again: true},
		{name: "the time that was named has come", change: soon, act: func(s *Session) {
			s.WakeAt(s.Snapshot.Now.Add(time.Second))
			s.WakeAt(s.Snapshot.Now.Add(time.Minute))
		}, again: true},
		{name: "the time that was named has not come", change: soon, act: func(s *Session) {
			s.WakeAt(s.Snapshot.Now.Add(2 * time.Second))
		}},
		{name: "something was decided", change: func(*model.Snapshot) {}, act: func(s *Session) {
			s.Reserve(s.Snapshot.Jobs[0], nil)
		}, again: true},
		{name: "it came from outside", change: func(*model.Snapshot) {}, act: func(s *Session) {
			s.Refuse(s.Snapshot.Jobs[0], &model.Refusal{Code: model.NodesFiltered, Transient: true})
		}, again: true},
		{name: "what runs on the node counts", plugins: []framework.Plugin{scoped{"ports", framework.NodeWithPods}}, change: func(*model.Snapshot) {}},
		{name: "anything may count", plugins: []framework.Plugin{scoped{"any", framework.ClusterWide}}, change: func(*model.Snapshot) {}, again: true},
		{name: "what runs anywhere counts", plugins: []framework.Plugin{contained{scoped{"spread", framework.ClusterWide}, ""}}, change: func(*model.Snapshot) {}},
		{
			name: "objects count, for one of two that are alike", plugins: []framework.Plugin{contained{scoped{"volumes", framework.ClusterWide}, "a-1"}},
			change: func(*model.Snapshot) {}, again: true,
		},
		{
			name: "anything may count for who was promised capacity", act: promise, plugins: []framework.Plugin{scoped{"any", framework.ClusterWide}},
			change: func(*model.Snapshot) {}, again: true,
		},
		{name: "a pod has not begun", change: soon, act: bind},
		{name: "a job may wait for the end of a pod that has not begun", change: soon, act: func(s *Session) {
			bind(s)
			s.Snapshot.Jobs[0].Reservation = &model.Reservation{}
		}, again: true},
		{name: "capacity was promised", change: func(*model.Snapshot) {}, act: promise},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshot := house(1)
			snapshot.Nodes[0].Place(&model.Task{
				PodRef: model.PodRef{UID: "leaves"}, Pod: &corev1.Pod{}, Request: model.Resources{1},
				Placement: model.Placement{Status: model.Releasing, Node: snapshot.Nodes[0].Name},
			})
			snapshot.Version, snapshot.Now = 1, time.Unix(1000, 0)
			join(snapshot, "a", 1, 2, model.Resources{1})
			action := &counting{act: c.act}
			profile := profileOf(c.plugins...)
			profile.Actions = []Action{action}
			var cache Cache
			var wakes []time.Time
			options := Options{Cache: &cache, Wake: func(at time.Time) { wakes = append(wakes, at) }}
			first := maps.Clone(Run(snapshot, profile, options))
			asked := len(wakes)
			c.change(snapshot)
			second := Run(snapshot, profile, options)
			if again := action.sessions == 2; again != c.again {
				t.Errorf("%d sessions ran, want a second one: %v", action.sessions, c.again)
			}
			for key, refusal := range first {
				if second[key].String() != refusal.String() {
					t.Errorf("%s: %q, then %q", key, refusal, second[key])
				}
			}
			if asked > 0 && len(wakes) == asked {
				t.Errorf("the second time no part asked to be woken; the first time %v", wakes)
			}
		})
	}
}
