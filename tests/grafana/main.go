// Reads a dashboard by Grafana's own types: unknown keys, and values that no type takes, are errors.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	raw, err := io.ReadAll(os.Stdin)
	board := dashboard.Dashboard{}
	if err == nil {
		err = board.UnmarshalJSONStrict(raw)
	}
	// A list of no errors is an error without a text.
	if err == nil || err.Error() == "" {
		err = board.Validate()
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
