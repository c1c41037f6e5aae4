package cluster

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/bounds"
)

// FuzzLeasesAndBudgets adds a Lease of a node's agent, a disruption budget and a group, none of them validated, to a cluster
// that has other objects of these kinds. No code panics, the other objects are not affected, and a budget never allows less
// than nothing.
func FuzzLeasesAndBudgets(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{}`), []byte(`{}`), int64(0))
	f.Add([]byte(`{"spec": {"renewTime": "2026-01-05T08:00:00.000000Z", "leaseDurationSeconds": 40}}`),
		[]byte(`{"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "x"}}}, "status": {"disruptionsAllowed": 1}}`),
		[]byte(`{"spec": {"minMember": 1, "memberLoss": {"policy": "Restart", "timeoutSeconds": 9223372036854775807}}, "status": {"degradedSince": "2026-01-05T08:00:00Z"}}`), int64(39))
	f.Add([]byte(`{"metadata": {"resourceVersion": "x"}, "spec": {"renewTime": "0001-01-01T00:00:00Z", "leaseDurationSeconds": -2147483648}}`),
		[]byte(`{"metadata": {"generation": 9}, "spec": {"selector": {"matchExpressions": [{"key": "a b", "operator": "Sometimes", "values": ["x"]}]}},
		"status": {"observedGeneration": 8, "disruptionsAllowed": -5}}`),
		[]byte(`{"spec": {"minMember": -2147483648, "roles": [{"name": "", "minMember": -1}, {"name": "", "minMember": 2147483647}]}}`), int64(1<<40))
	f.Add([]byte(`{"spec": {"renewTime": "9999-12-31T23:59:59Z", "leaseDurationSeconds": 2147483647}}`),
		[]byte(`{"spec": {"selector": null}, "status": {"disruptionsAllowed": 2147483647, "disruptedPods": {"x": null}}}`),
		[]byte(`{"status": {"reservation": {"nodes": [{"name": "n", "members": -1, "resources": {"cpu": "-1e30"}}], "expectedStart": "0001-01-01T00:00:00Z"},
		"conditions": [{}, {}], "waitingSince": "9999-12-31T23:59:59Z"}}`), int64(-1<<40))
	f.Fuzz(func(t *testing.T, leaseText, budgetText, groupText []byte, later int64) {
		bounds.Hold(t, func() {
			const long = 1 << 14
			if len(leaseText)+len(budgetText)+len(groupText) > long {
				return
			}
			var lent coordinationv1.Lease
			var spent policyv1.PodDisruptionBudget
			var formed v1alpha1.PodGroup
			if json.Unmarshal(leaseText, &lent) != nil || json.Unmarshal(budgetText, &spent) != nil || json.Unmarshal(groupText, &formed) != nil {
				return
			}
			s := withAgents()
			lent.Name, lent.UID, lent.Namespace = isolated.LeasePrefix+"odd", "odd", ""
			spent.Name, spent.Namespace, spent.UID = "odd", "odd", "odd"
			formed.Name, formed.Namespace, formed.UID = "odd", "odd", "odd"
			now := start
			for _, deleted := range []bool{false, true} {
				s.Apply(&LeaseSeen{Lease: &lent, Gone: deleted})
				s.Apply(&BudgetSeen{Budget: &spent, Gone: deleted})
				s.Apply(&GroupSeen{Group: &formed, Gone: deleted})
				othersAreWhatTheyWere(t, s, now)
				s.NextWake(now)
				now = start.Add(time.Duration(later%30) * time.Second)
				if now.Before(start) {
					now = start
				}
				othersAreWhatTheyWere(t, s, now)
			}
			s.Snapshot(time.Unix(later, 0))
			s.NextWake(time.Unix(later, 0))
		})
	})
}

// withAgents is a cluster in which nodes have agents with Leases, a budget, and a gang.
func withAgents() *State {
	s := New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: LeasesWatched})
	s.View()
	for _, object := range []any{
		isolating("n", 1), isolating("odd", 1), pod("p", of("g")), pod("q", of("g"), on("n")), group("g", 2), budget("b", "x", 1),
		pod("odd", func(p *corev1.Pod) { p.Namespace = "odd" }, of("odd")),
	} {
		s.Apply(seen(object))
	}
	s.Apply(&LeaseSeen{Lease: lease("n", 2, start)})
	return s
}

func othersAreWhatTheyWere(t *testing.T, s *State, now time.Time) {
	t.Helper()
	snapshot := snap(t, s, now)
	if malformed := s.TakeMalformed(); len(malformed) > 0 {
		t.Fatalf("panics: %q", malformed)
	}
	if snapshot.Node("n").AgentExpired {
		t.Fatal("another node has lost its agent")
	}
	if job := snapshot.Job(ns("g")); job == nil || job.Invalid != nil || job.MinMember != 2 || len(job.Tasks) != 2 {
		t.Fatalf("another gang is %+v", job)
	}
	found := false
	for i := range snapshot.Budgets {
		one := &snapshot.Budgets[i]
		found = found || one.Name == "b" && one.Allowed == 1
		if one.Allowed < 0 {
			t.Fatalf("budget %s allows %d", one.Name, one.Allowed)
		}
	}
	if !found {
		t.Fatal("another budget is not what it was")
	}
	if odd := snapshot.Job(model.JobKey{Namespace: "odd", Name: "odd"}); odd != nil && odd.Invalid == nil && odd.MinMember < 1 {
		t.Fatalf("the odd gang needs %d", odd.MinMember)
	}
}
