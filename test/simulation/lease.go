package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/internal/lease"
)

// leaseRecord is the Lease as the server stores it, and what the judge has to know of it by the true time.
type leaseRecord struct {
	stored  *coordinationv1.Lease
	version int
	// renewed is when its holder renewed it last. free is from when on the holder may write: when the Lease of another one has
	// expired and a request timeout has passed; zero when that one gave it up.
	renewed, free time.Time
}

// holder is the identity in the Lease, empty when there is none.
func (l *leaseRecord) holder() string {
	if l.stored == nil {
		return ""
	}
	return *l.stored.Spec.HolderIdentity
}

// serve answers a request about the Lease as the API server does.
func (l *leaseRecord) serve(request *lease.Request, now time.Time) (*coordinationv1.Lease, error) {
	resource := coordinationv1.Resource("leases")
	switch {
	case request.Verb != lease.Create && l.stored == nil:
		return nil, apierrors.NewNotFound(resource, lease.Name)
	case request.Verb == lease.Create && l.stored != nil:
		return nil, apierrors.NewAlreadyExists(resource, lease.Name)
	case request.Verb == lease.Update && request.Lease.ResourceVersion != l.stored.ResourceVersion:
		return nil, apierrors.NewConflict(resource, lease.Name, errors.New("the object has been modified"))
	case request.Verb != lease.Get:
		before := l.holder()
		l.version++
		l.stored = request.Lease.DeepCopy()
		l.stored.ResourceVersion = fmt.Sprint(l.version)
		if before != l.holder() {
			l.free = time.Time{}
			if before != "" && l.holder() != "" {
				l.free = l.renewed.Add(lease.Duration + lease.RequestTimeout)
			}
		}
		l.renewed = now
	}
	return l.stored.DeepCopy(), nil
}

// instant is what the two clocks of the process's machine show.
func (p *process) instant() lease.Instant {
	now := lease.Instant{Wall: p.queue.now.Add(p.skew + p.set), Monotonic: p.queue.now.Sub(p.began) - p.slept}
	if alter := p.config.Sabotage.Clock; alter != nil {
		return alter(p, now)
	}
	return now
}

// disturb reports whether a clock of the process may go wrong now: one at a time, since a process whose machine sleeps while
// its wall clock is set back cannot know that time has passed.
func (p *process) disturb() bool {
	if p.queue.now.Sub(p.disturbed) < 60*time.Second {
		return false
	}
	p.disturbed = p.queue.now
	return true
}

// elect does what is due in the election, and plans what is due next. It stands in the place of lease.Run.
func (p *process) elect() {
	if p.leaving && p.underWay == 0 {
		p.giveUp()
		return
	}
	request, wait, err := p.election.Next()
	switch {
	case err != nil:
		p.end(err.Error())
	case request == nil:
		p.after(max(wait, time.Millisecond), "lease", func() { p.whenThawed(p.elect) })
	default:
		p.ask(request, func(stored *coordinationv1.Lease, err error) {
			_ = p.election.Answer(request, stored, err)
			if p.election.Held() && !p.elected {
				p.trace("%s holds the Lease", p)
				p.elected = true
				p.inherit()
			}
			p.elect()
		})
	}
}

// stepLimit is how long a step of the loop may take.
const stepLimit = 20 * time.Second

// watch is a tick of the watchdog. It stands in the place of lease.Watchdog.Run.
func (p *process) watch() {
	if err := p.watchdog.Tick(); err != nil {
		p.election.Abandon()
		p.end(err.Error())
		return
	}
	p.after(lease.WatchPeriod, "watch", func() { p.whenThawed(p.watch) })
}

// progress is that of the loop, whose steps take no time unless one hangs.
func (p *process) progress() (count uint64, busy bool) {
	count, busy = p.loop.Progress()
	return count, busy || p.hung
}

