package simulation

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lease"
)

// This file is what happens to a call between the process and the server, there and back. It stands in the place of
// commit.Driver and of the network.

// requestTimeout bounds a request, its answer included: after it, the client gives up, and so does the server.
const requestTimeout = lease.RequestTimeout

// errLost is what a client knows of a request without an answer.
var errLost = errors.New("connection lost")

// requestFate is what becomes of one request.
type requestFate int8

const (
	arrives requestFate = iota
	// lostBefore never reaches the server, lostAfter does and its answer is lost, late reaches it when the client has given up.
	lostBefore
	lostAfter
	late
	// failsBefore and failsAfter are answered with a fault of the server, which has done nothing or everything.
	failsBefore
	failsAfter
	// busy is answered with 429, conflicts with 409, unavailable with 503, unauthorized with 401.
	busy
	conflicts
	unauthorized
)

// Send takes a call over, as the driver does. The loop calls it.
func (p *process) Send(call commit.Call) {
	if p.dead { // it was killed by an earlier call of this very step
		return
	}
	p.judge.onSend(p, call)
	p.inFlight[call.ID] = call
	if p.faults().Instant > 0 && p.random.chance(p.faults().Instant) && p.mayWrite() {
		p.judge.onDepart(p, call)
		p.beginPreparer(call)
		p.underWay++
		p.receive(call, arrives, 0) // the answer is there before the cycle has ended
		return
	}
	p.after(p.random.span(0, 4*time.Millisecond), "send", func() { p.whenThawed(func() { p.send(call) }) })
}

// send is where a worker asks whether the Lease holds and sends the request; one of a process that leaves sends nothing more.
func (p *process) send(call commit.Call) {
	if p.leaving {
		return
	}
	p.underWay++
	if !p.mayWrite() {
		p.endPreparer(call)
		p.answer(call, commit.ErrNotLeading, p.random.span(0, time.Millisecond))
		return
	}
	p.judge.onDepart(p, call)
	p.beginPreparer(call)
	travel := p.random.span(time.Millisecond, 10*time.Millisecond)
	if p.random.chance(p.faults().SlowReply) {
		travel = p.random.span(10*time.Millisecond, requestTimeout/3)
	}
	fate := arrives
	if p.random.chance(p.faults().Calls) {
		fate = pick(p.random, lostBefore, lostAfter, late, failsBefore, failsAfter, busy, conflicts, unauthorized)
	}
	if fate == late && (call.Kind == commit.CallPrepare || call.Kind == commit.CallRelease) {
		fate = lostBefore // the preparer waits for the ends of its requests
	}
	if fate == lostBefore {
		p.endPreparer(call)
		p.answer(call, errLost, pick(p.random, time.Millisecond, requestTimeout))
		return
	}
	if fate == late {
		p.answer(call, errLost, travel/2)
		travel += p.random.span(0, requestTimeout/2)
	} else {
		p.arrives = p.queue.now.Add(travel)
	}
	// Once it has left, the request arrives, whatever becomes of the process.
	p.queue.after(travel, fmt.Sprintf("%s %s arrives", p, call.Kind), func() { p.receive(call, fate, travel) })
}

// receive is the request at the server.
func (p *process) receive(call commit.Call, fate requestFate, travel time.Duration) {
	err := refusal(call, fate, p.random)
	p.cut = call.Kind == commit.CallPrepare && fate == failsAfter && p.random.chance(500)
	if err == nil {
		err = p.handle(call)
	}
	p.endPreparer(call)
	switch {
	case fate == late:
		return
	case fate == lostAfter:
		err = errLost
	case fate == failsAfter:
		err = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	}
	if travel == 0 {
		p.reply(call, err)
		return
	}
	p.answer(call, err, travel)
}

// handle lets the server answer, and the process end after one of its writes when that is asked for.
func (p *process) handle(call commit.Call) error {
	if refuse := p.config.Sabotage.Refuse; refuse != nil {
		if err := refuse(call); err != nil {
			return err
		}
	}
	p.writer = p
	var err error
	if call.Kind == commit.CallPrepare || call.Kind == commit.CallRelease {
		err = p.servePreparer(call, p.cut)
	} else {
		err = p.server.serve(call)
	}
	p.writer = nil
	p.writes++
	p.trace("%s %s %s %s%s: %v", p, call.Kind, call.Pod, call.Node, saying(call), err)
	p.judge.onServed(p, call, err)
	if p.writes == p.config.CrashAfterWrite {
		p.end("killed after a write")
	}
	return err
}

// saying is what a call tells users.
func saying(call commit.Call) string {
	switch write := call.Write.(type) {
	case *commit.PodCondition:
		return fmt.Sprintf("%q", write.Condition.Message)
	case *commit.Event:
		return fmt.Sprintf("%s %s %q", write.Regarding.Name, write.Reason, write.Note)
	case *commit.QueueStatus:
		return fmt.Sprintf("%s %+v", write.Name, write.Status)
	case *commit.GroupStatus:
		text := fmt.Sprintf("%s %s", write.Name, write.Status.Phase)
		for _, condition := range write.Status.Conditions {
			text += fmt.Sprintf(" %s=%s %q", condition.Type, condition.Status, condition.Message)
		}
		return text
	}
	return ""
}

// refusal is the answer of a server that has not done what it was asked; nil when it will.
func refusal(call commit.Call, fate requestFate, d rng) error {
	switch fate {
	case failsBefore:
		return pick[error](d, apierrors.NewInternalError(errors.New("etcdserver: leader changed")), apierrors.NewServiceUnavailable("not now"))
	case busy:
		return apierrors.NewTooManyRequests("the server has received too many requests", d.number(0, 3))
	case conflicts:
		if call.Kind == commit.CallBind || call.Kind == commit.CallEvent {
			return apierrors.NewTimeoutError("the request did not complete in time", 0)
		}
		return apierrors.NewConflict(corev1.Resource("pods"), call.Pod.Name, errors.New("the object has been modified"))
	case unauthorized:
		return apierrors.NewUnauthorized("the token has expired")
	}
	return nil
}

// answer lets a reply come after a while.
func (p *process) answer(call commit.Call, err error, delay time.Duration) {
	p.after(delay, "reply", func() { p.whenThawed(func() { p.reply(call, err) }) })
}

func (p *process) reply(call commit.Call, err error) {
	if err != nil {
		p.judge.cutShort(p, &call.Job)
	}
	p.underWay--
	delete(p.inFlight, call.ID)
	p.answered(commit.Reply{ID: call.ID, Err: err})
}
