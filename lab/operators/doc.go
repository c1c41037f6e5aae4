// Package operators runs the controllers of other projects, as they were released, in the lab's cluster, so that tests see what
// they write and wait for. Each is built from its Go module, in a module of its own below modules, which pins its versions: they
// differ from ours, and from one another.
//
// Reading order: operators.go, mpi.go, training.go, certificates.go, ray.go, manifests.go, scaffold.go, trainer.go, spark.go.
//
// Some of them have ports and folders that no flag changes. Lock keeps other processes out while one runs.
package operators
