package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// opinion orders jobs by a table of ranks; jobs of equal rank it has no opinion on.
type opinion struct {
	named
	rank map[types.UID]int
}

func (o opinion) CompareJobs(a, b *model.Job) int { return o.rank[a.UID] - o.rank[b.UID] }

// TestFirstNonZero: the first plugin with an opinion decides against all others, then age, then creation, then UID; the whole
// is a total order.
func TestFirstNonZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []*model.Job
		for i := range 4 {
			jobs = append(jobs, &model.Job{
				UID: types.UID(fmt.Sprint(i)), QueuedSince: time.Unix(rapid.Int64Range(0, 1).Draw(t, "queued"), 0),
				Created: time.Unix(rapid.Int64Range(0, 1).Draw(t, "created"), 0),
			})
		}
		var ranks []map[types.UID]int
		var tiers []Tier
		for i := range rapid.IntRange(0, 4).Draw(t, "plugins") {
			rank := map[types.UID]int{}
			for _, job := range jobs {
				rank[job.UID] = rapid.IntRange(0, 1).Draw(t, "rank")
			}
			ranks = append(ranks, rank)
			tiers = append(tiers, Tier{always(opinion{named(fmt.Sprint(i)), rank})})
		}
		session := Open(house(), &Profile{Tiers: tiers}, Options{})
		for _, a := range jobs {
			for _, b := range jobs {
				if got, want := sign(session.CompareJobs(a, b)), expected(ranks, a, b); got != want {
					t.Fatalf("%s and %s: %d, want %d", a.UID, b.UID, got, want)
				}
				for _, c := range jobs {
					if session.CompareJobs(a, b) < 0 && session.CompareJobs(b, c) < 0 && session.CompareJobs(a, c) >= 0 {
						t.Fatalf("%s < %s < %s, but not %s < %s", a.UID, b.UID, c.UID, a.UID, c.UID)
					}
				}
			}
		}
	})
}

// expected is the rule written down a second time.
func expected(ranks []map[types.UID]int, a, b *model.Job) int {
	for _, rank := range ranks {
		if rank[a.UID] != rank[b.UID] {
			return sign(rank[a.UID] - rank[b.UID])
		}
	}
	for _, at := range [][2]time.Time{{a.QueuedSince, b.QueuedSince}, {a.Created, b.Created}} {
		if !at[0].Equal(at[1]) {
			return at[0].Compare(at[1])
		}
	}
	switch {
	case a.UID < b.UID:
		return -1
	case a.UID > b.UID:
		return 1
	}
	return 0
}

func sign(order int) int { return min(1, max(-1, order)) }

// says refuses with its own name, or agrees.
type says struct {
	named
	refuses bool
}

func (s says) answer() *model.Refusal {
	if s.refuses {
		return no(model.Code(s.named))
	}
	return nil
}

func (s says) ValidateJob(*model.Job) *model.Refusal                   { return s.answer() }
func (s says) JobReady(*model.Job, framework.Readiness) *model.Refusal { return s.answer() }
func (s says) PreFilter(*model.Task, framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { return s.answer() }}, nil
}

// TestFirstRefusal: yes when all say yes, else the first no in tier order, at each of the three points.
func TestFirstRefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refuses := rapid.SliceOfN(rapid.Bool(), 0, 5).Draw(t, "refuses")
		profile := &Profile{Tiers: []Tier{nil, nil}}
		want := ""
		for i, no := range refuses {
			name := fmt.Sprint("p", i)
			if no && want == "" {
				want = name
			}
			tier := i * 2 / len(refuses)
			profile.Tiers[tier] = append(profile.Tiers[tier], always(says{named(name), no}))
		}
		snapshot := house(1)
		job := join(snapshot, "a", 1, 1, nil)
		session := Open(snapshot, profile, Options{})
		_, tally := session.askFor(job.Tasks[0], model.Idle).BestOrWhy(job.Tasks[0], nil)
		filter := ""
		if tally != nil {
			filter = tally.Causes()[0].Detail
		}
		for point, got := range map[string]string{
			"validator": session.ValidateJob(job).String(),
			"gate":      session.JobReady(job, framework.Ready).String(),
			"filter":    filter,
		} {
			if got != want {
				t.Fatalf("%s: %q, want %q", point, got, want)
			}
		}
	})
}

