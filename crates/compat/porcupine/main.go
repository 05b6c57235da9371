// Program porcupine checks what clients saw of registers with conditional writes: whether one order of the calls explains it, by the checker of the Go package
// of that name. It is another program's second opinion of what the simulator's own checker says.
//
// The file, or standard input, has one call in a line, as JSON: key, start and end in nanoseconds (end null: nobody knows whether it happened), op "read" with seen, op "swap"
// with old, new and applied. Lines "history" begin another history, whose keys have nothing to do with those before. It prints one line for each history:
// "LINEARIZABLE calls", "ILLEGAL calls key" or "UNDECIDED calls key".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type call struct {
	Key     int64  `json:"key"`
	Op      string `json:"op"`
	Start   int64  `json:"start"`
	End     *int64 `json:"end"`
	Seen    *int64 `json:"seen"`
	Old     *int64 `json:"old"`
	New     *int64 `json:"new"`
	Applied *bool  `json:"applied"`
}

// What a register holds; the zero value: there is no row.
type value struct {
	is   bool
	held int64
}

func of(held *int64) value {
	if held == nil {
		return value{}
	}
	return value{true, *held}
}

var register = porcupine.Model{
	Init: func() interface{} { return value{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		holds, asked := state.(value), input.(call)
		if asked.Op == "read" {
			return of(asked.Seen) == holds, holds
		}
		matches := of(asked.Old) == holds
		if asked.Applied != nil && *asked.Applied != matches {
			return false, holds
		}
		if matches {
			return true, of(asked.New)
		}
		// One without an answer that never happened is put at the end, where it does not match.
		return true, holds
	},
	DescribeOperation: func(input, output interface{}) string { return fmt.Sprint(input) },
}

func judge(calls map[int64][]porcupine.Operation) {
	count := 0
	for _, operations := range calls {
		count += len(operations)
	}
	for key, operations := range calls {
		switch porcupine.CheckOperationsTimeout(register, operations, 10*time.Second) {
		case porcupine.Illegal:
			fmt.Println("ILLEGAL", count, key)
			return
		case porcupine.Unknown:
			fmt.Println("UNDECIDED", count, key)
			return
		}
	}
	fmt.Println("LINEARIZABLE", count)
}

func main() {
	input := os.Stdin
	if len(os.Args) > 1 {
		file, err := os.Open(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		input = file
	}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<20)
	calls, clients := map[int64][]porcupine.Operation{}, 0
	for lines.Scan() {
		if lines.Text() == "history" {
			if clients > 0 {
				judge(calls)
			}
			calls, clients = map[int64][]porcupine.Operation{}, 0
			continue
		}
		var one call
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			log.Fatalf("%s: %v", lines.Text(), err)
		}
		end := int64(math.MaxInt64)
		if one.End != nil {
			end = *one.End
		}
		// Every call is a client of its own: all the checker wants is that those of one client do not overlap.
		operation := porcupine.Operation{ClientId: clients, Input: one, Call: one.Start, Return: end}
		calls[one.Key] = append(calls[one.Key], operation)
		clients++
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	judge(calls)
}
