// The gocql driver, version 1 or 2, against a running node. The import of the driver is a placeholder that the build
// replaces; what the versions do not share is in version.go of each.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"messina.invalid/gocql"
)

// suite is one conversation: a session by one protocol version and compression.
type suite struct {
	session  *gocql.Session
	version  int
	keyspace string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "load" {
		loadCluster(os.Args[2])
		return
	}
	all := conversations
	if quick {
		all = all[:3]
	}
	for i, talk := range all {
		name := fmt.Sprintf(" v%d %s", talk.version, talk.compression)
		s := suite{version: talk.version, keyspace: driver}
		test("connect"+name, func() string {
			session := open(cluster(talk, port), "")
			defer session.Close()
			check(session.Query("DROP KEYSPACE IF EXISTS " + s.keyspace).Exec())
			check(session.Query("CREATE KEYSPACE " + s.keyspace + " WITH " + replication).Exec())
			var release string
			check(session.Query("SELECT release_version FROM system.local").Scan(&release))
			return release
		})
		s.session = open(cluster(talk, port), s.keyspace)
		test("types"+name, s.types)
		test("mistakes"+name, s.mistakes)
		test("prepared_across_changes"+name, s.preparedAcrossChanges)
		test("batches_timestamps_ttl"+name, s.batches)
		test("tracing_payload_warnings"+name, s.extras)
		test("metadata"+name, s.metadata)
		test("events"+name, func() string { return events(talk) })
		if i == 0 {
			test("paging"+name, s.paging)
		}
		check(s.session.Query("DROP KEYSPACE " + s.keyspace).Exec())
		s.session.Close()
	}
	for _, talk := range all {
		if talk.compression != "none" {
			name := fmt.Sprintf(" v%d %s", talk.version, talk.compression)
			test("tls_and_password"+name, func() string { return secure(talk) })
			test("client_certificate"+name, func() string { return clientCertificate(talk) })
		}
	}
	fmt.Printf("end %d\n", count)
}

func cluster(talk conversation, at int) *gocql.ClusterConfig {
	config := gocql.NewCluster(host)
	config.Port = at
	config.ProtoVersion = talk.version
	config.Compressor = compressor(talk.compression)
	config.Timeout = 60 * time.Second
	config.ConnectTimeout = 30 * time.Second
	config.Consistency = gocql.One
	config.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 0}
	config.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	quiet(config)
	return config
}

func open(config *gocql.ClusterConfig, keyspace string) *gocql.Session {
	config.Keyspace = keyspace
	session, err := config.CreateSession()
	check(err)
	return session
}

func (s suite) exec(text string, values ...interface{}) {
	if err := s.session.Query(text, values...).Exec(); err != nil {
		panic(fmt.Sprintf("%.200s: %v", text, err))
	}
}

// read is the text of the only column of the only row.
func (s suite) read(text string, values ...interface{}) string {
	iter := s.session.Query(text, values...).Iter()
	info := iter.Columns()[0].TypeInfo
	var into []interface{}
	if tuple, ok := info.(gocql.TupleTypeInfo); ok {
		// The driver spreads a tuple over as many destinations as it has elements.
		for _, elem := range tuple.Elems {
			into = append(into, reflect.New(reflect.PointerTo(goType(elem))).Interface())
		}
	} else {
		into = append(into, reflect.New(reflect.PointerTo(goType(info))).Interface())
	}
	that(iter.Scan(into...), "no row")
	check(iter.Close())
	if tuple, ok := info.(gocql.TupleTypeInfo); ok {
		parts := make([]string, len(into))
		nulls := true
		for i, elem := range tuple.Elems {
			parts[i] = show(reflect.ValueOf(into[i]).Elem(), elem)
			nulls = nulls && parts[i] == "null"
		}
		if nulls {
			return "null"
		}
		return list(parts)
	}
	return show(reflect.ValueOf(into[0]).Elem(), info)
}

