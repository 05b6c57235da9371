package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"messina.invalid/gocql"
)

// clusterLoad writes and reads on a cluster whose nodes come and go, as python/cluster_load.py does: `cases load FIRST`.
type clusterLoad struct {
	session *gocql.Session
	begin   time.Time
	lock    sync.Mutex
	acked   []int64
	Next    int64                `json:"next"`
	Writes  int                  `json:"writes"`
	Reads   int                  `json:"reads"`
	Wrong   []int64              `json:"wrong"`
	Errors  map[string][]float64 `json:"errors"`
}

func loadCluster(first string) {
	config := gocql.NewCluster(strings.Split(os.Getenv("CLUSTER_NODES"), ",")...)
	config.Port = port
	config.Timeout = 15 * time.Second
	config.ConnectTimeout = 10 * time.Second
	config.Consistency = gocql.ParseConsistency(os.Getenv("CLUSTER_LEVEL"))
	config.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(os.Getenv("CLUSTER_DC")))
	config.ReconnectInterval = 200 * time.Millisecond
	quiet(config)
	session := open(config, "load")
	defer session.Close()
	load := &clusterLoad{session: session, begin: time.Now(), Wrong: []int64{}, Errors: map[string][]float64{}}
	next, err := strconv.ParseInt(first, 10, 64)
	check(err)
	stop := make(chan struct{})
	go load.obey(stop)
	fmt.Println("STARTED")
	var workers sync.WaitGroup
	slots := make(chan struct{}, number("CLUSTER_IN_FLIGHT"))
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case slots <- struct{}{}:
			workers.Add(1)
			go func(key int64) {
				load.step(key)
				<-slots
				workers.Done()
			}(next)
			next++
		}
	}
	workers.Wait()
	load.Next = next
	load.keep()
	told, err := json.Marshal(load)
	check(err)
	fmt.Printf("DONE\n%s\n", told)
}

// step reads one of the acknowledged keys, at every other turn, or writes a new one.
func (l *clusterLoad) step(key int64) {
	l.lock.Lock()
	known := int64(-1)
	if len(l.acked) > 0 && key%2 == 1 {
		known = l.acked[key*7919%int64(len(l.acked))]
	}
	l.lock.Unlock()
	if known < 0 {
		err := l.session.Query("INSERT INTO load.rows (k, v) VALUES (?, ?)", key, valueOf(key)).Exec()
		l.lock.Lock()
		defer l.lock.Unlock()
		if err != nil {
			l.failed("write", err)
			return
		}
		l.acked = append(l.acked, key)
		l.Writes++
		return
	}
	var found string
	err := l.session.Query("SELECT v FROM load.rows WHERE k = ?", known).Scan(&found)
	l.lock.Lock()
	defer l.lock.Unlock()
	if err != nil && !errors.Is(err, gocql.ErrNotFound) {
		l.failed("read", err)
		return
	}
	l.Reads++
	if found != valueOf(known) {
		l.Wrong = append(l.Wrong, known)
	}
}

func (l *clusterLoad) failed(what string, err error) {
	class := fmt.Sprintf("%T", err)
	if class == "*errors.errorString" {
		class = err.Error()
	}
	class = what + " " + class
	l.Errors[class] = append(l.Errors[class], time.Since(l.begin).Seconds())
}

// obey does what standard input says while the load runs.
func (l *clusterLoad) obey(stop chan struct{}) {
	defer close(stop)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "CREATE":
			text := fmt.Sprintf("CREATE TABLE load.%s (k bigint PRIMARY KEY, v text)", words[1])
			if err := l.session.Query(text).Exec(); err != nil {
				fmt.Println("FAILED", err)
				continue
			}
			fmt.Println("CREATED", words[1])
		case "SEES":
			fmt.Println(l.sees(words[1]), words[1])
		default:
			return
		}
	}
}

func (l *clusterLoad) sees(table string) string {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if keyspace, err := l.session.KeyspaceMetadata("load"); err == nil && keyspace.Tables[table] != nil {
			return "SEES"
		}
	}
	return "BLIND"
}

func (l *clusterLoad) keep() {
	file, err := os.OpenFile(os.Getenv("CLUSTER_ACKED"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	out := bufio.NewWriter(file)
	for _, key := range l.acked {
		fmt.Fprintln(out, key)
	}
	check(out.Flush())
	check(file.Close())
}

func valueOf(key int64) string { return strings.Repeat(fmt.Sprintf("%d:", key), 5+int(key%20)) }
