function __fish_shedlock_names
    set -l beginning (string unescape -- (string replace -r -- '^--name=' '' (commandline -ct)))
    command shedlock @WORD@ "$beginning" (commandline -opc) 2>/dev/null
end

function __fish_shedlock_backends
    command shedlock @BACKENDS@ (string unescape -- (string replace -r -- '^--backend=' '' (commandline -ct))) 2>/dev/null
end