func (s suite) types() string {
	var table struct {
		Setup []string
		Types []entry
	}
	cases("types.json", &table)
	for _, text := range table.Setup {
		s.exec(text)
	}
	var types []entry
	columns := ""
	for _, t := range table.Types {
		if t.applies(s.version) {
			columns += fmt.Sprintf(", c%d %s", len(types), t.Type)
			types = append(types, t)
		}
	}
	s.exec("DROP TABLE IF EXISTS types")
	s.exec("CREATE TABLE types (k int PRIMARY KEY" + columns + ")")
	key, values := 0, 0
	for i, t := range types {
		insert := fmt.Sprintf("INSERT INTO types (k, c%d) VALUES (?, ?)", i)
		query := fmt.Sprintf("SELECT c%d FROM types WHERE k = ?", i)
		iter := s.session.Query(query, -1).Iter()
		info := iter.Columns()[0].TypeInfo
		check(iter.Close())
		for _, e := range t.Values {
			if !e.applies(s.version) {
				continue
			}
			value := reflect.New(goType(info)).Elem()
			fill(value, info, e.value())
			key++
			bound, text := []interface{}{key, value.Interface()}, insert
			if tuple, ok := info.(gocql.TupleTypeInfo); ok {
				// The driver binds a tuple's elements, each to a marker of its own.
				bound = bound[:1]
				for j := range tuple.Elems {
					bound = append(bound, value.Field(j).Interface())
				}
				markers := strings.Repeat(", ?", len(tuple.Elems))[2:]
				text = fmt.Sprintf("INSERT INTO types (k, c%d) VALUES (?, (%s))", i, markers)
			}
			s.exec(text, bound...)
			equal(e.expected(), s.read(query, key), t.Type+" bound")
			if e.Cql != "" {
				key++
				s.exec(fmt.Sprintf("INSERT INTO types (k, c%d) VALUES (%d, %s)", i, key, e.Cql))
				equal(e.expected(), s.read(query, key), t.Type+" as "+e.Cql)
			}
			values++
		}
		s.exec(fmt.Sprintf("UPDATE types SET c%d = null WHERE k = ?", i), key)
		s.exec("INSERT INTO types (k) VALUES (?)", key)
		equal("null", s.read(query, key), t.Type+" set to null")
		if _, tuple := info.(gocql.TupleTypeInfo); s.version >= 4 && !tuple {
			key++
			s.exec(insert, key, gocql.UnsetValue)
			equal("null", s.read(query, key), t.Type+" left unset")
		}
	}
	return fmt.Sprintf("%d values of %d types", values, len(types))
}

type mistake struct {
	Name, How, Cql, Error, Says, Level string
	Values                             []interface{}
}

var codes = map[string]int{
	"syntax": gocql.ErrCodeSyntax, "invalid": gocql.ErrCodeInvalid, "exists": gocql.ErrCodeAlreadyExists,
	"config": gocql.ErrCodeConfig, "unauthorized": gocql.ErrCodeUnauthorized, "unavailable": gocql.ErrCodeUnavailable,
}

func (s suite) mistakes() string {
	var table struct {
		Setup    []string
		Mistakes []mistake
	}
	cases("mistakes.json", &table)
	for _, text := range table.Setup {
		s.exec(text)
	}
	for _, m := range table.Mistakes {
		err := s.make(m)
		var told gocql.RequestError
		that(errors.As(err, &told), fmt.Sprintf("%s: %v", m.Name, err))
		equal(codes[m.Error], told.Code(), m.Name+": "+told.Message())
		that(strings.Contains(told.Message(), m.Says), m.Name+" does not say "+m.Says+": "+told.Message())
		var few *gocql.RequestErrUnavailable
		if errors.As(err, &few) {
			equal("2 1", fmt.Sprint(few.Required, " ", few.Alive), m.Name)
		}
		var exists *gocql.RequestErrAlreadyExists
		if errors.As(err, &exists) {
			equal(s.keyspace+".rows", exists.Keyspace+"."+exists.Table, m.Name)
		}
	}
	return fmt.Sprintf("%d mistakes", len(table.Mistakes))
}

