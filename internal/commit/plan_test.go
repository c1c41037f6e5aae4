package commit

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/pkg/model"
)

// planned is a decision to nominate each member to the node of its victim, and to evict all victims.
func planned(job string, members, victims []string) model.Decision {
	decision := evictions(job, victims...)
	for _, name := range members {
		decision.Nominations = append(decision.Nominations, model.Nomination{Pod: pod(name), Node: "node"})
	}
	return decision
}

func givenBack(job string, members ...string) model.Decision {
	decision := planned(job, members, nil)
	for i := range decision.Nominations {
		decision.Nominations[i].Node = ""
	}
	return decision
}

func listed(names ...string) []string { return names }

func TestPromisesGoBeforeEvictions(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.submit(planned("j", listed("m1", "m2", "m3"), listed("v1", "v2")))
	p.submit(binds("k", "b"))
	p.expectCalls("Bind b, Nominate m1")
	p.reply("m1", nil)
	p.expectCalls("Nominate m2")
	p.replies(nil, "m2", "b")
	p.expectCalls("Nominate m3") // not the evictions, although there is a worker for one
	p.reply("m3", errServer)
	p.pass(time.Second)
	p.expectCalls("Nominate m3 #2")
	p.reply("m3", nil)
	p.expectCalls("Evict v1, Evict v2")
	p.replies(nil, "v2", "v1")
	p.expect("Nominated m1", "Nominated m2", "Bound b", "Committed k needs=1 bound=1 failed=0 uncertain=0", "Nominated m3",
		"Evicted v2", "Evicted v1", "VictimsGone j pods=2 members=3 failed=0")
	p.end()
}

// TestPromiseThatCannotBeMadeSparesTheVictims, whatever the reason.
func TestPromiseThatCannotBeMadeSparesTheVictims(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		said string
	}{
		"pod gone":  {errGone, "NominationFailed m1 gone"},
		"other pod": {errUID, "NominationFailed m1 gone"},
		"forbidden": {errDenied, "NominationFailed m1 refused"},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, Options{Workers: 2})
			p.submit(planned("j", listed("m1", "m2", "m3"), listed("v1", "v2")))
			p.expectCalls("Nominate m1, Nominate m2")
			p.reply("m1", test.err)
			p.expect(test.said, "NominationFailed m3", "EvictFailed v1", "EvictFailed v2", "VictimsGone j pods=0 members=3 failed=2")
			p.expectCalls("")
			p.reply("m2", nil) // it was in flight
			p.expect("Nominated m2")
			p.end()
		})
	}
}

func TestPromiseIsTriedAgainUntilItsDeadline(t *testing.T) {
	p := play(t, Options{})
	p.submit(planned("j", listed("m1", "m2"), listed("v")))
	p.calls()
	p.reply("m1", nil)
	p.reply("m2", apierrors.NewTooManyRequests("busy", 20))
	p.pass(20 * time.Second)
	p.expectCalls("Nominate m2 #2")
	p.reply("m2", apierrors.NewTooManyRequests("busy", 20))
	p.pass(10 * time.Second)
	p.expect("Nominated m1", "NominationFailed m2 refused", "EvictFailed v", "VictimsGone j pods=0 members=2 failed=1")
	p.end()
}

func TestDeletedMemberSparesTheVictims(t *testing.T) {
	for name, until := range map[string]func(*player){
		"before its nomination is sent": func(*player) {},
		"in flight":                     func(p *player) { p.calls() },
		"nominated": func(p *player) {
			p.calls()
			p.reply("m1", nil)
		},
		"all nominated, victims wait for a worker": func(p *player) {
			p.calls()
			p.replies(nil, "m1", "m2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, Options{})
			p.submit(planned("j", listed("m1", "m2"), listed("v1", "v2")))
			until(p)
			p.cancel("m1")
			for range 3 {
				for _, call := range p.Calls(p.now) {
					if call.Kind != CallNominate {
						t.Errorf("%s of %s for a pod that is gone", call.Kind, call.Pod)
					}
					p.inFlight = append(p.inFlight, call)
				}
				for len(p.inFlight) > 0 {
					p.reply(p.inFlight[0].Pod.Name, nil)
				}
			}
			p.said = nil
			p.end()
		})
	}
}

