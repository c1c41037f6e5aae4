package simulation

import (
	"time"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// The numbers of the election, client-go's own.
const (
	leaseLasts    = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryEvery    = 2 * time.Second
)

// margin is how long a new leader waits for what the last one may have sent when its Lease ended.
const margin = requestTimeout

// lease is who may write, as the server has it.
type lease struct {
	holder  *process
	renewed time.Time
}

// tryLease is one attempt of a process to get the Lease, or to keep it, and plans the next. Who cannot keep it ends.
func (p *process) tryLease() {
	p.after(retryEvery, "lease", func() { p.whenThawed(p.tryLease) })
	now := p.queue.now
	if p.cutOff(now) {
		if p.elected && now.Sub(p.renewed) > renewDeadline {
			p.end("it lost the Lease")
		}
		return
	}
	l := &p.lease
	switch {
	case l.holder == p:
	case p.elected:
		p.end("another one has the Lease")
		return
	case l.holder != nil && now.Sub(l.renewed) <= leaseLasts:
		return
	default:
		p.trace("%s holds the Lease", p)
	}
	inherited := l.holder != nil && l.holder != p
	l.holder, l.renewed, p.renewed = p, now, now
	if p.elected {
		return
	}
	p.elected, p.begins = true, now
	if !inherited || p.config.Sabotage.Heedless {
		p.ready = true
		p.synced()
		return
	}
	p.begins = now.Add(margin)
	p.after(margin, "the last leader's requests have ended", p.inherit)
}

// inherit reads from a quorum what the last leader may have written, as often as it takes, since the watches may be behind.
func (p *process) inherit() {
	p.after(p.dice.span(time.Millisecond, 500*time.Millisecond), "reread", func() {
		p.whenThawed(func() {
			if p.dice.chance(p.faults().Calls) {
				p.after(time.Second, "reread again", p.inherit)
				return
			}
			p.reread()
			p.ready = true
			p.synced()
		})
	})
}

// reread lists our pods and all groups as they are now.
func (p *process) reread() {
	for _, pod := range p.server.pods() {
		if ours(pod) {
			p.onWatchEnd(change{kind: cluster.KindPod, version: versionOf(pod), object: pod})
		}
	}
	for _, name := range p.server.names(cluster.KindGroup) {
		group := p.server.group(name)
		p.onWatchEnd(change{kind: cluster.KindGroup, version: versionOf(group), object: group})
	}
}

// mayWrite tells whether the Lease holds for as long as a request may take.
func (p *process) mayWrite() bool {
	if p.config.Sabotage.Unfenced {
		return true
	}
	return p.elected && !p.queue.now.Before(p.begins) && p.queue.now.Sub(p.renewed) < leaseLasts-requestTimeout
}

// cutOff tells whether the process cannot reach the Lease at the moment.
func (p *process) cutOff(now time.Time) bool { return now.Before(p.apart[p.name]) }
