"""The command line: one command per file, each imported only when it is called."""