func (s suite) make(m mistake) error {
	// The driver prepares what is not a change of the schema, so both ways end in PREPARE first.
	var values []interface{}
	for _, value := range m.Values {
		if text, ok := value.(string); ok {
			var n int
			fmt.Sscan(text, &n)
			value = n
		}
		values = append(values, value)
	}
	if m.How == "prepare" {
		return s.session.Bind(m.Cql, func(info *gocql.QueryInfo) ([]interface{}, error) {
			return nil, errors.New("it was prepared")
		}).Exec()
	}
	query := s.session.Query(m.Cql, values...)
	if m.Level != "" {
		query = query.Consistency(gocql.ParseConsistency(m.Level))
	}
	return query.Exec()
}

func (s suite) preparedAcrossChanges() string {
	s.exec("CREATE TABLE changing (k int PRIMARY KEY, v int)")
	insert, query := "INSERT INTO changing (k, v) VALUES (?, ?)", "SELECT * FROM changing WHERE k = ?"
	s.exec(insert, 1, 2)
	read := func() map[string]interface{} {
		row := map[string]interface{}{}
		check(s.session.Query(query, 1).MapScan(row))
		return row
	}
	equal(map[string]interface{}{"k": 1, "v": 2}, read(), "before")
	s.exec("ALTER TABLE changing ADD w text")
	s.exec(insert, 2, 3)
	s.exec("UPDATE changing SET w = 'new' WHERE k = 1")
	row := read()
	equal("1 2", fmt.Sprint(row["k"], " ", row["v"]), "after ADD")
	if s.version >= 5 {
		equal("new", row["w"], "w after ADD")
	}
	equal("new", s.read("SELECT w FROM changing WHERE k = ?", 1), "w")
	s.exec("ALTER TABLE changing DROP v")
	if s.version >= 5 {
		row = read()
		_, there := row["v"]
		that(row["w"] == "new" && !there, fmt.Sprint("after DROP: ", row))
	}
	var told gocql.RequestError
	that(errors.As(s.session.Query(insert, 3, 4).Exec(), &told), "a dropped column was written")
	equal(gocql.ErrCodeInvalid, told.Code(), told.Message())
	s.exec("DROP TABLE changing")
	that(errors.As(s.session.Query(query, 1).Exec(), &told), "a dropped table was read")
	equal(gocql.ErrCodeInvalid, told.Code(), told.Message())
	return ""
}

func (s suite) batches() string {
	s.exec("CREATE TABLE batched (k int, c int, v int, PRIMARY KEY (k, c))")
	for _, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := s.session.NewBatch(kind)
		for c := 0; c < 20; c++ {
			batch.Query("INSERT INTO batched (k, c, v) VALUES (?, ?, ?)", c%3, c, c)
		}
		batch.Query("INSERT INTO batched (k, c, v) VALUES (?, 100, ?)", 7, 1)
		batch.Query("DELETE FROM batched WHERE k = 0 AND c = 0")
		check(s.session.ExecuteBatch(batch.WithTimestamp(5000)))
		equal("20", s.read("SELECT count(*) FROM batched"), "rows of a batch")
		equal("5000", s.read("SELECT writetime(v) FROM batched WHERE k = 7"), "its time")
		s.exec("TRUNCATE batched")
	}
	insert := "INSERT INTO batched (k, c, v) VALUES (?, ?, ?)"
	check(s.session.Query(insert, 1, 1, 10).WithTimestamp(2000).Exec())
	check(s.session.Query(insert, 1, 1, 20).WithTimestamp(1000).Exec())
	equal("10", s.read("SELECT v FROM batched WHERE k = 1"), "the newer timestamp")
	equal("2000", s.read("SELECT writetime(v) FROM batched WHERE k = 1"), "the newer timestamp")
	s.exec("INSERT INTO batched (k, c, v) VALUES (2, 2, 2) USING TTL ?", 1000)
	left := 0
	fmt.Sscan(s.read("SELECT ttl(v) FROM batched WHERE k = 2"), &left)
	that(left > 900 && left <= 1000, fmt.Sprint("ttl ", left))
	s.exec("INSERT INTO batched (k, c, v) VALUES (3, 3, 3) USING TTL 1")
	time.Sleep(2100 * time.Millisecond)
	equal("0", s.read("SELECT count(*) FROM batched WHERE k = 3"), "rows that outlived their ttl")
	return ""
}

