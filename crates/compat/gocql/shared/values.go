package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"gopkg.in/inf.v0"
	"messina.invalid/gocql"
)

// goType is the Go type that holds values of a CQL type, nulls inside of it included.
func goType(info gocql.TypeInfo) reflect.Type {
	switch t := info.(type) {
	case gocql.CollectionType:
		if t.Type() == gocql.TypeMap {
			return reflect.MapOf(goType(t.Key), goType(t.Elem))
		}
		return reflect.SliceOf(goType(t.Elem))
	case gocql.TupleTypeInfo:
		fields := make([]reflect.StructField, len(t.Elems))
		for i, elem := range t.Elems {
			fields[i] = field(i, "", elem)
		}
		return reflect.StructOf(fields)
	case gocql.UDTTypeInfo:
		fields := make([]reflect.StructField, len(t.Elements))
		for i, elem := range t.Elements {
			fields[i] = field(i, elem.Name, elem.Type)
		}
		return reflect.StructOf(fields)
	}
	if elem, ok := vectorElem(info); ok {
		return reflect.SliceOf(goType(elem))
	}
	return reflect.TypeOf(sample(info))
}

func field(i int, name string, info gocql.TypeInfo) reflect.StructField {
	return reflect.StructField{
		Name: "F" + strconv.Itoa(i),
		Type: reflect.PointerTo(goType(info)),
		Tag:  reflect.StructTag(`cql:"` + name + `"`),
	}
}

func sample(info gocql.TypeInfo) interface{} {
	switch info.Type() {
	case gocql.TypeAscii, gocql.TypeText, gocql.TypeVarchar:
		return ""
	case gocql.TypeBigInt, gocql.TypeCounter:
		return int64(0)
	case gocql.TypeBlob:
		return []byte(nil)
	case gocql.TypeBoolean:
		return false
	case gocql.TypeDate, gocql.TypeTimestamp:
		return time.Time{}
	case gocql.TypeDecimal:
		return inf.Dec{}
	case gocql.TypeDouble:
		return float64(0)
	case gocql.TypeDuration:
		return gocql.Duration{}
	case gocql.TypeFloat:
		return float32(0)
	case gocql.TypeInet:
		return net.IP(nil)
	case gocql.TypeInt:
		return int(0)
	case gocql.TypeSmallInt:
		return int16(0)
	case gocql.TypeTime:
		return time.Duration(0)
	case gocql.TypeTinyInt:
		return int8(0)
	case gocql.TypeUUID, gocql.TypeTimeUUID:
		return gocql.UUID{}
	case gocql.TypeVarint:
		return big.Int{}
	}
	panic(fmt.Sprintf("no Go type for %v", info))
}

// fill sets a Go value to a value of the table.
func fill(into reflect.Value, info gocql.TypeInfo, value interface{}) {
	elems := func(elem gocql.TypeInfo) {
		values := value.([]interface{})
		into.Set(reflect.MakeSlice(into.Type(), len(values), len(values)))
		for i, v := range values {
			fill(into.Index(i), elem, v)
		}
	}
	fields := func(i int, elem gocql.TypeInfo) {
		if v := value.([]interface{})[i]; v != nil {
			into.Field(i).Set(reflect.New(into.Field(i).Type().Elem()))
			fill(into.Field(i).Elem(), elem, v)
		}
	}
	switch t := info.(type) {
	case gocql.CollectionType:
		if t.Type() != gocql.TypeMap {
			elems(t.Elem)
			return
		}
		into.Set(reflect.MakeMap(into.Type()))
		for _, pair := range value.([]interface{}) {
			key, held := reflect.New(into.Type().Key()).Elem(), reflect.New(into.Type().Elem()).Elem()
			fill(key, t.Key, pair.([]interface{})[0])
			fill(held, t.Elem, pair.([]interface{})[1])
			into.SetMapIndex(key, held)
		}
		return
	case gocql.TupleTypeInfo:
		for i, elem := range t.Elems {
			fields(i, elem)
		}
		return
	case gocql.UDTTypeInfo:
		for i, elem := range t.Elements {
			fields(i, elem.Type)
		}
		return
	}
	if elem, ok := vectorElem(info); ok {
		elems(elem)
		return
	}
	if flag, ok := value.(bool); ok {
		into.SetBool(flag)
		return
	}
	into.Set(reflect.ValueOf(scalar(info, value.(string))))
}

