"""The command line: parsed arguments, one call into the api, one answer. A module per command."""