func (s suite) extras() string {
	s.exec("CREATE TABLE extras (k int PRIMARY KEY, v text)")
	query := s.session.Query("INSERT INTO extras (k, v) VALUES (1, 'v')")
	if s.version >= 4 {
		query = query.CustomPayload(map[string][]byte{"key": {1, 2}})
	}
	var trace bytes.Buffer
	check(query.Trace(gocql.NewTraceWriter(s.session, &trace)).Exec())
	that(strings.Contains(trace.String(), "Tracing session"), "traced: "+trace.String())
	if s.version < 4 {
		return ""
	}
	s.payloads()
	iter := s.session.Query("SELECT count(*) FROM extras").Iter()
	warnings := fmt.Sprint(iter.Warnings())
	check(iter.Close())
	that(strings.Contains(warnings, "Aggregation query used without partition key"), "warnings: "+warnings)
	return ""
}

// payloads: nobody reads them, nobody answers with one, nothing changes by them.
func (s suite) payloads() {
	payload := map[string][]byte{"key": {1, 2}, "empty": {}, "long": bytes.Repeat([]byte{7}, 300_000)}
	// The driver prepares what has values.
	for _, values := range [][]interface{}{{"v", 1}, {"prepared", 1}} {
		iter := s.session.Query("UPDATE extras SET v = ? WHERE k = ?", values...).CustomPayload(payload).Iter()
		equal(0, len(iter.GetCustomPayload()), "payload of an answer")
		check(iter.Close())
		equal(values[0], s.read("SELECT v FROM extras WHERE k = 1"), "written with a payload")
	}
	batch := s.session.NewBatch(gocql.LoggedBatch)
	batch.CustomPayload = payload
	batch.Query("UPDATE extras SET v = ? WHERE k = ?", "batched", 1)
	check(s.session.ExecuteBatch(batch))
	equal("batched", s.read("SELECT v FROM extras WHERE k = 1"), "written with a payload")
}

func (s suite) metadata() string {
	s.exec("CREATE TYPE IF NOT EXISTS point (x int, y int)")
	s.exec("CREATE TABLE described (a int, b text, c int, d timeuuid, s text static, " +
		"m map<int, frozen<list<text>>>, p frozen<point>, PRIMARY KEY ((a, b), c, d)) " +
		"WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' AND gc_grace_seconds = 99")
	check(s.session.AwaitSchemaAgreement(context.Background()))
	var keyspace *gocql.KeyspaceMetadata
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found, err := s.session.KeyspaceMetadata(s.keyspace)
		if err == nil && found.Tables["described"] != nil && found.UserTypes["point"] != nil {
			keyspace = found
			break
		}
		that(time.Now().Before(end), fmt.Sprint("the metadata lacks the table: ", err))
	}
	table := keyspace.Tables["described"]
	names := func(columns []*gocql.ColumnMetadata) (out []string) {
		for _, column := range columns {
			out = append(out, column.Name)
		}
		return
	}
	equal("[a b] [c d]", fmt.Sprint(names(table.PartitionKey), " ", names(table.ClusteringColumns)), "key")
	equal("[desc asc]", fmt.Sprint([]string{table.ClusteringColumns[0].ClusteringOrder, table.ClusteringColumns[1].ClusteringOrder}), "order")
	equal(gocql.ColumnStatic, table.Columns["s"].Kind, "kind of s")
	equal(gocql.TypeMap, table.Columns["m"].Type.Type(), "type of m")
	equal("[x y]", fmt.Sprint(keyspace.UserTypes["point"].FieldNames), "fields")
	return release(s.session)
}

