# Completion of onetool-ipy for fish. Once: onetool-ipy completion fish > ~/.config/fish/completions/onetool-ipy.fish
function __onetool_ipy_offers
    set -l done (commandline -opc)
    set -l last (commandline -ct)
    onetool-ipy completion words -- $done[2..-1] "$last" 2>/dev/null
end
complete -c onetool-ipy -a '(__onetool_ipy_offers)'
