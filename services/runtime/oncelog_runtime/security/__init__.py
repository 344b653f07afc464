"""Who may do what: rules and their meaning (`core`, pure), and the shells that read, ask and record."""