func (s suite) paging() string {
	s.exec("CREATE TABLE pages (k bigint, c int, v text, PRIMARY KEY (k, c))")
	work := make(chan int, 1000)
	failed := make(chan error, 1)
	var group sync.WaitGroup
	for worker := 0; worker < 128; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range work {
				insert := s.session.Query("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)", int64(i/100), i%100, fmt.Sprint("value ", i))
				if err := insert.Exec(); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		}()
	}
	for i := 0; i < rows; i++ {
		work <- i
	}
	close(work)
	group.Wait()
	select {
	case err := <-failed:
		panic(err)
	default:
	}
	for _, size := range []int{5000, 997} {
		seen := make([]bool, rows)
		iter := s.session.Query("SELECT k, c, v FROM pages").PageSize(size).Iter()
		var k, last int64 = 0, -1
		var c, count, lastRow int
		var v string
		for iter.Scan(&k, &c, &v) {
			i := int(k)*100 + c
			that(!seen[i] && v == fmt.Sprint("value ", i), fmt.Sprint("row ", i, " came twice or as ", v))
			that(k != last || c > lastRow, fmt.Sprint("row ", i, " is out of order"))
			seen[i] = true
			count++
			last, lastRow = k, c
		}
		check(iter.Close())
		equal(rows, count, "rows")
	}
	first := s.session.Query("SELECT k, c FROM pages").PageSize(10).PageState(nil).Iter()
	state := first.PageState()
	equal(10, first.NumRows(), "rows of a page")
	check(first.Close())
	next := s.session.Query("SELECT k, c FROM pages").PageSize(10).PageState(state).Iter()
	equal(10, next.NumRows(), "rows of the next page")
	check(next.Close())
	return fmt.Sprintf("%d rows", rows)
}

// encrypted is TLS that trusts an authority and shows a client's certificate.
func encrypted(authority, client string) *gocql.SslOptions {
	pem, err := os.ReadFile(os.Getenv(authority))
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	that(config.RootCAs.AppendCertsFromPEM(pem), "no certificate in "+authority)
	if client != "" {
		own, err := tls.LoadX509KeyPair(os.Getenv(client), os.Getenv(client))
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return &gocql.SslOptions{Config: config, EnableHostVerification: true}
}

func clientCertificate(talk conversation) string {
	showing := func(client string) *gocql.ClusterConfig {
		config := cluster(talk, mutualPort)
		config.SslOpts = encrypted("NODE_AUTHORITY", client)
		return config
	}
	session := open(showing("NODE_CLIENT"), "")
	equal("local", suite{session: session, version: talk.version}.read("SELECT key FROM system.local"), "key")
	session.Close()
	for _, client := range []string{"NODE_IMPOSTOR", ""} {
		config := showing(client)
		config.ConnectTimeout = 10 * time.Second
		if session, err := config.CreateSession(); err == nil {
			session.Close()
			panic("who shows the certificate " + client + " was let in")
		}
	}
	return ""
}

func secure(talk conversation) string {
	with := func(authority, user, password string) *gocql.ClusterConfig {
		config := cluster(talk, securePort)
		config.ConnectTimeout = 10 * time.Second
		if authority != "" {
			config.SslOpts = encrypted(authority, "")
		}
		if user != "" {
			config.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
		}
		return config
	}
	root := open(with("NODE_AUTHORITY", "cassandra", "cassandra"), "")
	check(root.Query("CREATE ROLE IF NOT EXISTS " + driver + " WITH PASSWORD = 'it''s secret' AND LOGIN = true").Exec())
	root.Close()
	session := open(with("NODE_AUTHORITY", driver, "it's secret"), "")
	s := suite{session: session, version: talk.version}
	equal("local", s.read("SELECT key FROM system.local"), "key")
	session.Close()
	for _, wrong := range []struct {
		authority, user, password, says string
	}{
		{"NODE_AUTHORITY", driver, "wrong", "incorrect"},
		{"NODE_AUTHORITY", "nobody", "it's secret", "incorrect"},
		{"NODE_STRANGER", driver, "it's secret", "certificate"},
		{"NODE_AUTHORITY", "", "", "authentication required"},
		{"", driver, "it's secret", ""},
	} {
		session, err := with(wrong.authority, wrong.user, wrong.password).CreateSession()
		if err == nil {
			session.Close()
			panic(fmt.Sprintf("a session that must be refused was opened: %v", wrong))
		}
		that(strings.Contains(err.Error(), wrong.says), fmt.Sprintf("%v was refused by: %v", wrong, err))
	}
	return ""
}