// TestFoundWrongComesFirst: what the live state found wrong with a job is said before any plugin is asked.
func TestFoundWrongComesFirst(t *testing.T) {
	session := Open(house(), profileOf(says{"p", true}), Options{})
	if got := session.ValidateJob(&model.Job{Invalid: no("Found")}); got.Code != "Found" {
		t.Fatalf("got %v", got)
	}
}

// picker answers with the units of some numbers, or abstains.
type picker struct {
	named
	picks   []int
	abstain bool
}

func (p picker) FilterVictims(_ *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	if p.abstain {
		return units, false
	}
	var picked []framework.EvictionUnit
	for _, i := range p.picks {
		picked = append(picked, units[i])
	}
	clear(units) // what a picker does to its argument affects no other picker
	return picked, true
}

// TestFirstDecidedTier checks the rule against a plain reading of it: intersection in a tier; the first tier in which a plugin
// decided is final, also when no unit is left.
func TestFirstDecidedTier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var units []framework.EvictionUnit
		for i := range 4 {
			units = append(units, framework.EvictionUnit{Job: &model.Job{UID: types.UID(fmt.Sprint(i))}})
		}
		var tiers []Tier
		var want []int
		decided := false
		for range rapid.IntRange(0, 3).Draw(t, "tiers") {
			var tier Tier
			left := []int{0, 1, 2, 3}
			spoke := false
			for range rapid.IntRange(0, 3).Draw(t, "pickers") {
				p := picker{"p", rapid.SliceOfDistinct(rapid.IntRange(0, 3), rapid.ID).Draw(t, "picks"), rapid.Bool().Draw(t, "abstain")}
				tier = append(tier, always(p))
				if !p.abstain {
					spoke = true
					left = slices.DeleteFunc(left, func(i int) bool { return !slices.Contains(p.picks, i) })
				}
			}
			if spoke && !decided {
				want, decided = left, true
			}
			tiers = append(tiers, tier)
		}
		var got []int
		for _, unit := range Open(house(), &Profile{Tiers: tiers}, Options{}).Victims(&model.Job{Priority: 1}, units) {
			got = append(got, slices.IndexFunc(units, func(u framework.EvictionUnit) bool { return u.Job == unit.Job }))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("picked %v, want %v", got, want)
		}
	})
}

// TestVictimTiers names the cases that matter most.
func TestVictimTiers(t *testing.T) {
	units := []framework.EvictionUnit{{Job: &model.Job{UID: "a"}}, {Job: &model.Job{UID: "b"}}}
	none, first, abstains := picker{"none", nil, false}, picker{"first", []int{0}, false}, picker{"abstains", nil, true}
	for name, c := range map[string]struct {
		tiers [][]picker
		want  int
	}{
		"no plugin picks none":             {nil, 0},
		"where all abstain none is picked": {[][]picker{{abstains}, {abstains}}, 0},
		"to pick none is final":            {[][]picker{{none}, {first}}, 0},
		"the next tier after abstentions":  {[][]picker{{abstains}, {first}}, 1},
		"an abstention does not narrow":    {[][]picker{{abstains, first}}, 1},
		"to pick none narrows":             {[][]picker{{first, none}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			profile := &Profile{}
			for _, tier := range c.tiers {
				var members Tier
				for _, p := range tier {
					members = append(members, always(p))
				}
				profile.Tiers = append(profile.Tiers, members)
			}
			if got := Open(house(), profile, Options{}).Victims(&model.Job{Priority: 1}, units); len(got) != c.want {
				t.Errorf("%d units, want %d", len(got), c.want)
			}
		})
	}
}

