#compdef onetool-ipy
# Completion of onetool-ipy for zsh. In ~/.zshrc, behind compinit: source <(onetool-ipy completion zsh)
_onetool_ipy() {
    local -a offers
    offers=("${(@f)$(onetool-ipy completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${offers[1]}" ]]; then compadd -a offers; else _files; fi
}
compdef _onetool_ipy onetool-ipy
