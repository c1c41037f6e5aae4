// Package placement finds places for the minimum of one job, all of it or nothing, on idle capacity or also on capacity that
// is being released. Actions decide which job is tried, on which capacity, and what happens when it fails; this package only
// decides where the members go.
package placement
