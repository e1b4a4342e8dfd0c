"""Commands about recorded sessions: sessions, report, replay, export, import, forecast."""
