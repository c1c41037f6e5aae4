//go:build race

package isolated

// detector is how many times as long the race detector lets everything take, at most.
const detector = 10
