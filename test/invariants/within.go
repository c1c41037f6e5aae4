package invariants

import (
	"math/big"

	corev1 "k8s.io/api/core/v1"
)

// divided returns the same with what each queue may count on.
func (r *Reclaim) divided() *reclaim {
	c := &reclaim{Reclaim: r, parts: map[string]map[corev1.ResourceName]*part{}, lambda: map[string]map[corev1.ResourceName]*big.Rat{},
		contended: map[string]map[corev1.ResourceName]bool{}, supply: map[string]Amounts{}}
	c.divide("", r.Supply)
	return c
}

// Within returns the queues, from the taker's up, that are within their own guarantees with what the job gets.
func (r *Reclaim) Within() (names []string) {
	c := r.divided()
	for _, queue := range c.path(r.Taker) {
		if c.within(queue, r.Gains, nil) {
			names = append(names, queue)
		}
	}
	return names
}
