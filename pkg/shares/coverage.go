package shares

import "slices"

// Worlds says which resource is in which world. One that is in neither decides nothing.
type Worlds struct {
	// Devices are extended resources, Ordinary the others that can be guaranteed.
	Devices, Ordinary World
}

// WorldOf returns the world in which the children of a queue, or of Root, are compared for a job that asks for so much of each
// resource: the devices if it asks for one that is contended there.
func (t *Tree) WorldOf(parent int, asks []int64, w Worlds) World {
	if t.contended(parent, asks, w.Devices) {
		return w.Devices
	}
	return w.Ordinary
}

func (t *Tree) contended(parent int, amounts []int64, world World) bool {
	return slices.ContainsFunc(world, func(r int) bool { return of(amounts, r) > 0 && t.Division(parent, r).Contended })
}

// ExchangeWorld returns the world in which a taker and the giver of a unit, children of parent, are compared: the devices if
// the unit gives one that is contended there and that the job needs. Else it is the ordinary one, and then ok is false if the
// unit has a device that is contended at the parent or above: a device is not idled for a CPU.
func (t *Tree) ExchangeWorld(parent int, unit, needs []int64, w Worlds) (world World, ok bool) {
	for _, r := range w.Devices {
		if of(unit, r) > 0 && of(needs, r) > 0 && t.Division(parent, r).Contended {
			return w.Devices, true
		}
	}
	for at := parent; ; at = t.queues[at].parent {
		if t.contended(at, unit, w.Devices) {
			return w.Ordinary, false
		}
		if at == Root {
			return w.Ordinary, true
		}
	}
}

// Deciding appends to buffer the resources that decide whether a job or a unit with such amounts is within the guarantee of a
// queue: the devices among them that the queue's own guarantee has. If there are none, nothing decides for one with a device
// that any queue guarantees: a guarantee of CPUs does not cover a device. For any other it is the ordinary resources among
// them that the queue's own guarantee has.
//
// A guarantee of 0 is none, so that a resource that a guarantee does not list decides nothing.
func (t *Tree) Deciding(buffer []int, queue int, amounts []int64, w Worlds) []int {
	return t.deciding(buffer, amounts, w, func(r int) bool { return t.amounts[t.at(queue, r)].Guarantee > 0 })
}

func (t *Tree) deciding(buffer []int, amounts []int64, w Worlds, guaranteed func(r int) bool) []int {
	devices, any := t.guaranteedOf(buffer, amounts, w.Devices, guaranteed)
	if any {
		return devices
	}
	ordinary, _ := t.guaranteedOf(buffer, amounts, w.Ordinary, guaranteed)
	return ordinary
}

// guaranteedOf reports, too, whether the amounts have some of a resource that any queue guarantees.
func (t *Tree) guaranteedOf(buffer []int, amounts []int64, world World, guaranteed func(r int) bool) (decide []int, any bool) {
	for _, r := range world {
		if of(amounts, r) <= 0 {
			continue
		}
		if any = any || t.guaranteed[r]; guaranteed(r) {
			buffer = append(buffer, r)
		}
	}
	return buffer, any
}

// StaysAtFloor reports whether a queue has its floor when its usage has changed by so much, in all resources that a unit with
// such amounts has in the world of the exchange, and in all that decide for it: as in Deciding, but by what is guaranteed to the
// queue and to those below it. In the world of the exchange a device does not decide alone: where only CPUs are contended, two
// queues that both lack CPUs of their floors would else take a member with a device from each other again and again.
func (t *Tree) StaysAtFloor(queue int, amounts, changes []int64, world World, w Worlds) bool {
	var buffer [maxInPlace]int
	deciding := t.deciding(buffer[:0], amounts, w, func(r int) bool { return t.parts[t.at(queue, r)].Guarantee > 0 })
	sinks := func(r int) bool {
		p := &t.parts[t.at(queue, r)]
		return of(amounts, r) > 0 && sum(p.Usage, of(changes, r)) < p.Floor
	}
	return !slices.ContainsFunc(deciding, sinks) && !slices.ContainsFunc(world, sinks)
}

// Guaranteed reports whether any queue has a guarantee.
func (t *Tree) Guaranteed() bool { return slices.Contains(t.guaranteed, true) }

// Kept returns the part of a queue's own guarantee, without those of the queues below it, that it has a use for.
func (t *Tree) Kept(queue, resource int) int64 {
	at := t.at(queue, resource)
	return min(t.amounts[at].Guarantee, t.parts[at].Floor)
}

// WithinGuarantee reports whether a job with such amounts is within a queue's own guarantee when the usage of the queue has
// changed by so much, in which the job itself is included: in all resources that decide. It is not if none does.
func (t *Tree) WithinGuarantee(queue int, amounts, changes []int64, w Worlds) bool {
	var buffer [maxInPlace]int
	deciding := t.Deciding(buffer[:0], queue, amounts, w)
	return len(deciding) > 0 && !slices.ContainsFunc(deciding, func(r int) bool {
		return sum(t.parts[t.at(queue, r)].Usage, of(changes, r)) > t.Kept(queue, r)
	})
}

// Unit is what is evicted together: one surplus pod, or all the rest of a gang.
type Unit struct {
	// Amounts are those that it uses, by resource; missing ones are 0.
	Amounts []int64
	// Covered reports that a guarantee covers it: as a whole, never in one resource alone.
	Covered bool
}

// Cover sets Covered of the units that a queue's own guarantee covers. The units are those of the queue and of all below it, in
// the order of the highest priority, the earliest start, and the minimum before surplus; those that are covered by a queue
// below come first, and stay covered. A unit is covered if what the ones before it left of Kept has enough in all that decides;
// one that is not is passed over.
//
// Invariant: in each resource, the units that the queue covers and for which it decides are at most Kept.
func (t *Tree) Cover(queue int, units []Unit, w Worlds) {
	left := make([]int64, t.resources)
	for r := range left {
		left[r] = t.Kept(queue, r)
	}
	var buffer [maxInPlace]int
	cover := func(u *Unit) {
		deciding := t.Deciding(buffer[:0], queue, u.Amounts, w)
		if len(deciding) == 0 || slices.ContainsFunc(deciding, func(r int) bool { return u.Amounts[r] > left[r] }) {
			return
		}
		for _, r := range deciding {
			left[r] -= u.Amounts[r]
		}
		u.Covered = true
	}
	for i := range units {
		if units[i].Covered {
			cover(&units[i])
		}
	}
	for i := range units {
		if !units[i].Covered {
			cover(&units[i])
		}
	}
}
