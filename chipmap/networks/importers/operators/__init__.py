"""What operators cost: rules, formulas, and the tables of ATen and ONNX."""
