package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// RealGPU returns the UUID of the first GPU of this machine and its name, as nvidia-smi shows them, or why there is none.
func RealGPU() (uuid, model, why string) {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		return "", "", "this machine has no NVIDIA GPU: " + err.Error()
	}
	out, err := Run("nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader")
	if err != nil {
		return "", "", "NVIDIA's driver does not work here: " + err.Error()
	}
	first, _, _ := strings.Cut(out, "\n")
	uuid, model, is := strings.Cut(first, ", ")
	if !is {
		return "", "", fmt.Sprintf("nvidia-smi says %q", out)
	}
	return uuid, strings.TrimSpace(model), ""
}

// UsesGPU builds tests/programs/uses_gpu.c into a folder.
func UsesGPU(dir string) (program string, err error) {
	program = filepath.Join(dir, "uses_gpu")
	_, err = Run("cc", "-O1", "-o", program, filepath.Join(Root(), "tests", "programs", "uses_gpu.c"), "-ldl")
	return program, err
}

/* the parts of the C library that NVIDIA's libraries name; a program needs no link to them any more */
var partsOfC = []string{"libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}

// ImportLinked gives the node an image of a program, the libraries to which it is linked, and all of the C library.
func (n *RealNode) ImportLinked(image, program string) error {
	linked, err := Run("ldd", program)
	if err != nil {
		return err
	}
	from := map[string]string{"usr/bin/" + filepath.Base(program): program}
	for _, word := range strings.Fields(linked) {
		if !filepath.IsAbs(word) {
			continue
		}
		from[strings.TrimPrefix(word, "/")] = word
		for _, name := range partsOfC {
			if filepath.Base(word) == "libc.so.6" {
				part := filepath.Join(filepath.Dir(word), name)
				from[strings.TrimPrefix(part, "/")] = part
			}
		}
	}
	files := []tarFile{{name: "tmp/", mode: 0o1777}}
	for name, path := range from {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, tarFile{name: name, mode: 0o755, data: data})
	}
	archive := filepath.Join(n.dir, "linked.tar")
	/* where images with CUDA look, and Debian's multiarch folder by itself */
	config := Object{"Entrypoint": []string{"/usr/bin/" + filepath.Base(program)},
		"Env": []string{"LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"}}
	if err := writeImage(archive, image, config, files); err != nil {
		return err
	}
	return n.importImage(archive)
}
