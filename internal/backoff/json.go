package backoff

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// writtenEntry is the delay of a key, as a file has it.
type writtenEntry[K comparable] struct {
	Key    K              `json:"of"`
	Reason *model.Refusal `json:"reason"`
	Until  time.Time      `json:"until"`
	Delay  time.Duration  `json:"delay"`
}

// MarshalJSON writes the delays down, the first to end first. The policy is the program's and not among them.
func (b *Backoff[K]) MarshalJSON() ([]byte, error) {
	written := make([]writtenEntry[K], 0, len(b.entries))
	text := map[K]string{}
	for key, e := range b.entries {
		written = append(written, writtenEntry[K]{key, e.reason, e.until, e.delay})
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		text[key] = string(name)
	}
	slices.SortFunc(written, func(a, b writtenEntry[K]) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(text[a.Key], text[b.Key]))
	})
	return json.Marshal(written)
}

// UnmarshalJSON reads the delays, with the policy that the back-off has.
func (b *Backoff[K]) UnmarshalJSON(data []byte) error {
	var written []writtenEntry[K]
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	b.entries = make(map[K]entry, len(written))
	for _, e := range written {
		b.entries[e.Key] = entry{reason: e.Reason, until: e.Until, delay: e.Delay}
	}
	return nil
}
