package config

import (
	"maps"
	"slices"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
)

// roleQuota reads [quotas.ROLE].
func (c *Config) roleQuota(key string) ([]field, error) {
	role, err := access.ParseRole(key)
	if err != nil {
		return nil, err
	}
	l := new(quota.Limits)
	if c.Quotas.Roles == nil {
		c.Quotas.Roles = map[access.Role]quota.Limits{}
	}
	return after(quotaFields(l), func() { c.Quotas.Roles[role] = *l }), nil
}

// userQuota reads [user_quotas.NAME].
func (c *Config) userQuota(name string) ([]field, error) {
	l := new(quota.Limits)
	if c.Quotas.Users == nil {
		c.Quotas.Users = map[string]quota.Limits{}
	}
	return after(quotaFields(l), func() { c.Quotas.Users[name] = *l }), nil
}

func quotaFields(l *quota.Limits) []field {
	return []field{
		optional(quota.Items, integer[int], &l.ItemsPerSecond, "no limit", "items submitted in a second (`quota_exceeded`)"),
		optional(quota.Bytes, size, &l.BytesPerSecond, "no limit", "bytes of submissions in a second, over HTTP with the documents of large params"),
		optional(quota.Requests, integer[int], &l.RequestsPerSecond, "no limit", "requests in a second, those of workers about their runs not counted"),
		optional(quota.Types, integer[int], &l.Types, "no limit", "types that the user's submissions may create while the engine runs"),
		optional(quota.Waits, integer[int], &l.Waits, "no limit", "waits, long polls and feeds that are open at once"),
		optional(quota.Connections, integer[int], &l.Connections, "no limit", "connections to NATS; the server refuses the next one"),
		optional(quota.Subscriptions, integer[int], &l.Subscriptions, "no limit", "subscriptions on NATS; the server refuses the next one"),
		optional(quota.Payload, size, &l.PayloadBytes, "that of the server", "bytes of a message on NATS; the server closes a connection that sends more"),
	}
}

func (c Config) checkQuotas(ch *checker) {
	for _, role := range slices.Sorted(maps.Keys(c.Quotas.Roles)) {
		checkQuota(ch, "quotas."+role.String(), c.Quotas.Roles[role])
	}
	ch.in("user_quotas", int64(len(c.Quotas.Users)), 0, quota.MaxUserQuotas)
	for _, name := range slices.Sorted(maps.Keys(c.Quotas.Users)) {
		if name == "" || len(name) > quota.MaxNameLen {
			ch.failf("user_quotas", "has a user whose name has %d bytes: it must have 1 to %d", len(name), quota.MaxNameLen)
			continue
		}
		checkQuota(ch, "user_quotas."+name, c.Quotas.Users[name])
	}
}

func checkQuota(ch *checker, at string, l quota.Limits) {
	count := func(key string, n *int, most int64) {
		if n != nil {
			ch.in(at+"."+key, int64(*n), 0, most)
		}
	}
	count(quota.Items, l.ItemsPerSecond, quota.MaxRate)
	count(quota.Requests, l.RequestsPerSecond, quota.MaxRate)
	count(quota.Types, l.Types, quota.MaxTypes)
	count(quota.Waits, l.Waits, quota.MaxWaits)
	count(quota.Connections, l.Connections, quota.MaxConnects)
	count(quota.Subscriptions, l.Subscriptions, quota.MaxConnects)
	if l.BytesPerSecond != nil {
		ch.in(at+"."+quota.Bytes, *l.BytesPerSecond, 0, quota.MaxByteRate)
	}
	if p := l.PayloadBytes; p != nil && *p != 0 && (*p < quota.MinPayload || *p > quota.MaxPayload) {
		ch.failf(at+"."+quota.Payload, "is %d: it must be %d to %d, or 0 for no limit", *p, quota.MinPayload, quota.MaxPayload)
	}
}
