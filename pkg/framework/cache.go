package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// Cache is what sessions know about shapes and hand on to the next one: which nodes may run a shape, and their order. It
// changes no answer, only what an answer costs. The zero Memory is empty and ready.
//
// It belongs to the goroutine that runs the sessions, and to one series of snapshots.
type Cache struct {
	profile *Profile
	shapes  map[model.Shape]*shapeCache
	// asked counts questions, to find the shape that was not asked about for longest.
	asked uint64
	// pendingShapes is how many jobs waited at the end of the last session.
	pendingShapes int
	// verdicts are what actions found out about jobs, emptied what they did about the cluster without the pods of jobs.
	verdicts, emptied verdicts
	snapshot          *model.Snapshot
	trail             []Step
	// rest is what the last session came to, nil when the next one may come to something else.
	rest *idleResult
}

// shapeCache is what is remembered of one shape.
type shapeCache struct {
	static static
	// rankings are by model.Room; nil until one is asked for.
	rankings [2]*ranking
	// asked is the number of the last question about the shape.
	asked uint64
}

// maxCachedShapes bounds what is remembered, in shapes × nodes of about 40 bytes each. Past it the shape that was not asked
// about for longest is asked again when it comes again, which costs time and nothing else.
const maxCachedShapes = 2 << 20

// begin prepares the memory for a session; what another profile led to is forgotten.
func (m *Cache) begin(profile *Profile, snapshot *model.Snapshot) {
	if m.profile != profile || m.shapes == nil {
		m.forget()
		m.profile, m.shapes = profile, map[model.Shape]*shapeCache{}
	}
	if m.snapshot != snapshot {
		m.snapshot, m.verdicts, m.emptied = snapshot, verdicts{}, verdicts{}
	}
}

// forget drops everything.
func (m *Cache) forget() {
	m.shapes, m.rest, m.verdicts, m.emptied = nil, nil, verdicts{}, verdicts{}
}

// lookup returns what is remembered of the shape, made room for if it is new.
func (m *Cache) lookup(shape model.Shape, nodes int) *shapeCache {
	m.asked++
	k, ok := m.shapes[shape]
	if !ok {
		for len(m.shapes) > 0 && (len(m.shapes)+1)*nodes > maxCachedShapes {
			m.evictOldest()
		}
		k = &shapeCache{}
		m.shapes[shape] = k
	}
	k.asked = m.asked
	return k
}

func (m *Cache) evictOldest() {
	var oldest model.Shape
	least := m.asked + 1
	for shape, k := range m.shapes {
		if k.asked < least {
			oldest, least = shape, k.asked
		}
	}
	delete(m.shapes, oldest)
}

// DropHypotheticalShape drops what is remembered of a shape that only a hypothetical task has, so that it takes no place from
// others.
func (s *Session) DropHypotheticalShape(shape model.Shape) { delete(s.memory.shapes, shape) }
