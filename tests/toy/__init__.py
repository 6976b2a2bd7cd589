"""A family added by the checklist of ``CONTRIBUTING.md``."""
