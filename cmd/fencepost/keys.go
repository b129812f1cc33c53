package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
)

func newKeys(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "keys", Short: "Manage API keys"}, newKeysCreate(a), newKeysList(a), newKeysRevoke(a))
}

// apiKey is the JSON form.
type apiKey struct {
	ID        uuid.UUID `json:"id"`
	Workspace string    `json:"workspace"`
	Name      string    `json:"name"`
	CreatedAt string    `json:"created_at"`
	RevokedAt string    `json:"revoked_at,omitempty"`
	Scopes    []string  `json:"scopes"`
	UsedAt    string    `json:"last_used_at,omitempty"` // to within a minute
	Secret    string    `json:"secret,omitempty"`       // only of a new one
}

func showKey(k tasks.Key) apiKey {
	out := apiKey{ID: k.ID, Workspace: k.Workspace, Name: k.Name, CreatedAt: cli.Time(k.CreatedAt), Scopes: words(k.Scopes)}
	if !k.UsedAt.IsZero() {
		out.UsedAt = cli.Time(k.UsedAt)
	}
	if k.Revoked() {
		out.RevokedAt = cli.Time(k.RevokedAt)
	}
	return out
}

var keyColumns = []cli.Column[apiKey]{
	{Title: "ID", Text: func(k apiKey) string { return k.ID.String() }},
	{Title: "WORKSPACE", Text: func(k apiKey) string { return k.Workspace }},
	{Title: "NAME", Text: func(k apiKey) string { return k.Name }},
	{Title: "CREATED", Text: func(k apiKey) string { return k.CreatedAt }},
	{Title: "SCOPES", Text: func(k apiKey) string { return strings.Join(k.Scopes, ",") }},
	{Title: "LAST USED", Text: func(k apiKey) string { return k.UsedAt }},
	{Title: "REVOKED", Text: func(k apiKey) string { return k.RevokedAt }},
}

func newKeysCreate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an API key and print its secret, once",
		Long: `Create an API key of a workspace and print its secret. Only a hash of it is stored, so it cannot be shown again.
Callers send it as "Authorization: Bearer fp_...". A key is good for everything unless --scopes says for what: submit
(messages, regenerate, cancel, chat completions), read (tasks, events, conversations, spend), admin.`,
		Example: "  fencepost keys create --workspace acme --name backend\n  fencepost keys create --workspace acme --name dashboard --scopes read",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	workspace := cmd.Flags().String("workspace", "", "`workspace` the key belongs to (required)")
	name := cmd.Flags().String("name", "", "what the key is for")
	scopes := cmd.Flags().StringSlice("scopes", words(tasks.Scopes), "what the key may be used for, `scope,...`")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(words(tasks.Scopes), cobra.ShellCompDirectiveNoFileComp))
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if *workspace == "" {
			return cli.Usage("fencepost keys create --workspace NAME", "--workspace is missing")
		}
		for _, text := range []struct{ flag, value string }{{"workspace", *workspace}, {"name", *name}} {
			if len(text.value) > tasks.MaxName || tasks.Clean(text.value) != text.value {
				return cli.Usage("", "--%s: at most %d bytes of text", text.flag, tasks.MaxName)
			}
		}
		named, err := readScopes(*scopes)
		if err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		secret := tasks.NewKey()
		key, err := store.CreateKey(cmd.Context(), *workspace, *name, tasks.HashKey(secret), named...)
		if err != nil {
			return storeError(err)
		}
		shown := showKey(key)
		shown.Secret = secret
		secretColumn := cli.Column[apiKey]{Title: "SECRET", Text: func(k apiKey) string { return k.Secret }}
		if err := cli.One(a.Out, *output, shown, append(keyColumns[:5:5], secretColumn)); err != nil {
			return err
		}
		if a.OutTTY {
			a.note("The secret is not stored and will not be shown again.")
		}
		return nil
	}
	return cmd
}

func readScopes(list []string) ([]tasks.Scope, error) {
	all := words(tasks.Scopes)
	if len(list) == 0 { // to the store that would be all of them
		return nil, cli.Usage("one or more of: "+strings.Join(all, ", "), "--scopes is empty")
	}
	var scopes []tasks.Scope
	for _, word := range list {
		if !slices.Contains(all, word) {
			return nil, cli.Usage("one or more of: "+strings.Join(all, ", "), "--scopes: unknown scope %q", word)
		}
		scopes = append(scopes, tasks.Scope(word))
	}
	return scopes, nil
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func newKeysList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List API keys, without their secrets",
		Example: "  fencepost keys list --workspace acme",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	workspace := cmd.Flags().String("workspace", "", "only keys of this `workspace`")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		keys, err := store.ListKeys(cmd.Context(), *workspace)
		if err != nil {
			return storeError(err)
		}
		list := make([]apiKey, len(keys))
		for i, k := range keys {
			list[i] = showKey(k)
		}
		return cli.List(a.Out, *output, "keys", list, keyColumns)
	}
	return cmd
}

func newKeysRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke an API key",
		Long:    "Revoke an API key. Running API processes notice within seconds. Revoking twice changes nothing.",
		Example: "  fencepost keys revoke 0190163d-8694-739b-aea5-966c26f8ad91",
		Args:    arguments("ID"),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		id, err := parseID(args[0])
		if err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		if err := store.RevokeKey(cmd.Context(), id); err != nil {
			if errors.Is(err, tasks.ErrNotFound) {
				return cli.Fail("fencepost keys list", "there is no key %s", id)
			}
			return storeError(err)
		}
		a.note("key %s is revoked", id)
		return nil
	}
	return cmd
}

func parseID(word string) (uuid.UUID, error) {
	id, err := uuid.Parse(word)
	if err != nil || len(word) != 36 {
		return uuid.Nil, cli.Usage("an id looks like 0190163d-8694-739b-aea5-966c26f8ad91", "%q is not an id", word)
	}
	return id, nil
}

// storeError adds what to do to a failure of the store.
func storeError(err error) error {
	switch {
	case errors.Is(err, tasks.ErrSchema):
		return cli.Refuse("fencepost migrate up", "%w", err)
	case errors.Is(err, tasks.ErrUnavailable):
		return cli.Fail("check --postgres-url (or FENCEPOST_POSTGRES_URL) and that Postgres runs there", "%w", err)
	}
	return err
}
