# Completion of onetool-ipy for bash. In ~/.bashrc: source <(onetool-ipy completion bash)
_onetool_ipy() {
    local IFS=$'\n'
    COMPREPLY=($(onetool-ipy completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/.] ]]; then compopt -o nospace; fi
}
complete -o default -F _onetool_ipy onetool-ipy