// TestNormalize: scores end up in 0…100 and in the order they had (reversed for Reversed), with the ends where the rule
// says.
func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		how := rapid.SampledFrom([]framework.Normalization{framework.NormalizeByMax, framework.NormalizeReversed, framework.NormalizeMinMax}).Draw(t, "how")
		lowest := int64(0)
		if how == framework.NormalizeMinMax {
			lowest = -1 << 50
		}
		raw := rapid.SliceOfN(rapid.Int64Range(lowest, 1<<50), 1, 6).Draw(t, "raw")
		got := slices.Clone(raw)
		normalize(got, how)
		for i := range raw {
			if got[i] < 0 || got[i] > 100 {
				t.Fatalf("%d became %d", raw[i], got[i])
			}
			for j := range raw {
				if order := (got[i] - got[j]) * int64(sign(int(raw[i]-raw[j]))); how != framework.NormalizeReversed && order < 0 || how == framework.NormalizeReversed && order > 0 {
					t.Fatalf("%d and %d became %d and %d", raw[i], raw[j], got[i], got[j])
				}
			}
		}
	})
}

func TestNormalizeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		how       framework.Normalization
		raw, want []int64
	}{
		"as is":              {framework.NormalizeNone, []int64{3, 7}, []int64{3, 7}},
		"by max":             {framework.NormalizeByMax, []int64{0, 5, 10}, []int64{0, 50, 100}},
		"by max, all zero":   {framework.NormalizeByMax, []int64{0, 0}, []int64{0, 0}},
		"rounded down":       {framework.NormalizeByMax, []int64{1, 3}, []int64{33, 100}},
		"reversed":           {framework.NormalizeReversed, []int64{0, 5, 10}, []int64{100, 50, 0}},
		"reversed, all zero": {framework.NormalizeReversed, []int64{0, 0}, []int64{100, 100}},
		"by range":           {framework.NormalizeMinMax, []int64{-10, 0, 10}, []int64{0, 50, 100}},
		"by range, equal":    {framework.NormalizeMinMax, []int64{7, 7}, []int64{0, 0}},
		"none":               {framework.NormalizeByMax, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			normalize(c.raw, c.how)
			if !slices.Equal(c.raw, c.want) {
				t.Errorf("got %v, want %v", c.raw, c.want)
			}
		})
	}
}

// reviewer says one thing of every plan, and spoils the list it is given.
type reviewer struct {
	named
	objections []framework.VictimRejection
	refusal    *model.Refusal
	asked      *[]string
}

func (r reviewer) ProcessPreemption(_ *model.Job, proposals []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	*r.asked = append(*r.asked, fmt.Sprintf("%s:%d", r.named, len(proposals[0].Victims)))
	proposals[0] = framework.NodeVictims{}
	return r.objections, r.refusal
}

// TestReviewersMustAllAgree: the answer of the first that does not agree counts, and no reviewer behind it is asked.
func TestReviewersMustAllAgree(t *testing.T) {
	var asked []string
	agrees := reviewer{named: "agrees", asked: &asked}
	objects := reviewer{named: "objects", objections: []framework.VictimRejection{{By: "me"}}, asked: &asked}
	refuses := reviewer{named: "refuses", refusal: no("No"), asked: &asked}
	for _, c := range []struct {
		reviewers []framework.Plugin
		asked     string
		objection string
		refusal   string
	}{
		{nil, "[]", "", ""},
		{[]framework.Plugin{agrees, agrees}, "[agrees:1 agrees:1]", "", ""},
		{[]framework.Plugin{agrees, objects, refuses}, "[agrees:1 objects:1]", "me", ""},
		{[]framework.Plugin{agrees, refuses, objects}, "[agrees:1 refuses:1]", "", "No"},
	} {
		asked = nil
		session := Open(house(), profileOf(c.reviewers...), Options{})
		if got := session.HasPreemptionExtender(); got != (len(c.reviewers) > 0) {
			t.Errorf("%s: Reviewed() is %t", c.asked, got)
		}
		objections, refusal := session.ProcessPreemption(&model.Job{}, []framework.NodeVictims{{Victims: make([]*model.Task, 1)}})
		by := ""
		for _, o := range objections {
			by += o.By
		}
		if fmt.Sprint(asked) != c.asked || by != c.objection || refusal.String() != c.refusal {
			t.Errorf("asked %v, want %s: objection %q, want %q; refusal %q, want %q", asked, c.asked, by, c.objection, refusal, c.refusal)
		}
	}
}
