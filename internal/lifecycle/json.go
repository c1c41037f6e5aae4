package lifecycle

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/pkg/model"
)

// writtenGangs are gangs as a file has them.
type writtenGangs struct {
	Deadline     time.Duration   `json:"deadline"`
	Repair       time.Duration   `json:"repair"`
	LeadingSince time.Time       `json:"leadingSince"`
	Parts        []writtenPart   `json:"parts"`
	Unread       []writtenUnread `json:"unread"`
}

type writtenPart struct {
	Job      model.JobKey `json:"job"`
	Role     string       `json:"role,omitempty"`
	Group    types.UID    `json:"group"`
	Stage    stage        `json:"stage"`
	Minima   model.Minima `json:"minima"`
	Deadline time.Time    `json:"deadline,omitzero"`
	Named    bool         `json:"named,omitempty"`
	Lost     time.Time    `json:"lost,omitzero"`
}

type writtenUnread struct {
	Job    model.JobKey `json:"job"`
	Judged int          `json:"judged"`
}

// MarshalJSON writes down what is known of gangs, without their delays. Requests are by the positions of the state's dimensions.
func (g *Gangs) MarshalJSON() ([]byte, error) {
	written := writtenGangs{Deadline: g.deadline, Repair: g.repair, LeadingSince: g.leadingSince}
	byJob := func(a, b partID) int { return cmp.Or(a.job.Compare(b.job), strings.Compare(a.role, b.role)) }
	for _, id := range slices.SortedFunc(maps.Keys(g.parts), byJob) {
		r := g.parts[id]
		written.Parts = append(written.Parts, writtenPart{id.job, id.role, r.group, r.stage, r.minima, r.deadline, r.named, r.lost})
	}
	for _, job := range slices.SortedFunc(maps.Keys(g.unread), model.JobKey.Compare) {
		written.Unread = append(written.Unread, writtenUnread{job, g.unread[job]})
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads what was known of gangs. They have no delays before Clone gives them some.
func (g *Gangs) UnmarshalJSON(data []byte) error {
	var written writtenGangs
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	*g = Gangs{
		deadline: written.Deadline, repair: written.Repair, leadingSince: written.LeadingSince,
		parts: map[partID]record{}, unread: map[model.JobKey]int{},
	}
	for _, p := range written.Parts {
		g.parts[partID{p.Job, p.Role}] = record{p.Group, p.Stage, p.Minima, p.Deadline, p.Named, p.Lost}
	}
	for _, u := range written.Unread {
		g.unread[u.Job] = u.Judged
	}
	return nil
}

// Clone returns a copy that goes its own way, for another goroutine, with these delays.
func (g *Gangs) Clone(delays *backoff.Delays) *Gangs {
	clone := *g
	clone.parts, clone.unread, clone.delays = maps.Clone(g.parts), maps.Clone(g.unread), delays
	return &clone
}
