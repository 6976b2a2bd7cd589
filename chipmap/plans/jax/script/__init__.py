"""Source that programs of format ``jax`` take over: these functions run without chipmap, and need JAX."""
