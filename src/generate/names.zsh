(( $+functions[_shedlock_names] )) ||
_shedlock_names() {
    local -a names
    names=(${(f)"$(command shedlock @WORD@ "${(Q)PREFIX}" "${(@Q)${(@z)LBUFFER}}" 2>/dev/null)"})
    compadd -a names
}

(( $+functions[_shedlock_backends] )) ||
_shedlock_backends() {
    local -a urls
    urls=(${(f)"$(command shedlock @BACKENDS@ "${(Q)PREFIX}" 2>/dev/null)"})
    compadd -S '' -a urls
}
