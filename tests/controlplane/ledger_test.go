package tests

import (
	"fmt"
	"sort"
	"strconv"
)

// databaseShares reads the live shares by pod uid directly from the ledger's file.
func (f *fixture) databaseShares() map[string][]share {
	f.Helper()
	rows, err := f.d.SQL(`SELECT a.uid, s.container, s.gpu, g.idx, s.milli, s.mib
		FROM share s JOIN allocation a ON a.id = s.allocation
		JOIN gpu g ON g.node = a.node AND s.gpu IN (g.id, g.alias)
		WHERE a.state <> 'released'`)
	f.check(err)
	byUID := map[string][]share{}
	for _, row := range rows {
		var numbers [3]int
		for i := range numbers {
			numbers[i], err = strconv.Atoi(row[3+i])
			f.check(err)
		}
		byUID[row[0]] = append(byUID[row[0]],
			share{row[1], row[2], numbers[0], numbers[1], numbers[2]})
	}
	for _, all := range byUID {
		sort.Slice(all, func(i, j int) bool { return fmt.Sprint(all[i]) < fmt.Sprint(all[j]) })
	}
	return byUID
}
