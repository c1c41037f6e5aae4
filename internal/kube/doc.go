// Package kube holds the view of a snapshot that kube-scheduler's plugins read, and kube-scheduler's own filters and scores. They
// are built at the start of the process with what they need of a scheduler: listers, informers and a client. It is the one place
// that builds them, so that what this version of kube-scheduler wants, and what it must not be asked, is written down once.
//
// It does not run a scheduling cycle, decides nothing, and picks no nodes; the plugins that put these filters and scores
// into a session do that, through an interface of their own which Plugins satisfies. Feature gates are kube-scheduler's
// defaults. What not all API servers serve is watched where it is served.
//
// The files, in reading order:
//
//	view.go, viewnode.go, viewcheck.go         the snapshot as the plugins read it
//	plugins.go                                 how the plugins are made, and what they are given
//	filterstate.go                             the state of one question
//	gates.go                                   the feature gates, and what the API server serves
//	volumes.go, devices.go, deviceclasses.go   what volumes and devices decide
//	inventory.go, inventorywatch.go            which devices nodes have, by device class
//	reservations.go, reserve.go, keylocks.go   volumes and devices held for pods beside the session
//	onenode.go, allocations.go                 what a reservation sees of devices
//	namespaces.go, spreadowners.go             other objects that plugins read
package kube
