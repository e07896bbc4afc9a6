# Completion of onetool-ipy for fish. Once: onetool-ipy completion fish > ~/.config/fish/completions/onetool-ipy.fish
function __onetool_ipy_offers
    set -l done (commandline -opc)
    set -l last (commandline -ct)
    set -l offers (onetool-ipy completion words -- $done[2..-1] "$last" 2>/dev/null)
    if set -q offers[1]
        printf '%s\n' $offers
    else
        __fish_complete_path "$last"
    end
end
complete -c onetool-ipy -f -a '(__onetool_ipy_offers)'