func scalar(info gocql.TypeInfo, text string) interface{} {
	number := func(text string, base, bits int) int64 {
		n, err := strconv.ParseInt(text, base, bits)
		check(err)
		return n
	}
	bits := func(size int) uint64 {
		n, err := strconv.ParseUint(text, 16, size)
		check(err)
		return n
	}
	raw := func() []byte {
		b, err := hex.DecodeString(text)
		check(err)
		return b
	}
	parts := strings.Split(text, ":")
	switch info.Type() {
	case gocql.TypeAscii, gocql.TypeText, gocql.TypeVarchar:
		return text
	case gocql.TypeBigInt:
		return number(text, 10, 64)
	case gocql.TypeBlob:
		return raw()
	case gocql.TypeDate:
		return time.Unix(number(text, 10, 64)*86400, 0).UTC()
	case gocql.TypeDecimal:
		unscaled, _ := new(big.Int).SetString(parts[0], 10)
		return *inf.NewDecBig(unscaled, inf.Scale(number(parts[1], 10, 32)))
	case gocql.TypeDouble:
		return math.Float64frombits(bits(64))
	case gocql.TypeDuration:
		return gocql.Duration{
			Months: int32(number(parts[0], 10, 32)), Days: int32(number(parts[1], 10, 32)),
			Nanoseconds: number(parts[2], 10, 64),
		}
	case gocql.TypeFloat:
		return math.Float32frombits(uint32(bits(32)))
	case gocql.TypeInet:
		return net.IP(raw())
	case gocql.TypeInt:
		return int(number(text, 10, 32))
	case gocql.TypeSmallInt:
		return int16(number(text, 10, 16))
	case gocql.TypeTime:
		return time.Duration(number(text, 10, 64))
	case gocql.TypeTimestamp:
		return time.UnixMilli(number(text, 10, 64)).UTC()
	case gocql.TypeTinyInt:
		return int8(number(text, 10, 8))
	case gocql.TypeUUID, gocql.TypeTimeUUID:
		id, err := gocql.ParseUUID(text)
		check(err)
		return id
	case gocql.TypeVarint:
		n, _ := new(big.Int).SetString(text, 10)
		return *n
	}
	panic(fmt.Sprintf("no value of %v", info))
}

// show is the text of a Go value that was read.
func show(value reflect.Value, info gocql.TypeInfo) string {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return "null"
		}
		value = value.Elem()
	}
	elems := func(elem gocql.TypeInfo) []string {
		parts := make([]string, value.Len())
		for i := range parts {
			parts[i] = show(value.Index(i), elem)
		}
		return parts
	}
	var parts []string
	switch t := info.(type) {
	case gocql.CollectionType:
		if value.IsNil() {
			return "null"
		}
		switch t.Type() {
		case gocql.TypeMap:
			for _, key := range value.MapKeys() {
				parts = append(parts, "["+show(key, t.Key)+","+show(value.MapIndex(key), t.Elem)+"]")
			}
			sort.Strings(parts)
		case gocql.TypeSet:
			parts = elems(t.Elem)
			sort.Strings(parts)
		default:
			parts = elems(t.Elem)
		}
		return list(parts)
	case gocql.TupleTypeInfo:
		for i, elem := range t.Elems {
			parts = append(parts, show(value.Field(i), elem))
		}
		return list(parts)
	case gocql.UDTTypeInfo:
		for i, elem := range t.Elements {
			parts = append(parts, show(value.Field(i), elem.Type))
		}
		return list(parts)
	}
	if elem, ok := vectorElem(info); ok {
		return list(elems(elem))
	}
	return text(value.Interface(), info)
}

func text(value interface{}, info gocql.TypeInfo) string {
	switch v := value.(type) {
	case []byte:
		return hex.EncodeToString(v)
	case net.IP:
		if four := v.To4(); four != nil {
			v = four
		}
		return hex.EncodeToString(v)
	case time.Time:
		if info.Type() == gocql.TypeDate {
			return strconv.FormatInt(v.Unix()/86400, 10)
		}
		return strconv.FormatInt(v.UnixMilli(), 10)
	case time.Duration:
		return strconv.FormatInt(int64(v), 10)
	case inf.Dec:
		return v.UnscaledBig().String() + ":" + strconv.Itoa(int(v.Scale()))
	case big.Int:
		return v.String()
	case float64:
		return fmt.Sprintf("%016x", math.Float64bits(v))
	case float32:
		return fmt.Sprintf("%08x", math.Float32bits(v))
	case gocql.Duration:
		return fmt.Sprintf("%d:%d:%d", v.Months, v.Days, v.Nanoseconds)
	}
	return fmt.Sprint(value)
}

// plain is the text of a value of the table.
func plain(value interface{}) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case []interface{}:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = plain(v[i])
		}
		return list(parts)
	}
	return fmt.Sprint(value)
}

func list(parts []string) string {
	return "[" + strings.Join(parts, ",") + "]"
}
