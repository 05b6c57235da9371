package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/pierrec/lz4/v4"
	"messina.invalid/gocql"
)

type conversation struct {
	version     int
	compression string
}

// Version 1 knows no framing of protocol 5.
var conversations = []conversation{{4, "snappy"}, {3, "lz4"}, {4, "none"}, {4, "lz4"}, {3, "snappy"}, {3, "none"}}

func compressor(name string) gocql.Compressor {
	switch name {
	case "snappy":
		return &gocql.SnappyCompressor{}
	case "lz4":
		return blocks{}
	}
	return nil
}

// blocks is LZ4 as the protocol has it: the length in four bytes, and a block. The driver leaves it to its users.
type blocks struct{}

func (blocks) Name() string { return "lz4" }

func (blocks) Encode(data []byte) ([]byte, error) {
	out := make([]byte, 4+lz4.CompressBlockBound(len(data)))
	binary.BigEndian.PutUint32(out, uint32(len(data)))
	var compressor lz4.Compressor
	n, err := compressor.CompressBlock(data, out[4:])
	return out[:4+n], err
}

func (blocks) Decode(data []byte) ([]byte, error) {
	if len(data) < 4 {
		return nil, errors.New("an LZ4 body without its length")
	}
	out := make([]byte, binary.BigEndian.Uint32(data))
	if len(out) == 0 {
		// The library wants room for a byte. Cassandra compresses empty bodies, too.
		return out, nil
	}
	n, err := lz4.UncompressBlock(data[4:], out)
	return out[:n], err
}

func vectorElem(gocql.TypeInfo) (gocql.TypeInfo, bool) { return nil, false }

func quiet(config *gocql.ClusterConfig) { config.Logger = log.New(io.Discard, "", 0) }

func release(*gocql.Session) string { return "" }

// events: version 1 has no listeners; its metadata must follow what another session changes, told by events.
func events(talk conversation) string {
	listening, changing := open(cluster(talk, port), ""), open(cluster(talk, port), "")
	defer listening.Close()
	defer changing.Close()
	follows := func(text string, holds func(*gocql.KeyspaceMetadata) bool) {
		check(changing.Query(text).Exec())
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			keyspace, err := listening.KeyspaceMetadata("gocql1_events")
			if err == nil && holds(keyspace) {
				return
			}
			that(time.Now().Before(end), fmt.Sprint("not told of ", text, ": ", err))
		}
	}
	defer changing.Query("DROP KEYSPACE IF EXISTS gocql1_events").Exec()
	follows("CREATE KEYSPACE gocql1_events WITH "+replication, func(k *gocql.KeyspaceMetadata) bool { return len(k.Tables) == 0 })
	follows("CREATE TABLE gocql1_events.told (k int PRIMARY KEY)", func(k *gocql.KeyspaceMetadata) bool { return k.Tables["told"] != nil })
	follows("ALTER TABLE gocql1_events.told ADD v int", func(k *gocql.KeyspaceMetadata) bool { return k.Tables["told"].Columns["v"] != nil })
	follows("DROP TABLE gocql1_events.told", func(k *gocql.KeyspaceMetadata) bool { return k.Tables["told"] == nil })
	return ""
}
