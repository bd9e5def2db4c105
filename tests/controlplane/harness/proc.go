// Package harness starts a real control plane on loopback and everything that a test of milligpu
// needs around it: schedulers, milligpud, proxies that lose answers, a kubelet.
//
// Every process it starts is known by its pid, dies with the test binary, and writes a log whose
// end is printed when a test fails.
package harness

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Proc is one child process with its log.
type Proc struct {
	Name string
	Log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Pdeathsig kills a child when the *thread* that started it ends, so one thread that never ends starts all
// children.
var starter struct {
	once sync.Once
	jobs chan func()
}

func onStarterThread(job func()) {
	starter.once.Do(func() {
		starter.jobs = make(chan func())
		go func() {
			runtime.LockOSThread()
			for j := range starter.jobs {
				j()
			}
		}()
	})
	finished := make(chan struct{})
	starter.jobs <- func() { job(); close(finished) }
	<-finished
}

// Detached makes the processes started from now on outlive this program (cmd/up).
var Detached bool

// StartProc runs a program with its output in DIR/NAME.log (appended to when it exists).
func StartProc(name, dir, program string, args ...string) (*Proc, error) {
	p := &Proc{Name: name, Log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if Detached {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	onStarterThread(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid returns the process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Usage returns the CPU time that the process has used, and its resident memory in KiB.
func (p *Proc) Usage() (cpu time.Duration, rss int, err error) {
	proc := fmt.Sprintf("/proc/%d/", p.Pid())
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return 0, 0, err
	}
	/* behind the name: fields 3 and so on; utime and stime are 14 and 15, in hundredths of a second */
	var user, system int
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	_, err = fmt.Sscan(after, &rss)
	return time.Duration(user+system) * 10 * time.Millisecond, rss, err
}

// Running says whether it has not ended yet.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends one signal; a process that has ended is no error.
func (p *Proc) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Wait waits until the process ends by itself and returns its error.
func (p *Proc) Wait(limit time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		return fmt.Errorf("%s still runs after %s", p.Name, limit)
	}
}

// Kill sends SIGKILL and waits until the process has ended.
func (p *Proc) Kill() {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop sends SIGTERM, and SIGKILL after ten seconds.
func (p *Proc) Stop() { p.stopWithin(10 * time.Second) }

// End sends SIGTERM, SIGKILL only to what hangs, and tells when the process did not end well then: a sanitizer reports leaks at the end. One that has
// ended before is no error.
func (p *Proc) End() error {
	if p == nil || !p.Running() {
		return nil
	}
	p.stopWithin(Patience)
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.Name, p.err, p.Tail(40))
	}
	return nil
}

func (p *Proc) stopWithin(limit time.Duration) {
	if p == nil || !p.Running() {
		return
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(limit):
		p.Kill()
	}
}

// Tail returns the last lines of the log, for failure messages.
func (p *Proc) Tail(lines int) string {
	if p == nil {
		return ""
	}
	return TailFile(p.Log, lines)
}

// LinesWith returns the lines of a file that contain a word, or why it cannot be read.
func LinesWith(path, word string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var some []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, word) {
			some = append(some, strings.TrimRight(line, "\n"))
		}
	}
	return some
}

// TailFile returns the last lines of a file.
func TailFile(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// Run executes a command to its end and returns what it printed.
func Run(program string, args ...string) (string, error) { return RunIn("", program, args...) }

// RunIn is Run with a text on standard input.
func RunIn(stdin, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err,
			out.String())
	}
	return out.String(), err
}

// FreePorts asks the kernel for n different free loopback ports.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Patience is a limit that only a failing test reaches, on a machine with many other things to do, too. It is less than
// the five minutes after which kube-scheduler tries refused pods by itself, so that a wake-up that is missing is noticed.
const Patience = 90 * time.Second

// Until polls until the condition holds; the condition's text says what is still missing. What holds soon is seen soon.
func Until(limit time.Duration, condition func() (bool, string)) error {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		ok, missing := condition()
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s", limit, missing)
		}
		time.Sleep(pause)
	}
}
