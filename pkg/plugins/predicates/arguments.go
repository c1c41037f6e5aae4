package predicates

// Reader is what ReadArguments needs of a reader of arguments.
type Reader interface {
	// Refuse records that the argument's value is no good, in words that follow "must", if the argument is given.
	Refuse(name, must string)
}

// ReadArguments refuses kube-batch's switches in words that help; every other argument is for the reader to refuse as
// unknown. The plugin takes none.
func ReadArguments(r Reader) {
	for _, pressure := range []string{"Memory", "Disk", "PID"} {
		r.Refuse("predicate."+pressure+"PressureEnable",
			"be left out, since a node under such pressure carries a taint, and taints are always heeded")
	}
}
