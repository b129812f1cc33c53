package embedded

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// identity is who Postgres runs as. The zero value is ourselves.
type identity struct {
	credential *syscall.Credential
	name       string
	// closed names a folder above the data that this user may not enter, and that the process gets a capability for.
	closed string
}

// chooseIdentity returns ourselves, or for root the owner of an existing cluster, else user postgres, else nobody.
func chooseIdentity(cluster string) (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			name := "user " + strconv.Itoa(int(st.Uid))
			if u, err := user.LookupId(strconv.Itoa(int(st.Uid))); err == nil {
				name = "user " + u.Username
			}
			return identity{credential: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}, name: name}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil || uid == 0 {
			continue
		}
		return identity{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, name: "user " + name}, nil
	}
	return identity{}, fmt.Errorf("%w: Postgres refuses to run as root, and there is neither a user postgres nor a user nobody to run it as", ErrStart)
}

// own gives path to the identity.
func (id identity) own(path string) error {
	if id.credential == nil {
		return nil
	}
	return os.Chown(path, int(id.credential.Uid), int(id.credential.Gid))
}

// closedTo returns the first folder on the way to dir, dir included, that the identity may not enter, or "".
func (id identity) closedTo(dir string) (string, error) {
	if id.credential == nil {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	var way []string
	for p := real; ; p = filepath.Dir(p) {
		way = append(way, p)
		if p == filepath.Dir(p) {
			break
		}
	}
	for i := len(way) - 1; i >= 0; i-- {
		info, err := os.Stat(way[i])
		if err != nil {
			return "", err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "", nil
		}
		search := os.FileMode(0o001)
		switch {
		case st.Uid == id.credential.Uid:
			search = 0o100
		case st.Gid == id.credential.Gid:
			search = 0o010
		}
		if info.Mode().Perm()&search == 0 {
			return way[i], nil
		}
	}
	return "", nil
}
