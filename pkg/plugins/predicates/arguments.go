package predicates

import "github.com/tutti-sched/tutti/pkg/argument"

// Arguments are the plugin's arguments: kube-batch's switches, which have no effect here.
func Arguments() argument.List {
	const why = "a node under such pressure carries a taint, and taints are always heeded"
	var all argument.List
	for _, pressure := range []string{"Memory", "Disk", "PID"} {
		all = append(all, argument.Bool("predicate."+pressure+"PressureEnable", true).Ignored(why).
			WithHelp("kube-batch's; it has no effect: "+why))
	}
	return all
}
