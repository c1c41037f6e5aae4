package scenario

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/scheduler"
)

// refuser answers every bind with an error and everything else with success.
type refuser struct{ mailbox *scheduler.Mailbox }

func (r refuser) Send(call commit.Call) {
	reply := commit.Reply{ID: call.ID}
	if call.Kind == commit.CallBind {
		reply.Err = errors.New("not now")
	}
	r.mailbox.Reply(reply)
}

// TestAdviceIsFoundBesideTheLoop runs the loop, with kube-scheduler's plugins, while gangs come that have to wait, with affinity
// and ports, and others whose binds fail. The race detector sees what a round and the loop both use.
func TestAdviceIsFoundBesideTheLoop(t *testing.T) {
	s, mailbox, replica := newStage(), scheduler.NewMailbox(), cluster.NewReplica()
	s.world.onEvent = mailbox.Event
	kube, start, stop, err := openKube(s.state.View(), s.state, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	another, err := kube.Another(replica, replica)
	if err != nil {
		t.Fatal(err)
	}
	profile, _, err := configuration.Catalogue(kube).Read("story", config.DefaultYAML())
	if err != nil {
		t.Fatal(err)
	}
	if profile.Replica, _, err = configuration.Catalogue(another).Read("story", config.DefaultYAML()); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	rounds := make(chan int, 100)
	loop := scheduler.New(s.state, commit.New(commit.Options{}), profile, refuser{mailbox}, mailbox, scheduler.Options{
		Clock: clock.RealClock{}, Period: time.Second, Verify: true, Reservations: kube,
		Follow: func(copied *cluster.Copy) {
			replica.Follow(copied)
			rounds <- len(copied.Snapshot.Jobs)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	mailbox.Lead()
	apply := func(lines string, arguments ...any) {
		if err := s.world.apply(fmt.Sprintf(lines, arguments...)); err != nil {
			t.Fatal(err)
		}
	}
	apply("node n{1..9} cpu=4 labels=rack=a")
	for i := range 4 {
		apply("group big%d min=3\npod big%d-{0..3} group=big%d cpu=%d labels=app=x affinity=app=x@rack ports=80", i, i, i, 5+i)
		apply("group small%d min=2\npod small%d-{0..1} group=small%d cpu=1 labels=app=x anti=app=x@kubernetes.io/hostname", i, i, i)
		<-rounds
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
