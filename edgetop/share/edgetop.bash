# Completion of edgetop for bash: the script of the edgetop that is installed.
eval "$(edgetop completion bash 2>/dev/null)"
