// Package placement finds places for the minimum of one job: all of it or nothing, on room that is idle or on room that is being
// released, too. Actions decide which job is tried, on which room, and what happens when it fails; this package decides
// nothing but where the members go.
package placement