// TestEvictionsForRoomThatIsNotNeededAreCalledOff: those that are not in flight.
func TestEvictionsForRoomThatIsNotNeededAreCalledOff(t *testing.T) {
	for name, decision := range map[string]model.Decision{"given back": givenBack("j", "m"), "started": binds("j", "m")} {
		t.Run(name, func(t *testing.T) {
			p := play(t, Options{Workers: 3})
			p.submit(planned("j", listed("m"), listed("v1", "v2", "v3", "v4")))
			p.submit(planned("k", listed("n"), listed("w")))
			p.calls()
			p.replies(nil, "m", "n")
			p.expectCalls("Evict v1, Evict v2, Evict v3")
			p.reply("v1", errServer)
			p.reply("v2", nil)
			p.said = nil
			p.submit(decision)
			p.expect()
			p.pass(time.Second)
			p.expect("EvictFailed v1", "EvictFailed v4")
			p.calls()
			p.reply("v3", errServer) // in flight, and not retried
			p.expect("EvictFailed v3", "VictimsGone j pods=1 members=1 failed=3")
			p.replies(nil, "m", "w")
			p.said = nil
			p.end()
		})
	}
}

func TestNewerDecisionTakesAPromisesPlace(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(binds("k", "b"))
	p.expectCalls("Bind b")
	p.submit(planned("j", listed("m"), listed("v")))
	p.submit(givenBack("j", "m"))
	p.submit(planned("j", listed("m"), listed("w")))
	p.reply("b", nil)
	p.said = p.said[:len(p.said)-2]
	p.expect("EvictFailed v", "VictimsGone j pods=0 members=1 failed=1", "NominationFailed m overtaken", "NominationReleased m overtaken")
	p.expectCalls("Nominate m")
	p.submit(givenBack("j", "m")) // the one before is in flight: this one waits for it
	p.expectCalls("")
	p.reply("m", nil)
	p.expectCalls("Nominate m")
	p.submit(binds("j", "m"))
	p.reply("m", nil)
	p.expect("EvictFailed w", "VictimsGone j pods=0 members=1 failed=1", "Nominated m", "NominationReleased m")
	p.expectCalls("Bind m")
	p.reply("m", nil)
	p.said = nil
	p.end()
}

func TestPromiseTakenBackIsBestEffort(t *testing.T) {
	p := play(t, Options{})
	p.submit(givenBack("j", "gone", "denied", "deaf", "fine"))
	p.calls()
	p.reply("gone", errGone)
	p.reply("denied", errDenied)
	p.reply("deaf", errServer)
	p.reply("fine", nil)
	p.expect("NominationReleased gone gone", "NominationReleased denied", "NominationReleased fine")
	for attempt := range 40 {
		p.pass(10 * time.Second)
		p.expectCalls(fmt.Sprintf("Nominate deaf #%d", attempt+2))
		p.reply("deaf", errLost)
	}
	p.pass(10 * time.Second)
	p.calls()
	p.reply("deaf", nil)
	p.expect("NominationReleased deaf")
	p.end()
}

// TestRoomGivenBackBesideAPromiseHoldsNothingUp: a new plan nominates one member and releases the nomination of another.
func TestRoomGivenBackBesideAPromiseHoldsNothingUp(t *testing.T) {
	p := play(t, Options{})
	decision := planned("j", listed("m", "n"), listed("v"))
	decision.Nominations = append(decision.Nominations, givenBack("j", "deaf").Nominations...)
	p.submit(decision)
	p.expectCalls("Nominate m, Nominate n, Nominate deaf")
	p.replies(nil, "m", "n")
	p.reply("deaf", errServer)
	p.expectCalls("Evict v")
	p.reply("v", nil)
	p.expect("Nominated m", "Nominated n", "Evicted v", "VictimsGone j pods=1 members=2 failed=0")
	p.pass(time.Second)
	p.calls()
	p.reply("deaf", nil)
	p.said = nil
	p.end()

	p = play(t, Options{})
	p.submit(decision)
	p.calls()
	p.reply("m", nil)
	busy := apierrors.NewTooManyRequests("busy", 20)
	p.replies(busy, "n", "deaf")
	p.pass(20 * time.Second)
	p.expectCalls("Nominate n #2, Nominate deaf #2")
	p.replies(busy, "n", "deaf")
	p.pass(10 * time.Second) // the nominations have a deadline all the same
	p.expect("Nominated m", "NominationFailed n refused", "EvictFailed v", "VictimsGone j pods=0 members=2 failed=1")
}

