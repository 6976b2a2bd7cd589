"""Format ``onnx``: a model with multi-device annotations, and a model per chip."""
