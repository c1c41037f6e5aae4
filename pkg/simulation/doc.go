// Package simulation plays the whole scheduler against a model of its surroundings.
package simulation
