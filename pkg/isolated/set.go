package isolated

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Limit is the greatest number of CPUs of a node. Ids are below it.
const Limit = 1024

// CPUSet is a set of CPU ids. It is a value: compared by ==, copied by assignment. The zero CPUSet is empty.
type CPUSet [Limit / 64]uint64

// NewCPUSet returns the set of ids. It panics on an id outside of 0…Limit-1, like an index.
func NewCPUSet(ids ...int) CPUSet {
	var s CPUSet
	for _, id := range ids {
		s[id/64] |= 1 << (id % 64)
	}
	return s
}

// ParseSet reads the kernel's list format, such as "0-3,8". An empty list, as of a machine without isolated CPUs, is the empty
// set. The error names the part that cannot be read.
func ParseSet(list string) (CPUSet, error) {
	var s CPUSet
	if strings.TrimSpace(list) == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		first, err := parseID(low)
		if err != nil {
			return CPUSet{}, fmt.Errorf("CPU list %q: %w", list, err)
		}
		last, err := parseID(high)
		if err != nil {
			return CPUSet{}, fmt.Errorf("CPU list %q: %w", list, err)
		}
		if last < first {
			return CPUSet{}, fmt.Errorf("CPU list %q: range %q goes backwards", list, part)
		}
		for id := first; id <= last; id++ {
			s[id/64] |= 1 << (id % 64)
		}
	}
	return s, nil
}

func parseID(text string) (int, error) {
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no CPU id", text)
	}
	if id >= Limit {
		return 0, fmt.Errorf("CPU id %d: at most %d CPUs are supported", id, Limit)
	}
	return int(id), nil
}

// String is the kernel's list format, ascending, with ranges where two or more ids follow each other; empty for no CPU.
func (s CPUSet) String() string {
	var b strings.Builder
	for id := s.Next(0); id >= 0; {
		last := id
		for s.Has(last + 1) {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(id))
		if last > id {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(last))
		}
		id = s.Next(last + 1)
	}
	return b.String()
}

// MarshalText writes the list format.
func (s CPUSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the list format.
func (s *CPUSet) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSet(string(text))
	return err
}

// Has reports whether the id is in the set; one outside of 0…Limit-1 is in none.
func (s CPUSet) Has(id int) bool { return id >= 0 && id < Limit && s[id/64]&(1<<(id%64)) != 0 }

// Next returns the lowest id in the set that is not below from, or -1.
func (s CPUSet) Next(from int) int {
	for id := from; id < Limit; id = (id/64 + 1) * 64 {
		if rest := s[id/64] >> (id % 64); rest != 0 {
			return id + bits.TrailingZeros64(rest)
		}
	}
	return -1
}

// Len returns how many ids are in the set.
func (s CPUSet) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Empty reports whether there is no id in the set.
func (s CPUSet) Empty() bool { return s == CPUSet{} }

// Union returns the ids that are in either.
func (s CPUSet) Union(o CPUSet) CPUSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Intersect returns the ids that are in both.
func (s CPUSet) Intersect(o CPUSet) CPUSet {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Minus returns the ids that are not in the other.
func (s CPUSet) Minus(o CPUSet) CPUSet {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

// Within reports whether all ids are in the other, too.
func (s CPUSet) Within(o CPUSet) bool { return s.Minus(o).Empty() }