// TestConditionComesAfterAPromise, since it stays true: the pod waits.
func TestConditionComesAfterAPromise(t *testing.T) {
	p := play(t, Options{})
	p.write(condition("m", "waits"))
	p.submit(planned("j", listed("m"), nil))
	p.write(condition("m", "waits for victims"))
	p.expectCalls("Nominate m")
	p.reply("m", nil)
	p.expectCalls("PodCondition m=waits for victims")
	p.reply("m", nil)
	p.expect("Nominated m")
	p.end()
}

func TestRefusedVictimSparesTheOthers(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.submit(evictions("j", "v1", "v2", "v3"))
	p.submit(evictions("k", "w"))
	p.calls()
	p.reply("v1", budget())
	p.expect("EvictFailed v1 refused", "EvictFailed v3")
	p.reply("v2", errServer)
	p.expect("EvictFailed v2", "VictimsGone j pods=0 members=0 failed=3")
	p.expectCalls("Evict w")
	p.reply("w", errGone)
	p.expect("Evicted w gone", "VictimsGone k pods=0 members=0 failed=0")
	p.end()
}

func TestEvictionIsTriedAgainUntilItsDeadline(t *testing.T) {
	p := play(t, Options{})
	p.submit(evictions("j", "v1", "v2"))
	p.calls()
	p.replies(errServer, "v1", "v2")
	p.pass(time.Second)
	p.expectCalls("Evict v2 #2, Evict v1 #2")
	p.replies(apierrors.NewTooManyRequests("busy", 60), "v1", "v2")
	p.pass(29 * time.Second)
	p.expect("EvictFailed v1 refused", "EvictFailed v2 refused", "VictimsGone j pods=0 members=0 failed=2")
	p.end()
}

// TestVictimIsMarkedBeforeItIsDeleted, and the condition names the job.
func TestVictimIsMarkedBeforeItIsDeleted(t *testing.T) {
	p := play(t, Options{})
	decision := evictions("j", "v", "w", "x", "y")
	for i := range decision.Evictions {
		decision.Evictions[i].Method = model.ByDeletion
	}
	p.submit(decision)
	p.expectCalls("DisruptionTarget v, DisruptionTarget w, DisruptionTarget x, DisruptionTarget y")
	for _, call := range p.inFlight {
		want := corev1.PodCondition{
			Type: "DisruptionTarget", Status: "True", Reason: "PreemptionByScheduler", Message: "deleted to free capacity for PodGroup ns/j",
		}
		got := call.Write.(*PodCondition).Condition
		got.LastTransitionTime.Reset()
		if call.Write.(*PodCondition).Pod != call.Pod || got != want {
			t.Errorf("%s is marked %+v", call.Pod, got)
		}
	}
	p.reply("v", nil)
	p.expectCalls("Delete v")
	p.reply("v", errServer)
	p.pass(time.Second)
	p.expectCalls("Delete v #2")
	p.reply("v", errGone)
	p.reply("w", errGone)
	p.expect("Evicted v", "Evicted w gone") // the first attempt may have deleted it
	p.reply("x", errDenied)
	p.expect("EvictFailed x refused")
	p.reply("y", nil) // has the condition, and is not deleted: another victim was refused
	p.expect("EvictFailed y", "VictimsGone j pods=1 members=0 failed=2")
	p.end()
}

// TestAnExtendedPlanKeepsItsVictims: a decision that nominates the same members once more, and evicts one pod more, was made as
// if the victims of the earlier one were gone. All of them go when its nominations are confirmed.
func TestAnExtendedPlanKeepsItsVictims(t *testing.T) {
	p := play(t, Options{Workers: 1})
	first := planned("j", listed("m1", "m2"), listed("v1", "v2"))
	first.Evictions[0].Node = "node"
	p.submit(first)
	p.expectCalls("Nominate m1")
	p.submit(planned("j", listed("m1", "m2"), listed("v3")))
	p.reply("m1", nil)
	p.expectCalls("Nominate m2")
	p.reply("m2", nil)
	p.expectCalls("Nominate m1")
	p.reply("m1", nil)
	p.expectCalls("Evict v3")
	p.reply("v3", nil)
	p.expectCalls("Evict v1")
	p.reply("v1", nil)
	p.expectCalls("Evict v2")
	p.reply("v2", nil)
	p.expect("NominationFailed m2 overtaken", "Nominated m1", "Nominated m2", "Nominated m1", "Evicted v3", "Evicted v1", "Evicted v2",
		"VictimsGone j pods=3 members=2 failed=0")
	p.end()
}
