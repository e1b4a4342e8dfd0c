"""Commands about this board and about model files: doctor, sensors, service, inspect."""
