"""The best values and bounds that are known of an instance, shipped with the package: found by its content hash."""
