# Completion of edgetop for fish: the script of the edgetop that is installed.
edgetop completion fish 2>/dev/null | source
