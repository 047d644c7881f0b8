package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// field is one key of a table of the file: how it is read and checked, and its
// documentation.
type field struct {
	key, kind, def, doc string
	get                 func() any        // the value that is set now
	set                 func(v any) error // reads and checks a value of the file
	check               func() error      // checks the value that is set now
	fill                func()            // sets the default where the value is zero; nil: no default

	table func(key string) ([]field, error) // the fields below a table

	// A table of tables with names has each, what a name stands for. names lists
	// the names that are set, and table returns the fields of one.
	each  string
	name  string // for a name in the documentation; empty: N
	names func() []string
}

// at makes the field whose value is kept in dst, def if the file does not set it.
func at[T any](key string, dst *T, k kind[T], def T, doc string) field {
	return field{key: key, kind: k.name, def: k.text(def), doc: doc,
		get: func() any { return *dst },
		set: func(v any) error {
			x, err := k.read(v)
			if err == nil || !reflect.ValueOf(&x).Elem().IsZero() { // so that what goes with it is not reported missing
				*dst = x
			}
			return err
		},
		check: func() error { return k.good(*dst) },
		fill: func() {
			if reflect.ValueOf(dst).Elem().IsZero() {
				*dst = def
			}
		},
	}
}

// zero makes the field whose value is kept in dst. The documentation describes its
// zero value by unset.
func zero[T any](key string, dst *T, k kind[T], unset, doc string) field {
	var none T
	f := at(key, dst, k, none, doc)
	f.def, f.check = unset, func() error {
		if reflect.ValueOf(dst).Elem().IsZero() {
			return nil
		}
		return k.good(*dst)
	}
	return f
}

// optional makes the field whose *dst is nil if the file does not set it.
func optional[T any](key string, dst **T, k kind[T], unset, doc string) field {
	return field{key: key, kind: k.name, def: unset, doc: doc,
		get: func() any { return *dst },
		set: func(v any) error {
			x, err := k.read(v)
			if err == nil {
				*dst = &x
			}
			return err
		},
		check: func() error {
			if *dst == nil {
				return nil
			}
			return k.good(**dst)
		},
	}
}

// fixed makes a table that is there once.
func fixed(key, doc string, below []field) field {
	return field{key: key, kind: "table", doc: doc, table: func(string) ([]field, error) { return below, nil }}
}

// each makes a table of tables with names, which are kept in m.
func each[K cmp.Ordered, V any](key, what, doc string, m *map[K]V, parse func(string) (K, error), fields func(*V) []field) field {
	return field{key: key, kind: "table", each: what, doc: doc,
		get: func() any { return *m },
		names: func() (names []string) {
			for _, k := range slices.Sorted(maps.Keys(*m)) {
				names = append(names, fmt.Sprint(k))
			}
			return names
		},
		table: func(name string) ([]field, error) {
			k, err := parse(name)
			if err != nil {
				return nil, err
			}
			v := (*m)[k]
			return append(fields(&v), field{set: func(any) error { // the reader's last step
				if *m == nil {
					*m = map[K]V{}
				}
				(*m)[k] = v
				return nil
			}}), nil
		},
	}
}

// below returns the fields of a table that is there once, nil for other fields.
func (f field) below() []field {
	if f.table == nil || f.each != "" || f.set != nil {
		return nil
	}
	below, _ := f.table("")
	return below
}

// withDefaults sets every zero value that has a default.
func withDefaults(fields []field) {
	for _, f := range fields {
		if f.fill != nil {
			f.fill()
		}
		withDefaults(f.below())
	}
}

// reloaded holds the keys that a reload puts into force. The others are read at the
// start.
var reloaded = map[string]bool{
	"http.tokens_file": true, "http.tls_cert": true, "http.tls_key": true, "http.client_ca": true, "http.clients": true, "http.hosts": true,
	"nats.tls_cert": true, "nats.tls_key": true, "nats.client_ca": true, "nats.users": true,
}

// NeedsRestart lists the keys, sorted, whose values differ and that a reload does
// not put into force. For types, pools, quotas, schedules and namespaces it names the table. Switching TLS on or off needs a restart, since connected clients speak
// the other way.
func NeedsRestart(old, changed Config) []string {
	keys := differing("", old.fields(), changed.fields())
	if (old.HTTP.TLSCert == "") != (changed.HTTP.TLSCert == "") {
		keys = append(keys, "http.tls_cert")
	}
	if (old.NATS.TLSCert == "") != (changed.NATS.TLSCert == "") {
		keys = append(keys, "nats.tls_cert")
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// differing compares the fields of a table, and of those in it.
func differing(path string, old, changed []field) (keys []string) {
	for i, f := range old {
		at := path + f.key
		switch {
		case f.each != "":
			keys = append(keys, differingTables(at+".", reflect.ValueOf(f.get()), reflect.ValueOf(changed[i].get()))...)
		case f.get != nil:
			if !reloaded[at] && !reflect.DeepEqual(f.get(), changed[i].get()) {
				keys = append(keys, at)
			}
		default:
			keys = append(keys, differing(at+".", f.below(), changed[i].below())...)
		}
	}
	return keys
}

// differingTables compares two maps of tables.
func differingTables(path string, old, changed reflect.Value) (keys []string) {
	for _, k := range append(old.MapKeys(), changed.MapKeys()...) {
		was, is := old.MapIndex(k), changed.MapIndex(k)
		if !was.IsValid() || !is.IsValid() || !reflect.DeepEqual(was.Interface(), is.Interface()) {
			keys = append(keys, path+fmt.Sprint(k.Interface()))
		}
	}
	return keys
}
