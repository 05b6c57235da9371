package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
	"messina.invalid/gocql"
)

type conversation struct {
	version     int
	compression string
}

var conversations = []conversation{{5, "lz4"}, {4, "snappy"}, {3, "none"}, {5, "none"}, {4, "lz4"}, {3, "snappy"}}

func compressor(name string) gocql.Compressor {
	switch name {
	case "snappy":
		return &snappy.SnappyCompressor{}
	case "lz4":
		return &lz4.LZ4Compressor{}
	}
	return nil
}

func vectorElem(info gocql.TypeInfo) (gocql.TypeInfo, bool) {
	vector, ok := info.(gocql.VectorType)
	return vector.SubType, ok
}

func quiet(config *gocql.ClusterConfig) { config.Logger = gocql.NewLogger(gocql.LogLevelNone) }

func release(session *gocql.Session) string { return fmt.Sprint(len(session.GetHosts()), " host") }

// listener writes down what it is told.
type listener struct {
	lock sync.Mutex
	told []string
}

func (l *listener) add(what, name string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.told = append(l.told, what+" "+name)
}

func (l *listener) all() []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return append([]string{}, l.told...)
}

func (l *listener) OnKeyspaceCreated(e gocql.OnKeyspaceCreatedEvent) {
	l.add("keyspace created", e.Keyspace.Name)
}
func (l *listener) OnKeyspaceUpdated(e gocql.OnKeyspaceUpdatedEvent) {
	l.add("keyspace updated", e.New.Name)
}
func (l *listener) OnKeyspaceDropped(e gocql.OnKeyspaceDroppedEvent) {
	l.add("keyspace dropped", e.Keyspace.Name)
}
func (l *listener) OnTableCreated(e gocql.OnTableCreatedEvent) { l.add("table created", e.Table.Name) }
func (l *listener) OnTableUpdated(e gocql.OnTableUpdatedEvent) { l.add("table updated", e.New.Name) }
func (l *listener) OnTableDropped(e gocql.OnTableDroppedEvent) { l.add("table dropped", e.Table.Name) }

func (l *listener) OnUserTypeCreated(e gocql.OnUserTypeCreatedEvent) {
	l.add("type created", e.UserType.Name)
}
func (l *listener) OnUserTypeUpdated(e gocql.OnUserTypeUpdatedEvent) {
	l.add("type updated", e.New.Name)
}
func (l *listener) OnUserTypeDropped(e gocql.OnUserTypeDroppedEvent) {
	l.add("type dropped", e.UserType.Name)
}

// events: what another session changes is told once each.
func events(talk conversation) string {
	told := &listener{}
	config := cluster(talk, port)
	config.Metadata.CacheMode = gocql.Full
	config.Metadata.SchemaListener.KeyspaceChangeListener = told
	config.Metadata.SchemaListener.TableChangeListener = told
	config.Metadata.SchemaListener.UserTypeChangeListener = told
	listening, changing := open(config, ""), open(cluster(talk, port), "")
	defer listening.Close()
	defer changing.Close()
	start := len(told.all())
	var expected []string
	for _, step := range [][2]string{
		{"CREATE KEYSPACE gocql2_events WITH " + replication, "keyspace created gocql2_events"},
		{"ALTER KEYSPACE gocql2_events WITH durable_writes = false", "keyspace updated gocql2_events"},
		{"CREATE TYPE gocql2_events.t (x int)", "type created t"},
		{"ALTER TYPE gocql2_events.t ADD y int", "type updated t"},
		{"DROP TYPE gocql2_events.t", "type dropped t"},
		{"CREATE TABLE gocql2_events.told (k int PRIMARY KEY)", "table created told"},
		{"ALTER TABLE gocql2_events.told ADD v int", "table updated told"},
		{"DROP TABLE gocql2_events.told", "table dropped told"},
		{"DROP KEYSPACE gocql2_events", "keyspace dropped gocql2_events"},
		// What was told twice stands before what is told of the next change.
		{"CREATE KEYSPACE gocql2_last WITH " + replication, "keyspace created gocql2_last"},
		{"DROP KEYSPACE gocql2_last", "keyspace dropped gocql2_last"},
	} {
		check(changing.Query(step[0]).Exec())
		expected = append(expected, step[1])
		for end := time.Now().Add(60 * time.Second); len(told.all()) < start+len(expected) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		equal(expected, told.all()[start:], "told after "+step[0])
	}
	return fmt.Sprint(len(expected), " events")
}
