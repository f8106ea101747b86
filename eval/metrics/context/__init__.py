"""Metrics of the context: what the model would see after windows and history. One module each."""
