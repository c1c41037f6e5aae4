package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// leaderLog makes the server note what the replicas write, and of the Lease also what they write into it.
const leaderLog = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Request, userGroups: ["system:serviceaccounts:default"], resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: Metadata, userGroups: ["system:serviceaccounts:default"]}
- {level: None}
`

const (
	// leaseHolds is how long a Lease holds after the time that stands in it.
	leaseHolds = 15 * time.Second
	// margin is for how long no scheduler may write between the leader whose Lease has expired and the next one.
	margin = 3 * time.Second
	// leaseOf is the name of the Lease.
	leaseOf = "tutti-scheduler"
)

// replica is a scheduler with an account of its own, by which the server's log tells it from all others.
type replica struct {
	*harness.Scheduler
	account string
}

// replica starts a scheduler that waits to be elected, and waits until it would lead at the same time.
func (w *world) replica() *replica {
	w.Helper()
	account := fmt.Sprintf("replica-%d", w.schedulers)
	w.lab.Create(w.T, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: account}})
	kubeconfig, err := w.lab.Cluster.KubeconfigFor(w.Context(), metav1.NamespaceDefault, account)
	if err != nil {
		w.Fatal(err)
	}
	s := w.startAs(kubeconfig, "--leader-elect=true", "--leader-elect-namespace="+metav1.NamespaceDefault)
	if err := cluster.WaitReady(w.Context(), s.Process, s.HealthURL+"/readyz"); err != nil {
		w.Fatal(err)
	}
	return &replica{s, account}
}

// written is a line of the server's log.
type written struct {
	Verb                     string
	User                     struct{ Username string }
	ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	RequestObject            coordinationv1.Lease
	RequestReceivedTimestamp metav1.MicroTime
}

// account is who asked, without what all have in common.
func (e *written) account() string {
	return e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
}

// leaderWrites judges what replicas wrote by who held the Lease when the server received it.
type leaderWrites struct {
	// calls is how many writes there were, besides those of the Lease and of events about it; handovers how often the Lease
	// changed hands.
	calls, handovers int
	// late are those that the server received when the Lease of their sender had expired or was held by another scheduler, crossed
	// those of them that came after the first write of the next leader.
	late, crossed []string
	// soon are those of a new leader within the margin after the Lease of the last one had expired.
	soon []string
	// busy are the accounts of leaders that had pods to bind when they got the Lease; waits are how long after that they first
	// bound one.
	busy  map[string]bool
	waits takings
	// holder is whose Lease it is, until when.
	holder string
	until  time.Time
	// since is when the holder got it, starts from when on it may write.
	since, starts time.Time
	// lately are the last writes to the Lease, those that failed among them.
	lately []string
	// began reports that the holder has written anything, bound that it has bound a pod.
	began, bound bool
}

// judgeWrites reads the log. Its lines come in the order of answers; both those of the Lease and others are judged by when
// the server received them, so a renewal counts as soon as it was received.
func judgeWrites(t *testing.T, log writeLog, busy map[string]bool) *leaderWrites {
	t.Helper()
	var all []*written
	for _, line := range log.lines(t) {
		var e written
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, &e)
	}
	slices.SortStableFunc(all, func(a, b *written) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	j := &leaderWrites{busy: busy}
	for _, e := range all {
		switch {
		case e.ObjectRef.Resource == "leases":
			j.lease(e)
		case e.ObjectRef.Resource == "events" && strings.HasPrefix(e.ObjectRef.Name, leaseOf+"."), e.ObjectRef.Resource == "serviceaccounts":
		default:
			j.call(e)
		}
	}
	return j
}

// lease takes in a write to the Lease that succeeded.
func (j *leaderWrites) lease(e *written) {
	holder := "none"
	if spec := e.RequestObject.Spec; spec.HolderIdentity != nil && *spec.HolderIdentity != "" {
		holder = *spec.HolderIdentity
	}
	j.lately = append(j.lately, fmt.Sprintf("%s: %s for %s by %s, answered %d",
		e.RequestReceivedTimestamp.Format(time.StampMicro), e.Verb, holder, e.account(), e.ResponseStatus.Code))
	j.lately = j.lately[max(0, len(j.lately)-6):]
	if e.ResponseStatus.Code >= 300 || e.ObjectRef.Name != leaseOf && e.Verb != "create" {
		return
	}
	spec, received := e.RequestObject.Spec, e.RequestReceivedTimestamp.Time
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		j.holder, j.until = "", time.Time{}
		return
	}
	if account := e.account(); account != j.holder {
		j.starts = received
		if j.holder != "" {
			j.starts = j.until.Add(margin)
		}
		if !j.since.IsZero() {
			j.handovers++
		}
		j.holder, j.since, j.began, j.bound = account, received, false, false
	}
	j.until = spec.RenewTime.Add(leaseHolds)
}

// call takes in any other write, whatever the server answered.
func (j *leaderWrites) call(e *written) {
	j.calls++
	received := e.RequestReceivedTimestamp.Time
	what := fmt.Sprintf("%s: %s %s/%s %s by %s, answered %d; the Lease is %q's until %s", received.Format(time.StampMicro), e.Verb,
		e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name, e.account(), e.ResponseStatus.Code, j.holder, j.until.Format(time.StampMicro))
	switch {
	case e.account() != j.holder || received.After(j.until):
		if j.late = append(j.late, what); e.account() != j.holder && j.began {
			j.crossed = append(j.crossed, what)
		}
	case received.Before(j.starts):
		if len(j.soon) == 0 {
			what += fmt.Sprintf("; it may write from %s on, after %s", j.starts.Format(time.StampMicro), strings.Join(j.lately, ", "))
		}
		j.soon = append(j.soon, what)
	case e.ObjectRef.Subresource == "binding" && !j.bound:
		j.began, j.bound = true, true
		if j.busy[j.holder] {
			j.waits = append(j.waits, received.Sub(j.since))
		}
	default:
		j.began = true
	}
}

// TestHandOvers has leaders replaced again and again while gangs are being bound (HANDOVERS=50): every other one is frozen, and
// thaws around the time at which the next one begins; the others are killed, or end as in a rolling update. The server's log is
// searched for writes of a scheduler that did not hold the Lease.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, leaderLog, cluster.Options{})
	w.lab.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "replicas"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + metav1.NamespaceDefault},
		},
	})
	handovers, undone := number(t, "HANDOVERS", 3), 0
	counts, busy := map[string]int{}, map[string]bool{}
	leader := w.replica()
	w.waitForLeader(leader)
	for i := 1; i <= handovers; i++ {
		standby := w.replica()
		w.await(w.begin(), "binds of a batch")
		how, waiting := "ended", 0
		if 2*counts["frozen"] < i {
			how, waiting = w.freeze(leader, standby)
		} else {
			if rand.IntN(3) > 0 {
				how = "killed"
				leader.Kill()
			} else if err := leader.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			waiting = w.strike()
		}
		counts[how]++
		w.await(leader.Done(), "the end of the last leader, which was "+how)
		w.waitForLeader(standby)
		undone += w.settled()
		if waiting > 0 {
			busy[standby.account] = true
		}
		w.end()
		leader = standby
		if i%5 == 0 || i == handovers {
			t.Logf("%d hand-overs, %v, %d with gangs of which only some were bound; in part for at most %s", i, counts, w.strikes,
				w.chronicle.LongestPartial().Round(time.Millisecond))
		}
	}
	leader.Kill()
	w.audited()
	writes := judgeWrites(t, w.writes, busy)
	if writes.calls < w.room || writes.handovers < handovers {
		t.Errorf("the log shows %d writes and %d hand-overs only", writes.calls, writes.handovers)
	}
	writes.waits.check(t, "the first bind of a leader after it had got the Lease", firstDecision)
	// What was sent in time may be received late by a busy server: that it is received before the next leader writes is promised.
	late := writes.crossed
	if holdTimes() {
		late = writes.late
	}
	for what, found := range map[string][]string{"a Lease that had expired or was lost": late, "the margin": writes.soon} {
		if len(found) > 0 {
			t.Errorf("%d writes in spite of %s, such as\n%s", len(found), what, strings.Join(found[:min(5, len(found))], "\n"))
		}
	}
	t.Logf("RESULT handovers: %d at %d nodes and %d pods, leaders %d frozen and thawed, %d killed, %d ended, %d of them with gangs bound in "+
		"part; %d writes in the API server's log, %d received when the Lease of their sender had expired or was another's, %d within the "+
		"margin after it; nodes that held too much at any moment 0, gangs left in part 0, starts undone %d; a gang was in part for at most "+
		"%s; from getting the Lease to the first bind %s", handovers, w.nodes, w.pods, counts["frozen"], counts["killed"], counts["ended"],
		w.strikes, writes.calls, len(writes.late), len(writes.soon), undone, w.chronicle.LongestPartial().Round(time.Millisecond), writes.waits)
}

// freeze stops a leader and lets it go on around the time at which the next one takes over: a few seconds before, so that it
// finds its Lease expired or about to, or while the next one waits for the margin, or while it binds. One that wakes up in
// time to renew its Lease leads on, and is killed.
func (w *world) freeze(leader, standby *replica) (how string, waiting int) {
	w.Helper()
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		w.Fatal(err)
	}
	waiting = w.strike()
	if rand.IntN(3) == 0 {
		w.pass(11*time.Second + upTo(6*time.Second))
	} else {
		w.waitForLeader(standby)
		w.pass(upTo(8 * time.Second))
	}
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		w.Fatal(err)
	}
	if w.within(leader.Done(), 20*time.Second) {
		return "frozen", waiting
	}
	leader.Kill()
	_, waiting = w.waiting()
	return "killed", waiting
}

// waitForLeader waits until a replica holds the Lease.
func (w *world) waitForLeader(r *replica) {
	w.Helper()
	w.lab.Eventually(w.T, func() error {
		var lease coordinationv1.Lease
		if err := w.lab.Client.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: leaseOf}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil {
			return fmt.Errorf("no scheduler holds the Lease")
		}
		if text, err := os.ReadFile(r.LogFile()); err != nil || !strings.Contains(string(text), "The Lease is held") {
			return fmt.Errorf("%s has not got the Lease, which is that of %s; %w", r.account, *lease.Spec.HolderIdentity, err)
		}
		return nil
	})
}
