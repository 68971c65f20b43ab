"""Files, folders and what stands in them: file, template, directory, line, toml.merge."""
