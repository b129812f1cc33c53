package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
)

func newConfig(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "Look at the configuration"}, newConfigShow(a))
}

func newConfigShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every setting in effect and where it comes from",
		Long: `Print every setting in effect and where it comes from: a flag, an environment variable, the configuration file, or
the default. Passwords and keys are masked.`,
		Example: "  fencepost config show\n  fencepost config show --config fencepost.yaml -o yaml",
		Args:    arguments(),
	}
	var (
		kafka    kafkaSettings
		postgres postgresSettings
		llm      llmSettings
		roles    roleSettings
		node     nodeSettings
		data     devSettings
	)
	settingsFor(cmd, roles.flags, kafka.flags, postgres.flags, llm.flags, node.flags, data.flags)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		list := a.settings
		for _, s := range []struct{ name, file string }{
			{"kafka-sasl-password", kafka.passwordFile}, {"llm-api-key", llm.apiKeyFile},
		} {
			_, setting, err := cli.Secret(s.name, s.file, a.LookupEnv)
			if err != nil {
				return err
			}
			list = append(list, setting)
		}
		slices.SortFunc(list, func(a, b cli.Setting) int { return cmp.Compare(a.Name, b.Name) })
		return cli.List(a.Out, *output, "settings", list, []cli.Column[cli.Setting]{
			{Title: "SETTING", Text: func(s cli.Setting) string { return s.Name }},
			{Title: "VALUE", Text: func(s cli.Setting) string { return s.Value }},
			{Title: "SOURCE", Text: func(s cli.Setting) string { return s.Source }},
		})
	}
	return cmd
}
