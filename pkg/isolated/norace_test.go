//go:build !race

package isolated

// detector is how many times as long the race detector lets everything take: there is none.
const detector = 1
