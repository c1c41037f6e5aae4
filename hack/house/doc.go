// Package house holds the tests of the house's own rules: who may import whom, what is asked of whom, and which words and habits
// are not ours. exceptions.txt lists the places that break a rule for now. It has no code of its own, and it judges form alone,
// never what the code does.
package house