// ask sends a request about the Lease, and goes on when there is an answer, or none for long.
func (p *process) ask(request *lease.Request, then func(*coordinationv1.Lease, error)) {
	const unanswered = 6 * time.Second
	reply := func(delay time.Duration, stored *coordinationv1.Lease, err error) {
		p.after(delay, "answer about the Lease", func() { p.whenThawed(func() { then(stored, err) }) })
	}
	p.after(p.random.span(0, 4*time.Millisecond), "ask for the Lease", func() {
		p.whenThawed(func() {
			fate := arrives
			if p.random.chance(p.faults().Calls) {
				fate = pick(p.random, lostBefore, lostAfter, late, failsBefore, failsAfter)
			}
			if p.cutOff() {
				fate = lostBefore
			}
			travel := p.random.span(time.Millisecond, 10*time.Millisecond)
			switch fate {
			case lostBefore, failsBefore:
				reply(pick(p.random, time.Millisecond, unanswered), nil, errLost)
				return
			case late:
				reply(travel/2, nil, errLost)
				travel += p.random.span(0, unanswered)
			}
			p.queue.after(travel, fmt.Sprintf("%s %s of the Lease arrives", p, request.Verb), func() {
				stored, err := p.lease.serve(request, p.queue.now)
				if alter := p.config.Sabotage.Lease; alter != nil && err == nil && request.Verb == lease.Get {
					alter(p, stored)
				}
				switch fate {
				case arrives:
					reply(travel, stored, err)
				case lostAfter, failsAfter:
					reply(pick(p.random, time.Millisecond, unanswered), nil, errLost)
				}
			})
		})
	})
}

// shutDown ends the process in good order, as an upgrade does: nothing new is decided or sent, and when the last answer is
// there, the Lease is given up.
func (p *process) shutDown() {
	if !p.leaving {
		p.trace("%s leaves", p)
		p.leaving = true
	}
}

func (p *process) giveUp() {
	request := p.election.GiveUp()
	if request == nil {
		p.end("it has left, and lets the Lease expire")
		return
	}
	p.ask(request, func(*coordinationv1.Lease, error) { p.end("it has left, and given the Lease up") })
}

// inherit begins to lead: when what the last leader has sent has ended, and what it wrote has been read from a quorum, as
// often as it takes, since the watches may be behind.
func (p *process) inherit() {
	wait, inherited := p.election.TakeOver()
	if wait > 0 {
		p.after(max(wait, time.Millisecond), "the last leader's requests have ended", func() { p.whenThawed(p.inherit) })
		return
	}
	if !inherited || p.config.Sabotage.Heedless {
		p.ready = true
		p.synced()
		return
	}
	p.after(p.random.span(time.Millisecond, 500*time.Millisecond), "reread", func() {
		p.whenThawed(func() {
			if p.random.chance(p.faults().Calls) {
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
	var read []change
	for _, pod := range p.server.pods() {
		if ours(pod) {
			read = append(read, change{kind: kindPod, version: versionOf(pod), object: pod})
		}
	}
	for _, name := range p.server.names(kindGroup) {
		group := p.server.group(name)
		read = append(read, change{kind: kindGroup, version: versionOf(group), object: group})
	}
	for _, one := range read {
		p.onWatchEnd(one)
	}
	p.forget(p.server.version, read)
}

// forget deletes what was read and is gone, when the streams have come as far as the version.
func (p *process) forget(version uint64, read []change) {
	p.after(5*time.Second, "forget", func() {
		p.whenThawed(func() {
			for _, s := range p.streams {
				if log := p.server.log[s.kind]; s.position < len(log) && log[s.position].version <= version {
					p.forget(version, read)
					return
				}
			}
			for _, one := range read {
				i := slices.IndexFunc(p.streams, func(s *watchStream) bool { return s.kind == one.kind })
				if known, is := p.streams[i].store[keyOf(one.object)]; !is || known.object.GetUID() != one.object.GetUID() {
					one.deleted = true
					p.onWatchEnd(one)
				}
			}
		})
	})
}

// mayWrite reports whether the Lease holds for as long as a request may take.
func (p *process) mayWrite() bool { return p.config.Sabotage.Unfenced || p.election.MayWrite() }

// cutOff reports whether the process cannot reach the Lease at the moment.
func (p *process) cutOff() bool { return p.queue.now.Before(p.apart[p.name]) }
