package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// This file is how the process that is elected begins to lead.

// follow starts the informers, and tells the loop to lead once all that was there at the start has been delivered and
// this replica is elected.
func (p *process) follow(ctx context.Context, elected <-chan struct{}) error {
	read := make(chan struct{})
	go tuneGC(ctx, read)
	go p.logWaiting(ctx)
	p.informers.Start(ctx.Done())
	p.groups.Start(ctx.Done())
	if p.leases != nil {
		p.leases.Start(ctx.Done())
		defer p.leases.Shutdown()
	}
	defer p.informers.Shutdown()
	defer p.groups.Shutdown()
	if wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, p.haveSynced) != nil {
		return nil // only the end of ctx ends it
	}
	p.synced.Store(true)
	klog.FromContext(ctx).Info("Informers are synced")
	close(read)
	select {
	case <-elected:
		inherited, err := p.waitForTakeover(ctx)
		if err == nil {
			p.mailbox.Lead()
			p.forget(ctx, inherited)
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// waitForTakeover returns when this process may decide: when nothing of the last leader can be under way any more, and all
// that it may have written is known, which it returns. Only the end of ctx makes it fail.
func (p *process) waitForTakeover(ctx context.Context) (read *cluster.Inherited, err error) {
	if p.election == nil {
		return nil, nil
	}
	log := klog.FromContext(ctx)
	pause, inherited := p.election.TakeOver()
	if pause > 0 {
		log.Info("The last leader's Lease has expired: waiting for what it may have sent", "pause", pause)
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !inherited {
		return nil, nil
	}
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		read, err = cluster.ListFromQuorum(ctx, p.pods, p.client, p.schedulerNames, p.mailbox.Event)
		if err != nil {
			log.Info("Reading what the last leader wrote has failed", "reason", err.Error())
		}
		return err == nil, nil
	})
	return read, err
}

// forget deletes what was read past the informers and is gone, once they have come as far; they are heard of at least once a
// minute.
func (p *process) forget(ctx context.Context, read *cluster.Inherited) {
	if read == nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, 5*time.Second, false, func(context.Context) (bool, error) { // only the end of ctx makes it fail
		gone, done := read.Gone(p.informers, p.groups)
		for _, event := range gone {
			p.mailbox.Event(event)
		}
		return done, nil
	})
}
