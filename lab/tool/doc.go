// Command tool is what lab/cmd/lab builds and runs: throw-away Kubernetes clusters for trying, testing and measuring Tutti.
// It is for developers and evaluators; nothing of it is installed anywhere.
//
// The files, in reading order:
//
//	main.go, up.go, demo.go, image.go, release.go                 a cluster, the demo, the images, a release
//	bench.go, benchmeasure.go, benchall.go                        benchmarks in common
//	benchprocess.go, benchspeed.go, benchstart.go, benchrest.go   one of each kind
//	audit.go, openb.go                                            the API server's log; a trace of a real cluster
package main
