package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// EnvPrefix starts the name of every environment variable of ours.
const EnvPrefix = "FENCEPOST_"

// maxFile bounds configuration and secret files, in bytes.
const maxFile = 1 << 20

const (
	settingMark = "fencepost_setting"
	secretMark  = "fencepost_secret"
)

// Setting is the effective value of one setting and where it came from. A secret's value is masked.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // "default", "flag", "env FENCEPOST_...", "file PATH"
}

// Settings marks every flag that define adds as a setting: one that may also come from the environment and the file.
// What belongs to one call alone, such as the id of a task, is a plain flag.
func Settings(flags *pflag.FlagSet, define func(*pflag.FlagSet)) {
	added := pflag.NewFlagSet("", pflag.ContinueOnError)
	define(added)
	added.VisitAll(func(f *pflag.Flag) {
		annotate(f, settingMark)
	})
	flags.AddFlagSet(added)
}

// MaskURL marks a setting whose value is a connection URL that may carry a password.
func MaskURL(flags *pflag.FlagSet, name string) {
	annotate(flags.Lookup(name), secretMark)
}

func annotate(f *pflag.Flag, mark string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[mark] = []string{"true"}
}

// Env is the environment variable of a setting.
func Env(name string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Names lists the settings of a flag set.
func Names(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[settingMark] != nil {
			names = append(names, f.Name)
		}
	})
	return names
}

// Load sets each setting that was not given as a flag from the environment, else from the file (none when path is
// empty), and returns all of them in the order of their names. known are the settings of all verbs: one file serves them
// all, and any other key in it is an error. Every error is a usage error that names the variable, or the file and key.
func Load(flags *pflag.FlagSet, known []string, env func(string) (string, bool), path string) ([]Setting, error) {
	file, err := readFile(path, known)
	if err != nil {
		return nil, err
	}
	var list []Setting
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[settingMark] == nil || failed != nil {
			return
		}
		source := "default"
		if f.Changed {
			source = "flag"
		} else if v, ok := env(Env(f.Name)); ok && v != "" {
			// An empty variable counts as not set: that is how compose files and shells pass what is not given.
			source = "env " + Env(f.Name)
			failed = set(flags, f, v, Env(f.Name))
		} else if v, ok := file[f.Name]; ok {
			source = "file " + path
			failed = set(flags, f, v, path+": "+f.Name)
		}
		list = append(list, Setting{Name: f.Name, Value: shown(f), Source: source})
	})
	if failed != nil {
		return nil, failed
	}
	return list, nil
}

func set(flags *pflag.FlagSet, f *pflag.Flag, value, where string) error {
	err := flags.Set(f.Name, value)
	if err == nil {
		return nil
	}
	// pflag's message repeats the value and names the flag; neither is right here. Its cause is.
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if f.Annotations[secretMark] != nil {
		return Usage("", "%s: cannot be used", where)
	}
	return Usage("", "%s: %q: %v", where, value, err)
}

// readFile reads a flat YAML mapping of setting names to values; a list is a comma-separated value.
func readFile(path string, known []string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, Usage("", "--config: %v", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, Usage("", "%s: %v", path, err)
	}
	if root.Kind == 0 {
		return nil, nil // empty, or only comments
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, Usage("one setting a line, for example: kafka-brokers: localhost:9092", "%s: line %d: want a mapping of settings to values", path, top.Line)
	}
	values := map[string]string{}
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if !slices.Contains(known, key.Value) {
			hint := "`fencepost config show` lists the settings"
			if slices.Contains(known, key.Value+"-file") {
				hint = "secrets do not belong into this file: set " + Env(key.Value) + ", or " + key.Value + "-file"
			} else if near := Nearest(key.Value, known); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, Usage(hint, "%s: line %d: unknown setting %q", path, key.Line, key.Value)
		}
		if _, twice := values[key.Value]; twice {
			return nil, Usage("", "%s: line %d: %s is set twice", path, key.Line, key.Value)
		}
		text, err := scalar(value)
		if err != nil {
			return nil, Usage("", "%s: line %d: %s: %v", path, value.Line, key.Value, err)
		}
		values[key.Value] = text
	}
	return values, nil
}

func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", errors.New("has no value")
		}
		return n.Value, nil
	case yaml.SequenceNode:
		words := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("want a list of plain values")
			}
			words[i] = item.Value
		}
		return strings.Join(words, ","), nil
	}
	return "", errors.New("want a plain value or a list")
}

// Secret reads a secret that is never a flag's value: from the environment variable of name, else from the file that the
// setting name-file points at. It returns "" when neither is given.
func Secret(name, file string, env func(string) (string, bool)) (string, Setting, error) {
	s := Setting{Name: name, Source: "default"}
	if v, ok := env(Env(name)); ok && v != "" {
		s.Value, s.Source = mask, "env "+Env(name)
		return v, s, nil
	}
	if file == "" {
		return "", s, nil
	}
	text, err := readBounded(file)
	if err != nil {
		return "", s, Usage("", "--%s-file: %v", name, err)
	}
	v := strings.TrimSpace(string(text))
	if v == "" {
		return "", s, Usage("", "--%s-file: %s is empty", name, file)
	}
	s.Value, s.Source = mask, "file "+file
	return v, s, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			return nil, fmt.Errorf("%s: %w", pe.Path, pe.Err)
		}
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s: is a folder", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}
