"""Reading ONNX models: what stands behind :mod:`chipmap.instances.importers.onnx_model`."""
