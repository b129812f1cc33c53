package procs

import (
	"fmt"
	"os"
)

// ResidentBytes is what the process holds in memory now (Linux: VmRSS).
func (n *Node) ResidentBytes() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.process().Pid()))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(status), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}
