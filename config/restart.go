package config

import (
	"maps"
	"reflect"
	"slices"
)

// reloaded are the keys that a reload puts into force. The others are read at a
// start.
var reloaded = map[string]bool{
	"http.tokens_file": true, "http.tls_cert": true, "http.tls_key": true, "http.client_ca": true, "http.clients": true, "http.hosts": true,
	"nats.tls_cert": true, "nats.tls_key": true, "nats.client_ca": true, "nats.users": true,
}

// NeedsRestart lists the keys, sorted, whose values differ and which a reload
// does not put into force; of types, pools and schedules the tables. TLS that
// is switched on or off is one: who is connected speaks the other way.
func NeedsRestart(old, changed Config) []string {
	var keys []string
	for i, f := range old.fields() {
		if f.each != "" {
			continue
		}
		was, _ := f.table("")
		is, _ := changed.fields()[i].table("")
		keys = append(keys, differing(f.key, was, is)...)
	}
	if len(keys) == 0 && !reflect.DeepEqual(old.Defaults, changed.Defaults) {
		keys = append(keys, "defaults") // what is below its tables of priorities and codes
	}
	keys = append(keys, differingTables("types.", old.Types, changed.Types)...)
	keys = append(keys, differingTables("user_quotas.", old.Quotas.Users, changed.Quotas.Users)...)
	if !reflect.DeepEqual(old.Quotas.Roles, changed.Quotas.Roles) {
		keys = append(keys, "quotas")
	}
	keys = append(keys, differingTables("pools.", old.Pools, changed.Pools)...)
	keys = append(keys, differingTables("schedules.", old.Schedules, changed.Schedules)...)
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
		at := path + "." + f.key
		switch {
		case f.get != nil:
			if !reloaded[at] && !reflect.DeepEqual(f.get(), changed[i].get()) {
				keys = append(keys, at)
			}
		case f.table != nil && f.each == "":
			was, _ := f.table("")
			is, _ := changed[i].table("")
			keys = append(keys, differing(at, was, is)...)
		}
	}
	return keys
}

func differingTables[K ~string, V any](prefix string, old, changed map[K]V) (keys []string) {
	for name, was := range old {
		if is, there := changed[name]; !there || !reflect.DeepEqual(was, is) {
			keys = append(keys, prefix+string(name))
		}
	}
	for name := range maps.Keys(changed) {
		if _, there := old[name]; !there {
			keys = append(keys, prefix+string(name))
		}
	}
	return keys
}
