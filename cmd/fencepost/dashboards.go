package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/dashboard"
)

func newDashboards(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "dashboards", Short: "Dashboards, rules and alerts for Grafana and Prometheus"}, newDashboardsExport(a))
}

// exported is one file that was written.
type exported struct {
	Path   string `json:"path"`
	Result string `json:"result"` // written, or unchanged
}

func newDashboardsExport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write Grafana's dashboards and Prometheus' rules and alerts into a folder",
		Long: `Write Grafana's dashboards with their provisioning (grafana/) and Prometheus' configuration, rules, alerts and
their tests (prometheus/) into a folder, which is made where it is missing. A file that is there with other content is
left as it is, and nothing is written, unless --force is given.`,
		Example: "  fencepost dashboards export ./monitoring\n  fencepost dashboards export ./monitoring --force -o json",
		Args:    arguments("DIR"),
	}
	force := cmd.Flags().Bool("force", false, "replace files that have other content")
	output := outputFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		done, err := export(dashboard.Files(), args[0], *force)
		if err != nil {
			return err
		}
		return cli.List(a.Out, *output, "files", done, []cli.Column[exported]{
			{Title: "PATH", Text: func(e exported) string { return e.Path }},
			{Title: "RESULT", Text: func(e exported) string { return e.Result }},
		})
	}
	return cmd
}

// export writes all files or, where one of them is in the way, none.
func export(from fs.FS, dir string, force bool) ([]exported, error) {
	var done []exported
	contents := make(map[string][]byte)
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		e := exported{Path: path, Result: "written"}
		switch there, err := os.ReadFile(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return cli.Fail("name a folder that can be written to", "%w", err)
		case string(there) == string(content):
			e.Result = "unchanged"
		case !force:
			return cli.Refuse("--force replaces it", "%s is there and differs; nothing was written", path)
		}
		if e.Result == "written" {
			contents[path] = content
		}
		done = append(done, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for path, content := range contents {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, cli.Fail("name a folder that can be written to", "%w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, cli.Fail("name a folder that can be written to", "%w", err)
		}
	}
	return done, nil
}
