"""Device maps: module -> device, as accelerate and transformers take them."""
