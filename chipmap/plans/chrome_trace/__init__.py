"""Chrome traces: a mapping in time, for Perfetto (ui.perfetto.dev) and chrome://tracing."""
