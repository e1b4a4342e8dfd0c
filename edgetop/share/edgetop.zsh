#compdef edgetop
# Completion of edgetop for zsh: the script of the edgetop that is installed.
eval "$(edgetop completion zsh 2>/dev/null)"
(( $+functions[_edgetop_completion] )) && _edgetop_completion "$@"
