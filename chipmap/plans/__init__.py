"""Plans: mappings as runtimes take them (``emit``) and as people have them (``adopt``), one module per format."""
