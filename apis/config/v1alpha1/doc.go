// Package v1alpha1 is the scheduler's configuration: which actions run, in what order, which plugins advise them, in
// which tiers, and with which arguments. It knows the grammar, kube-batch's with Volcano's arguments for actions, and
// decodes it strictly: whatever would be ignored is an error with file, line and a suggestion.
//
// It does not know what an action or a plugin does. The names that exist are passed in (Known), and the package that owns an
// argument reads it (Arguments) and says what it may be. It reads no files either: it is handed their text.
//
//	actions: "allocate, backfill"
//	tiers:
//	- plugins:
//	  - name: priority
//	  - name: gang
//	    enableJobOrder: false              # one of kube-batch's nine switches; see Disable
//	- plugins:
//	  - name: predicates
//	  - name: nodeorder
//	    arguments: {leastrequested.weight: 2}
//	configurations:                        # arguments of actions
//	- name: backfill
//	  arguments: {reserveAfter: 10m}
//
// With apiVersion: config.tutti.dev/v1alpha1 at the top, a plugin may also say disable: [jobOrder], and the file pause: true and
// sources: {coscheduling: false}.
//
// The files, in reading order:
//
//	types.go, default.go               what a configuration is, and the built-in one
//	decode.go, plugins.go, foreign.go  a text becomes one; what users of kube-batch and Volcano write
//	sources.go                         which groups of other projects are read
//	topologies.go                      the racks, blocks and other domains of nodes
//	walk.go, errors.go                 on the way: nodes of YAML, and what is said about them
//	arguments.go                       what the owner of an argument reads
package v1alpha1
