package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// The environment, which tells everything.
var (
	host       = os.Getenv("NODE_HOST")
	port       = number("NODE_PORT")
	securePort = number("NODE_SECURE_PORT")
	mutualPort = number("NODE_MUTUAL_PORT")
	driver     = os.Getenv("SUITE_DRIVER")
	rows       = number("SUITE_ROWS")
	quick      = os.Getenv("SUITE_QUICK") == "1"
	only       = os.Getenv("SUITE_ONLY")
)

const replication = "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"

var count int

// entry is one type, or one value of a type, in the table of types.
type entry struct {
	Type    string
	Since   int
	Except  []string
	Values  []entry
	Value   interface{}
	Repeat  int
	Reads   *interface{} `json:"-"`
	HasRead bool         `json:"-"`
	Cql     string
}

// UnmarshalJSON tells a `reads` of null from none.
func (e *entry) UnmarshalJSON(data []byte) error {
	type bare entry
	if err := json.Unmarshal(data, (*bare)(e)); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	if raw, ok := keys["reads"]; ok {
		e.Reads, e.HasRead = new(interface{}), true
		return json.Unmarshal(raw, e.Reads)
	}
	return nil
}

// applies says whether the entry is for this driver by this protocol version.
func (e entry) applies(version int) bool {
	for _, name := range e.Except {
		if name == driver {
			return false
		}
	}
	return e.Since <= version
}

// value is the entry's value, repeated as often as it says.
func (e entry) value() interface{} {
	if e.Repeat == 0 {
		return e.Value
	}
	if text, ok := e.Value.(string); ok {
		return strings.Repeat(text, e.Repeat)
	}
	var all []interface{}
	for i := 0; i < e.Repeat; i++ {
		all = append(all, e.Value.([]interface{})...)
	}
	return all
}

func (e entry) expected() string {
	if e.HasRead {
		return plain(*e.Reads)
	}
	return plain(e.value())
}

func cases(name string, into interface{}) {
	data, err := os.ReadFile(filepath.Join(os.Getenv("SUITE_CASES"), name))
	check(err)
	check(json.Unmarshal(data, into))
}

// test runs one test; what it panics with is why it failed.
func test(name string, body func() string) {
	if only != "" && !strings.Contains(name, only) && !strings.HasPrefix(name, "connect") {
		return
	}
	count++
	since := time.Now()
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("test %s ... FAILED\n%v\n%s\n", name, why, debug.Stack())
		}
	}()
	note := body()
	if note != "" {
		note = " (" + note + ")"
	}
	fmt.Printf("test %s ... ok [%.1f s]%s\n", name, time.Since(since).Seconds(), note)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(expected, got interface{}, what string) {
	if fmt.Sprint(expected) != fmt.Sprint(got) {
		panic(fmt.Sprintf("%s: expected %.300v, got %.300v", what, expected, got))
	}
}

func that(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func number(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}
