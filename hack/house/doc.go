// Package house holds the tests of the house's own rules: who may import whom, how long a file and a function may get,
// and which habits are not ours. It has no code of its own, and it judges form alone, never what the code does.
package house
