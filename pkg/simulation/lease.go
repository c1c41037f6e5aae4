package simulation

import "time"

// The numbers of the election, client-go's own.
const (
	leaseLasts    = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryEvery    = 2 * time.Second
)

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
	l.holder, l.renewed, p.renewed = p, now, now
	if !p.elected {
		p.elected = true
		p.synced()
	}
}

// mayWrite tells whether the Lease holds for as long as a request may take.
func (p *process) mayWrite() bool {
	if p.config.Sabotage.Unfenced {
		return true
	}
	return p.elected && p.queue.now.Sub(p.renewed) < leaseLasts-requestTimeout
}

// cutOff tells whether the process cannot reach the Lease at the moment.
func (p *process) cutOff(now time.Time) bool { return now.Before(p.apart[p.name]) }
