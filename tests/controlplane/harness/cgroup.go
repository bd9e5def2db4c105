package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

const cgroupMount = "/sys/fs/cgroup"

func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers"))
	return err == nil
}

// cgroupDirs returns the folders of one cgroup: a single one with cgroup v2, one per controller with v1.
func cgroupDirs(name string) []string {
	if unified() {
		return []string{filepath.Join(cgroupMount, name)}
	}
	var dirs []string
	found, _ := filepath.Glob(cgroupMount + "/*/cgroup.procs")
	for _, procs := range found {
		dirs = append(dirs, filepath.Join(filepath.Dir(procs), name))
	}
	return dirs
}

// CgroupDir returns a folder below which each cgroup has one of its own, and the place of a process in it; with v1, those of
// the controller pids.
func CgroupDir(pid int) (dir, place string, err error) {
	dir, line := cgroupMount, "0::"
	if !unified() {
		dir, line = filepath.Join(cgroupMount, "pids"), ":pids:"
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", "", err
	}
	for _, each := range strings.Split(string(text), "\n") {
		if _, after, is := strings.Cut(each, line); is {
			return dir, after, nil
		}
	}
	return "", "", fmt.Errorf("process %d has no cgroup in %s:\n%s", pid, dir, text)
}

// makeCgroup makes the cgroup below which kubelet makes its own.
func makeCgroup(name string) error {
	for _, dir := range cgroupDirs(name) {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		/* a cpuset accepts no process until it has CPUs and memory nodes */
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil || unified() {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), above, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup kills the processes that are left in a cgroup and removes its folders, deepest first.
func removeCgroup(name string) error {
	return Until(Patience, func() (bool, string) {
		left := ""
		for _, top := range cgroupDirs(name) {
			var dirs []string
			_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			sort.Slice(dirs, func(i, j int) bool { return len(dirs[i]) > len(dirs[j]) })
			for _, dir := range dirs {
				killMembers(dir)
				if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
					left = fmt.Sprintf("rmdir %s: %v", dir, err)
				}
			}
		}
		return left == "", left
	})
}

// killCgroup kills all processes of a cgroup, and leaves its folders.
func killCgroup(name string) {
	for _, top := range cgroupDirs(name) {
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				killMembers(path)
			}
			return nil
		})
	}
}

func killMembers(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, line := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
