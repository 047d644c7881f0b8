package access

import (
	"errors"
	"io/fs"
	"net"
	"runtime"
	"strings"
)

// OthersMayRead reports whether a file of secrets is readable beyond its owner
// and group. Where the system has no such modes it is false.
func OthersMayRead(mode fs.FileMode) bool { return runtime.GOOS != "windows" && mode.Perm()&0o004 != 0 }

// ParseRoles reads a list of roles' names, which must not be empty.
func ParseRoles(list []string) (set Roles, err error) {
	for _, s := range list {
		r, err := ParseRole(strings.TrimSpace(s))
		if err != nil {
			return 0, err
		}
		set |= Roles(r)
	}
	if set == 0 {
		return 0, errors.New("there is no role: use some of submit, work, read and operate")
	}
	return set, nil
}

// IsLoopback reports whether only processes of this machine reach what listens
// on an address, host:port. A name other than localhost counts as reachable,
// since what it stands for may change.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
