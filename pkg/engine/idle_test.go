package engine

import (
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

// shut is a filter that refuses every node until then, in seconds since 1970.
type shut int64

func (shut) Name() string { return "shut" }

func (s shut) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	return nil, &model.Refusal{Until: time.Unix(int64(s), 0)}
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
		until   int64 // seconds after the first session; zero is never
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
			s.Until(s.Snapshot.Now.Add(time.Second))
			s.Until(s.Snapshot.Now.Add(time.Minute))
		}, until: 1, again: true},
		{name: "the time that was named has not come", change: soon, act: func(s *Session) {
			s.Until(s.Snapshot.Now.Add(2 * time.Second))
		}, until: 2},
		{name: "it holds in no other session", change: func(*model.Snapshot) {}, act: func(s *Session) { s.Until(s.Snapshot.Now) }, until: 5, again: true},
		{name: "something was decided", change: func(*model.Snapshot) {}, act: func(s *Session) {
			s.Reserve(s.Snapshot.Jobs[0], nil)
		}, again: true},
		{name: "the time of a refusal has come", change: soon, act: func(s *Session) {
			s.Refuse(s.Snapshot.Jobs[0], &model.Refusal{Code: model.NodesFiltered, Until: s.Snapshot.Now.Add(time.Second)})
		}, until: 1, again: true},
		{name: "the time of a refusal has not come", change: soon, act: func(s *Session) {
			s.Refuse(s.Snapshot.Jobs[0], &model.Refusal{Code: model.NodesFiltered, Until: s.Snapshot.Now.Add(2 * time.Second)})
		}, until: 2},
		{name: "a refusal holds in no other session", change: func(*model.Snapshot) {}, act: func(s *Session) {
			s.Refuse(s.Snapshot.Jobs[0], &model.Refusal{Code: model.NodesFiltered, Until: s.Snapshot.Now})
		}, until: 5, again: true},
		{name: "nodes are refused until then", change: soon, plugins: []framework.Plugin{shut(1001)}, until: 1, again: true},
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
			first := Run(snapshot, profile, Options{Cache: &cache})
			if want := time.Unix(1000+c.until, 0); c.until == 0 && !first.Until.IsZero() || c.until != 0 && !first.Until.Equal(want) {
				t.Errorf("it holds until %s, want %s", first.Until, want)
			}
			c.change(snapshot)
			second := Run(snapshot, profile, Options{Cache: &cache})
			if again := action.sessions == 2; again != c.again {
				t.Errorf("%d sessions ran, want a second one: %v", action.sessions, c.again)
			}
			for key, refusal := range first.Refusals {
				if second.Refusals[key].String() != refusal.String() {
					t.Errorf("%s: %q, then %q", key, refusal, second.Refusals[key])
				}
			}
			if !c.again && !second.Until.Equal(first.Until) {
				t.Errorf("the second time it holds until %s, the first time %s", second.Until, first.Until)
			}
		})
	}
}
