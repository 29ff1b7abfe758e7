// Command dashboards writes the Grafana dashboards into its own folder. `make
// dashboards` calls it. Import the files into Grafana. To change them, change
// panels.go.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("deploy/dashboards"); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	for _, b := range boards() {
		text, err := b.render()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, b.file()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// board is one dashboard: rows of panels.
type board struct {
	uid, title string
	rows       []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a graph over time of one or several queries.
type panel struct {
	title   string
	about   string // what the panel shows and which values are bad
	unit    string // Grafana's name of the unit
	queries []query
}

type query struct {
	expr, legend string
}

func (b board) file() string { return b.uid + ".json" }

// object is a JSON object of Grafana.
type object = map[string]any

const (
	panelsOfRow = 3
	gridWidth   = 24
	panelHeight = 8
)

func (b board) render() ([]byte, error) {
	document := object{
		"uid": b.uid, "title": b.title, "tags": []string{"logboom"}, "schemaVersion": 39, "editable": true,
		"refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "",
		"templating": object{"list": []object{{
			"name": "source", "label": "Source", "type": "datasource", "query": "prometheus",
		}}},
		"panels": b.panels(),
	}
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}

// panels lays the rows out, three panels beside each other.
func (b board) panels() []object {
	var all []object
	y := 0
	for _, r := range b.rows {
		all = append(all, object{"id": len(all) + 1, "type": "row", "title": r.title, "collapsed": false, "gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1}})
		y++
		for i, p := range r.panels {
			at := object{"x": i % panelsOfRow * gridWidth / panelsOfRow, "y": y + i/panelsOfRow*panelHeight, "w": gridWidth / panelsOfRow, "h": panelHeight}
			all = append(all, p.render(len(all)+1, at))
		}
		y += (len(r.panels) + panelsOfRow - 1) / panelsOfRow * panelHeight
	}
	return all
}

func (p panel) render(id int, at object) object {
	source := object{"type": "prometheus", "uid": "${source}"}
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": source}
	}
	return object{
		"id": id, "type": "timeseries", "title": p.title, "description": p.about, "datasource": source, "gridPos": at,
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi"}},
		"targets":     targets,
	}
}
