"""The screen shows frozen views. The only importer of Textual.

Panes are functions from a view and a size to lines of text: they own no timer, thread, feed
or unit conversion. One timer pulls from the feed; only lines that changed are drawn.
"""
