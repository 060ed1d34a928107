package queue

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// benchReport is what is written down.
type benchReport struct {
	Machine map[string]string `json:"machine"`
	Rows    []benchRow        `json:"rows"`
}

// benchRow is one figure of the table: what Go reached in each round and what it is compared with, Node unless Other says what.
type benchRow struct {
	Name  string    `json:"name"`
	Unit  string    `json:"unit"`
	Bar   string    `json:"bar"`
	Go    []float64 `json:"go"`
	Node  []float64 `json:"beside,omitempty"`
	Other string    `json:"other,omitempty"`
	// Ratio of Go to the other, at least; negative: at most. 0: no bar.
	Ratio float64 `json:"ratio,omitempty"`
}

func median(values []float64) float64 { return quantile(slices.Clone(values), 0.5) }

// ratio is the median of the rounds' ratios, since what disturbs the machine disturbs both sides of a round.
func (r *benchRow) ratio() float64 {
	if len(r.Node) == 0 {
		return 0
	}

	all := make([]float64, len(r.Go))
	for i := range r.Go {
		all[i] = r.Go[i] / r.Node[min(i, len(r.Node)-1)]
	}

	return median(all)
}

func (r *benchRow) verdict() string {
	switch ratio := r.ratio(); {
	case r.Ratio == 0:
		return "–"
	case r.Ratio > 0 && ratio >= r.Ratio, r.Ratio < 0 && ratio <= -r.Ratio:
		return "met"
	}

	return "**missed**"
}

func (r *benchRow) measured() string {
	own := fmt.Sprintf("%s %s", number3(median(r.Go)), r.Unit)
	if len(r.Node) == 0 {
		return own
	}

	return fmt.Sprintf("%s; %s %s; ratio %.3g", own, cmp.Or(r.Other, "Node"), number3(median(r.Node)), r.ratio())
}

// number3 writes three digits or more.
func number3(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}

	return fmt.Sprintf("%.3g", f)
}

// table is the report in Markdown.
func (r *benchReport) table() []byte {
	var b bytes.Buffer

	b.WriteString("| what | bar | Go | beside | ratio | |\n|---|---|---|---|---|---|\n")

	for _, row := range r.Rows {
		beside, ratio := "", ""
		if len(row.Node) > 0 {
			beside = number3(median(row.Node)) + " (" + cmp.Or(row.Other, "Node") + ")"
			ratio = fmt.Sprintf("%.3g", row.ratio())
		}

		fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s | %s |\n", row.Name, row.Bar, number3(median(row.Go)), row.Unit, beside, ratio, row.verdict())
	}

	b.WriteString("\nMachine:")

	names := make([]string, 0, len(r.Machine))
	for name := range r.Machine {
		names = append(names, name)
	}

	slices.Sort(names)

	for i, name := range names {
		if i > 0 {
			b.WriteString(",")
		}

		fmt.Fprintf(&b, " %s %s", name, r.Machine[name])
	}

	b.WriteString(".\n")

	return b.Bytes()
}

const (
	tableBegin = "<!-- table: written by make bench -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// replaceTable puts the table between its marks.
func replaceTable(file string, table []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	head, rest, found := strings.Cut(string(text), tableBegin)
	_, tail, ended := strings.Cut(rest, tableEnd)

	if !found || !ended {
		return fmt.Errorf("%s has no place for the table", file)
	}

	return os.WriteFile(file, []byte(head+tableBegin+string(table)+tableEnd+tail), 0o644)
}

// plot draws the rows that stand beside Node: a bar for each side, as long as its part of the larger one.
func (r *benchReport) plot() []byte {
	const width, left, line, rowHeight = 860, 330, 400.0, 58

	var b, rows bytes.Buffer

	y := 40

	for _, row := range r.Rows {
		if len(row.Node) == 0 || row.Other != "" && row.Other != "scripts alone" {
			continue
		}

		own, other := median(row.Go), median(row.Node)
		most := max(own, other)

		fmt.Fprintf(&rows, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-12, y+19, row.Name)
		drawBar(&rows, left, y, line*own/most, "#00758f", "Go "+number3(own)+" "+row.Unit)
		drawBar(&rows, left, y+20, line*other/most, "#b7b7b7", cmp.Or(row.Other, "Node")+" "+number3(other)+" "+row.Unit)

		y += rowHeight
	}

	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, y)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, y)
	fmt.Fprintf(&b, `<text x="12" y="22" font-weight="bold">queue beside BullMQ, medians of %d rounds</text>`+"\n", len(r.Rows[0].Go))
	b.Write(rows.Bytes())
	b.WriteString("</svg>\n")

	return b.Bytes()
}

func drawBar(to *bytes.Buffer, x, y int, length float64, color, label string) {
	fmt.Fprintf(to, `<rect x="%d" y="%d" width="%.1f" height="17" fill="%s"/>`+"\n", x, y, max(length, 1), color)
	fmt.Fprintf(to, `<text x="%.1f" y="%d" font-size="11">%s</text>`+"\n", float64(x)+length+6, y+13, label)
}

func describeMachine(k *kit) map[string]string {
	m := map[string]string{
		"cores": strconv.Itoa(runtime.NumCPU()), "Go": runtime.Version(), "on": time.Now().Format(time.DateOnly),
		"redis-server": k.r.InfoMap(k.t.Context(), "server").Item("Server", "redis_version"),
	}

	if out, err := exec.Command("node", "--version").Output(); err == nil {
		m["Node"] = strings.TrimSpace(string(out))
	}

	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m["CPU"] = strings.TrimSpace(value)
		}
	}

	return m
}
