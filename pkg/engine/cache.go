package engine

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// Cache is what a session hands on to the next one: of each shape, which nodes may run it and their order; what actions found
// out about jobs; and what a session came to that decided nothing. None of it changes an answer, only what an answer costs. It
// also holds the refusals that the last session recorded, for Trail. The zero Cache is empty and ready.
//
// It belongs to the goroutine that runs the sessions, and to one series of snapshots.
type Cache struct {
	profile *Profile
	shapes  map[model.Shape]*shapeCache
	// levels are the levels of the profile, nil before they are asked for; domains are those of the levels that were asked for, by
	// the level's name.
	levels  levels
	domains map[string]*Domains
	// asked counts questions, to find the shape that was not asked about for longest.
	asked uint64
	// refused is how many jobs the last session refused.
	refused int
	// verdicts are what actions found out about jobs, emptied what they did about the cluster without the pods of jobs.
	verdicts, emptied verdicts
	snapshot          *model.Snapshot
	// trail are the refusals of the last session that was run.
	trail []Step
	// rest is what the last session came to, nil when the next one may come to something else.
	rest *idleResult
}

// shapeCache is what is remembered of one shape.
type shapeCache struct {
	static static
	// rankings are by model.CapacityKind, those of jobs that name levels of a topology second; nil until one is asked for.
	rankings [2][2]*ranking
	// fits are the same of how many fit on each node; nil until they are asked for.
	fits [2]*Fits
	// asked is the number of the last question about the shape.
	asked uint64
}

// maxCachedShapes bounds what is remembered, in shapes × nodes of about 40 bytes each, and up to 10 more where members share
// domains. Past it the shape that was not asked about for longest is asked again when it comes again, which costs time and
// nothing else.
const maxCachedShapes = 2_000_000

// begin prepares the cache for a session; what another profile led to is forgotten.
func (c *Cache) begin(profile *Profile, snapshot *model.Snapshot) {
	if c.profile != profile || c.shapes == nil {
		c.forget()
		c.profile, c.shapes = profile, map[model.Shape]*shapeCache{}
	}
	if c.snapshot != snapshot {
		c.snapshot, c.verdicts, c.emptied = snapshot, verdicts{}, verdicts{}
	}
}

// forget drops everything but the trail.
func (c *Cache) forget() {
	c.shapes, c.levels, c.domains, c.rest, c.verdicts, c.emptied = nil, nil, nil, nil, verdicts{}, verdicts{}
}

// lookup returns what is remembered of the shape, a new entry if there is none.
func (c *Cache) lookup(shape model.Shape, nodes int) *shapeCache {
	c.asked++
	k, ok := c.shapes[shape]
	if !ok {
		for len(c.shapes) > 0 && (len(c.shapes)+1)*nodes > maxCachedShapes {
			c.evictOldest()
		}
		k = &shapeCache{}
		c.shapes[shape] = k
	}
	k.asked = c.asked
	return k
}

func (c *Cache) evictOldest() {
	var oldest model.Shape
	least := c.asked + 1
	for shape, k := range c.shapes {
		if k.asked < least {
			oldest, least = shape, k.asked
		}
	}
	delete(c.shapes, oldest)
}
