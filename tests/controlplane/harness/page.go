package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a block of a page that has a mark: a comment alone in the line before it, `<!-- MARK -->` or `<!-- MARK: FILE -->`.
// CONTRIBUTING.md has the marks.
type Block struct {
	Mark    string
	File    string /* the block is the text of this file */
	Section string /* the heading above it */
	Text    string
	At      string /* PAGE:LINE, for messages */
}

var (
	mark    = regexp.MustCompile(`^( *)<!-- (run|run on a cluster|shown|needs [a-zA-Z ]+?)(?:: (\S+))? -->$`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
)

// Page returns the marked blocks of a page of the tree, in order.
func Page(page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(Root(), page))
	if err != nil {
		return nil, err
	}
	return Blocks(page, string(text))
}

// Blocks returns the marked blocks of a text, in order.
func Blocks(page, text string) ([]Block, error) {
	var blocks []Block
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if found := heading.FindStringSubmatch(lines[i]); found != nil {
			section = found[1]
		}
		found := mark.FindStringSubmatch(lines[i])
		if found == nil {
			continue
		}
		b := Block{Mark: found[2], File: found[3], Section: section, At: fmt.Sprintf("%s:%d", page, i+1)}
		last := 0
		if b.Text, last = blockAfter(lines[i+1:], found[1]); b.Text == "" {
			return nil, fmt.Errorf("%s: no block is below the mark", b.At)
		}
		blocks = append(blocks, b)
		i += last
	}
	return blocks, nil
}

/* The block at the beginning of lines, and how many of them it takes: fenced, or indented by four columns more than the text
 * that it belongs to. "": these lines begin with no block. */
func blockAfter(lines []string, indent string) (block string, taken int) {
	for taken < len(lines) && strings.TrimSpace(lines[taken]) == "" {
		taken++
	}
	if taken == len(lines) {
		return "", taken
	}
	if strings.HasPrefix(lines[taken], indent+"```") {
		for taken++; taken < len(lines) && !strings.HasPrefix(lines[taken], indent+"```"); taken++ {
			block += strings.TrimPrefix(lines[taken], indent) + "\n"
		}
		return block, taken
	}
	for ; taken < len(lines); taken++ {
		if strings.HasPrefix(lines[taken], indent+"    ") {
			block += lines[taken][len(indent)+4:] + "\n"
		} else if strings.TrimSpace(lines[taken]) == "" {
			block += "\n"
		} else {
			break
		}
	}
	return strings.TrimRight(block, "\n") + strings.Repeat("\n", min(1, len(strings.TrimSpace(block)))), taken - 1
}

/* what differs between two runs of the same commands */
var differs = []struct {
	what *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\d{8}T?\d{6}Z?`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{10,64}\b`), "ID"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|s|m|h|min)\b`), "LONG"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(bytes|[KMG]i?B)\b`), "SIZE"},
	// the agent knows it from the first container that is made after its own start, maybe of another pod
	{regexp.MustCompile(`\bvalidator (on|not known until a container is made)`), "validator ON"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// Masked is an output without what differs between two runs: times, ids, sizes, and how wide its columns are.
func Masked(output string) string {
	for _, d := range differs {
		output = d.what.ReplaceAllString(output, d.mask)
	}
	return strings.TrimSpace(output)
}

// SameOutput says whether a command has printed what a page shows, but for what Masked leaves out. A line "..." of the page
// stands for any number of lines.
func SameOutput(shown, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range strings.Split(Masked(shown), "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(regexp.QuoteMeta(strings.TrimSpace(line)) + ` ?\n`)
	}
	return regexp.MustCompile(pattern.String() + `$`).MatchString(trimLines(Masked(printed)) + "\n")
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
