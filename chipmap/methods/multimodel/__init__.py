"""The methods of family ``multimodel``."""
