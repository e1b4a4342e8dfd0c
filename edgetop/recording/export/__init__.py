"""Export: a recording, or a part of it, as what other tools read. One function a format."""
